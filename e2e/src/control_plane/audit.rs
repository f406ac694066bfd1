//! What the API server was asked, by whom, from its own audit log.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// One answered request. A watch counts once, when its answer begins.
#[derive(Clone, Debug)]
pub struct Call {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Plural, for example `pods`.
    pub resource: String,
    /// The API group, empty for the core group.
    pub group: String,
    /// For example `status`, `binding`; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects and for requests over all namespaces.
    pub namespace: String,
    /// Empty for lists and for creates with a generated name.
    pub name: String,
    /// For example `system:serviceaccount:first-consumer:first-consumer`.
    pub user: String,
    /// The HTTP status.
    pub code: u16,
    /// When the API server got the request.
    pub received: Timestamp,
    /// When it had answered.
    pub answered: Timestamp,
    /// What was sent; the control plane records it only for updates and patches of persistentvolumeclaims.
    pub request_object: Option<Value>,
}

impl Call {
    /// Whether it read: get, list or watch.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Whether it succeeded.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Whether it is this verb on this resource itself, not on a subresource.
    #[must_use]
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource && self.subresource.is_empty()
    }

    /// The node that an update or patch of a claim carries as `selected-node`.
    #[must_use]
    pub fn selected_node(&self) -> Option<&str> {
        let object = self.request_object.as_ref()?;
        object
            .pointer("/metadata/annotations/volume.kubernetes.io~1selected-node")?
            .as_str()
    }
}

/// The audit log of an API server. It grows to tens of megabytes and many ask, so what has been read is kept.
#[derive(Debug)]
pub(super) struct AuditLog {
    file: PathBuf,
    read: Mutex<(u64, Calls)>,
}

impl AuditLog {
    pub(super) fn new(file: PathBuf) -> Self {
        Self {
            file,
            read: Mutex::default(),
        }
    }

    /// All calls so far, as far as the log is complete: the line that is just being written is left out.
    pub(super) fn calls(&self) -> Result<Calls> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let (length, calls) = &mut *read;
        let mut new = Vec::new();
        self.rest(*length, &mut new)
            .with_context(|| format!("cannot read {}", self.file.display()))?;
        let complete = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        calls.0.extend(Calls::parse(&new[..complete]).0);
        *length += u64::try_from(complete)?;
        Ok(calls.clone())
    }

    fn rest(&self, from: u64, bytes: &mut Vec<u8>) -> std::io::Result<()> {
        let mut file = File::open(&self.file)?;
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(bytes).map(drop)
    }
}

/// All calls in the order of their answers.
#[derive(Clone, Debug, Default)]
pub struct Calls(Vec<Arc<Call>>);

impl Calls {
    fn parse(log: &[u8]) -> Self {
        let lines = log.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice::<Line>(line).ok()?.call())
            .collect()
    }

    /// One after the other.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Call> + Clone {
        self.0.iter().map(|call| &**call)
    }

    /// The calls of one user.
    #[must_use]
    pub fn by(&self, user: &str) -> Self {
        self.filter(|call| call.user == user)
    }

    /// The calls that name one namespace.
    #[must_use]
    pub fn within(&self, namespace: &str) -> Self {
        self.filter(|call| call.namespace == namespace)
    }

    /// The calls that the API server got at or after a time.
    #[must_use]
    pub fn since(&self, time: Timestamp) -> Self {
        self.filter(|call| call.received >= time)
    }

    /// The calls with this verb on this resource itself.
    #[must_use]
    pub fn of(&self, verb: &str, resource: &str) -> Self {
        self.filter(|call| call.is(verb, resource))
    }

    /// How many calls with this verb on this resource itself have succeeded.
    #[must_use]
    pub fn succeeded(&self, verb: &str, resource: &str) -> usize {
        self.of(verb, resource).iter().filter(|call| call.is_ok()).count()
    }

    /// The calls that a predicate takes.
    #[must_use]
    pub fn filter(&self, take: impl Fn(&Call) -> bool) -> Self {
        Self(self.0.iter().filter(|call| take(call)).cloned().collect())
    }
}

impl FromIterator<Call> for Calls {
    fn from_iter<T: IntoIterator<Item = Call>>(calls: T) -> Self {
        Self(calls.into_iter().map(Arc::new).collect())
    }
}

impl std::ops::Deref for Calls {
    type Target = [Arc<Call>];

    fn deref(&self) -> &[Arc<Call>] {
        &self.0
    }
}

/// A line of the log, as far as it is used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    user: LineUser,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<ResponseStatus>,
    request_object: Option<Value>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct LineUser {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    api_group: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    code: Option<u16>,
}

impl Line {
    fn call(self) -> Option<Call> {
        let code = self.response_status.and_then(|status| status.code)?;
        let refused = code >= 400;
        // A watch has no end worth waiting for; one that was refused never started.
        let counted = if self.verb == "watch" && !refused {
            "ResponseStarted"
        } else {
            "ResponseComplete"
        };
        (self.stage == counted).then_some(Call {
            verb: self.verb,
            resource: self.object_ref.resource,
            group: self.object_ref.api_group,
            subresource: self.object_ref.subresource,
            namespace: self.object_ref.namespace,
            name: self.object_ref.name,
            user: self.user.username,
            code,
            received: self.request_received_timestamp,
            answered: self.stage_timestamp,
            request_object: self.request_object,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(stage: &str, verb: &str, code: u16) -> String {
        let claim = serde_json::json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-1"}}});
        serde_json::json!({
            "stage": stage, "verb": verb, "user": {"username": "someone"}, "responseStatus": {"code": code},
            "objectRef": {"resource": "persistentvolumeclaims", "namespace": "here", "name": "disk"},
            "requestObject": claim, "requestReceivedTimestamp": "2026-11-29T10:00:00.000001Z",
            "stageTimestamp": "2026-11-29T10:00:00.250001Z",
        })
        .to_string()
    }

    #[test]
    fn a_watch_counts_when_it_starts_and_everything_else_when_it_ends() {
        let log = [
            line("ResponseStarted", "watch", 200),
            line("ResponseComplete", "watch", 200),
            line("ResponseComplete", "watch", 403),
            line("ResponseComplete", "update", 200),
        ];
        let calls = Calls::parse(log.join("\n").as_bytes());
        let seen: Vec<_> = calls.iter().map(|call| (call.verb.as_str(), call.code)).collect();
        assert_eq!(seen, [("watch", 200), ("watch", 403), ("update", 200)]);
        assert_eq!(calls[2].selected_node(), Some("node-1"));
        assert_eq!((calls[2].answered - calls[2].received).get_milliseconds(), 250);
    }

    #[test]
    fn a_half_written_line_is_left_out_until_it_is_whole() -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        let log = AuditLog::new(file.path().to_owned());
        let whole = line("ResponseComplete", "patch", 200) + "\n";
        let (begin, end) = whole.split_at(whole.len() / 2);
        std::fs::write(file.path(), whole.clone() + begin)?;
        assert_eq!(log.calls()?.within("here").by("someone").len(), 1);
        assert_eq!(log.calls()?.len(), 1);
        std::fs::write(file.path(), whole.clone() + begin + end)?;
        assert_eq!(log.calls()?.len(), 2);
        assert!(log.calls()?.since(Timestamp::now()).is_empty());
        Ok(())
    }
}

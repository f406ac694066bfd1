//! What may be asked of the API server.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;

use crate::control_plane::{Call, Calls};

/// How many requests our controller may make in a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Pods created.
    pub creates: usize,
    /// Pods deleted.
    pub deletes: usize,
    /// Events written, at most.
    pub events: usize,
}

/// What a served VM costs (design section 11).
pub const SERVED_ONCE: Requests = Requests {
    creates: 1,
    deletes: 1,
    events: 3,
};

/// What a VM costs that is not ours to serve.
pub const UNTOUCHED: Requests = Requests {
    creates: 0,
    deletes: 0,
    events: 0,
};

impl Requests {
    /// What so many subjects cost that cost this each.
    #[must_use]
    pub fn times(self, subjects: usize) -> Self {
        Self {
            creates: self.creates * subjects,
            deletes: self.deletes * subjects,
            events: self.events * subjects,
        }
    }

    /// Fails unless these were the pods made and deleted and the Events told, nothing else was written (see [`nothing_else_written`]),
    /// and since our controller was ready there was no read and no request failed, expansions apart.
    pub fn check(self, calls: &Calls, ready_at: Timestamp) -> Result<()> {
        let events = calls.filter(|call| call.resource == "events").len();
        let found = Self {
            creates: calls.succeeded("create", "pods"),
            deletes: calls.succeeded("delete", "pods"),
            events,
        };
        let within = found.creates == self.creates && found.deletes == self.deletes && found.events <= self.events;
        ensure!(within, "{found:?} instead of {self:?}");
        nothing_else_written(calls)?;
        // Of an earlier, killed controller the last request may have failed with it.
        let calls = calls.since(ready_at);
        let failed = calls.filter(|call| !call.is_ok() && call.subresource != "expand-spec");
        ensure!(failed.is_empty(), "failed requests: {failed:?}");
        let reads = calls.filter(|call| matches!(&*call.verb, "get" | "list") && call.subresource != "expand-spec");
        ensure!(reads.is_empty(), "reads after the start: {reads:?}");
        Ok(())
    }
}

/// Fails if one of these calls writes what the controller never does, successful or not: it creates and deletes pods, tells
/// Events and counts on them, and keeps its own Lease (design section 3). Any other object, any subresource is nobody's
/// business.
pub(crate) fn nothing_else_written(calls: &Calls) -> Result<()> {
    let ours = |call: &Call| match (&*call.resource, &*call.subresource) {
        ("pods", "") => matches!(&*call.verb, "create" | "delete"),
        ("events", "") => matches!(&*call.verb, "create" | "patch"),
        ("leases", "") => true,
        _ => false,
    };
    let other = calls.filter(|call| !call.is_read() && !ours(call));
    ensure!(other.is_empty(), "we wrote what we never do: {other:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: &str, resource: &str, subresource: &str) -> Call {
        Call {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            group: String::new(),
            subresource: subresource.to_owned(),
            namespace: String::new(),
            name: String::new(),
            user: String::new(),
            code: 403,
            received: Timestamp::UNIX_EPOCH,
            answered: Timestamp::UNIX_EPOCH,
            request_object: None,
        }
    }

    #[test]
    fn a_write_of_anything_else_is_found() {
        let found = |call: Call| nothing_else_written(&[call].into_iter().collect()).is_err();
        for (verb, resource, subresource) in [
            ("create", "pods", ""),
            ("delete", "pods", ""),
            ("create", "events", ""),
            ("patch", "events", ""),
            ("patch", "leases", ""),
            ("get", "virtualmachines", "expand-spec"),
            ("watch", "persistentvolumes", ""),
        ] {
            assert!(
                !found(call(verb, resource, subresource)),
                "{verb} {resource}/{subresource}"
            );
        }
        for (verb, resource, subresource) in [
            ("patch", "persistentvolumeclaims", ""),
            ("delete", "persistentvolumes", ""),
            ("update", "datavolumes", ""),
            ("patch", "virtualmachines", ""),
            ("patch", "pods", ""),
            ("deletecollection", "pods", ""),
            ("create", "pods", "binding"),
            ("patch", "pods", "status"),
            ("delete", "events", ""),
        ] {
            assert!(
                found(call(verb, resource, subresource)),
                "{verb} {resource}/{subresource}"
            );
        }
    }
}

//! The writes of a fake API server, with the rules that clients rely on
//! (`staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go`, Kubernetes 1.36).

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::failure::Failure;
use super::rules::{contested, defaults, deleting, grace, one_controller, prune, set, suffix, time};
use super::store::{Does, Id, Litter, Store, uid};
use crate::stand_in::kind::Kind;

/// Where a write goes, and whose it is.
pub struct Write<'a> {
    /// The object.
    pub id: Id,
    /// Only its status.
    pub status: bool,
    /// Who writes.
    pub user: &'a Arc<str>,
}

type Written = Result<Arc<Value>, Failure>;

/// How a deletion is asked for.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// Seconds.
    pub grace: Option<i64>,
    /// Only the object with this UID.
    pub uid: Option<String>,
    /// Only this version.
    pub version: Option<String>,
}

impl Deletion {
    /// Reads `DeleteOptions`; propagation is always in the background.
    #[must_use]
    pub fn read(options: &Value) -> Self {
        let precondition = |name: &str| options["preconditions"][name].as_str().map(str::to_owned);
        Self {
            grace: options["gracePeriodSeconds"].as_i64(),
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
        }
    }
}

impl Store {
    /// Creates an object. The name may be left to the server (`generateName`).
    pub fn create(&mut self, mut id: Id, mut body: Value, user: &Arc<str>) -> Written {
        let plural = id.kind.resource().plural;
        if !body["metadata"].is_object() {
            return Err(Failure::new(400, "an object without metadata"));
        }
        let named = |field: &str| body["metadata"][field].as_str().unwrap_or_default().to_owned();
        self.serial += 1;
        id.name = match (named("name"), named("generateName")) {
            (name, generate) if name.is_empty() && !generate.is_empty() => {
                format!("{generate}{}", suffix(self.serial))
            }
            (name, _) if name.is_empty() => return Err(Failure::new(422, "name or generateName is required")),
            (name, _) => name,
        };
        self.admits(&id)?;
        if self.get(id.kind, &id.namespace, &id.name).is_some() {
            return Err(Failure::already_exists(&plural, &id.name));
        }
        let now = time(self.clock.now());
        let meta = &mut body["metadata"];
        meta["name"] = json!(id.name);
        if !id.namespace.is_empty() {
            meta["namespace"] = json!(id.namespace);
        }
        meta["uid"] = json!(format!("00000000-0000-4000-8000-{:012x}", self.serial));
        meta["creationTimestamp"] = json!(now);
        meta["generation"] = json!(1);
        if let Some(meta) = meta.as_object_mut() {
            meta.remove("deletionTimestamp");
            meta.remove("managedFields");
        }
        let types = id.kind.types();
        body["apiVersion"] = json!(types.api_version);
        body["kind"] = json!(types.kind);
        defaults(id.kind, &mut body);
        prune(&mut body);
        one_controller(&body)?;
        Ok(self.commit(id, Does::Add, body, user))
    }

    /// Nothing is made in a Namespace that is not there or goes away.
    fn admits(&self, id: &Id) -> Result<(), Failure> {
        if id.namespace.is_empty() {
            return Ok(());
        }
        let Some(namespace) = self.get(Kind::Namespace, "", &id.namespace) else {
            return Err(Failure::not_found("namespaces", &id.namespace));
        };
        if deleting(namespace) {
            let text = format!(
                "{} \"{}\" is forbidden: unable to create new content in namespace {} because it is being terminated",
                id.kind.resource().plural,
                id.name,
                id.namespace
            );
            return Err(Failure::new(403, text));
        }
        Ok(())
    }

    /// The object that a write is about.
    fn found(&self, id: &Id) -> Written {
        self.get(id.kind, &id.namespace, &id.name)
            .cloned()
            .ok_or_else(|| Failure::not_found(&id.kind.resource().plural, &id.name))
    }

    /// Replaces an object; with a version in its metadata only if that is still the newest.
    pub fn update(&mut self, write: &Write, mut body: Value) -> Written {
        let plural = write.id.kind.resource().plural;
        let old = self.found(&write.id)?;
        let meta = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let version = meta(&body, "resourceVersion");
        if !version.is_empty() && version != meta(&old, "resourceVersion") {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Failure::conflict(&plural, &write.id.name, why));
        }
        if !["", uid(&old)].contains(&uid(&body)) {
            return Err(Failure::conflict(
                &plural,
                &write.id.name,
                "Precondition failed: UID in precondition",
            ));
        }
        if write.status {
            let status = body["status"].take();
            body = (*old).clone();
            body["status"] = status;
        } else if write.id.kind.has_status() {
            set(&mut body, "status", old.get("status").cloned());
        }
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "name",
            "namespace",
        ] {
            let kept = old["metadata"].get(field).cloned();
            set(&mut body["metadata"], field, kept);
        }
        body["apiVersion"] = old["apiVersion"].clone();
        body["kind"] = old["kind"].clone();
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
        let changed = i64::from(!write.status && body["spec"] != old["spec"]);
        body["metadata"]["generation"] = json!(generation + changed);
        body["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        prune(&mut body);
        one_controller(&body)?;
        if body == *old {
            return Ok(old);
        }
        Ok(self.settle(&write.id, body, write.user))
    }

    /// Merges a patch into an object; strategic ones count as merge patches.
    pub fn merge(&mut self, write: &Write, patch: &Value) -> Written {
        let mut body = (*self.found(&write.id)?).clone();
        json_patch::merge(&mut body, patch);
        self.patched(write, patch, body)
    }

    /// Applies a JSON patch.
    pub fn json_patch(&mut self, write: &Write, patch: &Value) -> Written {
        let mut body = (*self.found(&write.id)?).clone();
        let unfit = |error: &dyn std::fmt::Display| Failure::new(422, format!("the patch does not fit: {error}"));
        let operations: json_patch::Patch = serde_json::from_value(patch.clone()).map_err(|error| unfit(&error))?;
        json_patch::patch(&mut body, &operations).map_err(|error| unfit(&error))?;
        self.patched(write, &Value::Null, body)
    }

    /// A patch is a conflict only if it names a version.
    fn patched(&mut self, write: &Write, patch: &Value, mut body: Value) -> Written {
        if patch["metadata"]["resourceVersion"].is_null() {
            set(&mut body["metadata"], "resourceVersion", None);
        }
        self.update(write, body)
    }

    /// Server-side apply, as far as candidates for a Lease need it: a field that somebody has set to another value is a
    /// conflict, and what is not there is made.
    pub fn apply(&mut self, write: &Write, patch: &Value, force: bool) -> Written {
        let Ok(found) = self.found(&write.id) else {
            let mut body = patch.clone();
            body["metadata"]["name"] = json!(write.id.name);
            return self.create(write.id.clone(), body, write.user);
        };
        if !force && let Some(field) = contested(&patch["spec"], &found["spec"]) {
            let why = format!("Apply failed with 1 conflict: conflict with another manager: .spec.{field}");
            return Err(Failure::new(409, why));
        }
        self.merge(write, patch)
    }

    /// Gives a pod its node, once.
    pub fn bind(&mut self, write: &Write, binding: &Value) -> Written {
        let old = self.found(&write.id)?;
        let plural = write.id.kind.resource().plural;
        if old["spec"]["nodeName"].is_string() {
            return Err(Failure::conflict(
                &plural,
                &write.id.name,
                "pod is already assigned to a node",
            ));
        }
        if deleting(&old) {
            return Err(Failure::conflict(
                &plural,
                &write.id.name,
                "pod is being deleted, cannot be assigned to a host",
            ));
        }
        let mut body = (*old).clone();
        body["spec"]["nodeName"] = binding["target"]["name"].clone();
        let at = time(self.clock.now());
        body["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]);
        Ok(self.settle(&write.id, body, write.user))
    }

    /// Deletes an object, or marks it while a grace period or finalizers hold it.
    pub fn delete(&mut self, id: &Id, asked: &Deletion, user: &Arc<str>) -> Written {
        let plural = id.kind.resource().plural;
        let old = self.found(id)?;
        if let Some(wanted) = asked.uid.as_deref().filter(|wanted| *wanted != uid(&old)) {
            let why = format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {}",
                uid(&old)
            );
            return Err(Failure::conflict(&plural, &id.name, &why));
        }
        if asked.version.is_some() && asked.version.as_deref() != old["metadata"]["resourceVersion"].as_str() {
            let why = "Precondition failed: ResourceVersion in precondition";
            return Err(Failure::conflict(&plural, &id.name, why));
        }
        let grace = grace(id.kind, &old, asked.grace);
        let running = old["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if deleting(&old) && running.is_none_or(|running| running <= grace) {
            return Ok(old);
        }
        let mut body = (*old).clone();
        let at = self
            .clock
            .now()
            .checked_add(std::time::Duration::from_secs(grace.unsigned_abs()));
        body["metadata"]["deletionTimestamp"] = json!(time(at.unwrap_or(Timestamp::MAX)));
        body["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        if id.kind == Kind::Namespace {
            body["status"]["phase"] = json!("Terminating");
            self.litters(Litter::Namespace(id.name.clone()));
        }
        Ok(self.settle(id, body, user))
    }

    /// Writes an object, or removes it if it is being deleted and nothing holds it any more.
    fn settle(&mut self, id: &Id, body: Value, user: &Arc<str>) -> Arc<Value> {
        let meta = &body["metadata"];
        let held = meta["finalizers"].as_array().is_some_and(|held| !held.is_empty())
            || meta["deletionGracePeriodSeconds"]
                .as_i64()
                .is_some_and(|grace| grace > 0)
            || (id.kind == Kind::Namespace && !self.is_empty(&id.name));
        let does = if deleting(&body) && !held {
            Does::Delete
        } else {
            Does::Modify
        };
        let written = self.commit(id.clone(), does, body, user);
        if does == Does::Delete
            && self
                .get(Kind::Namespace, "", &id.namespace)
                .is_some_and(|found| deleting(found))
        {
            self.litters(Litter::Namespace(id.namespace.clone()));
        }
        written
    }

    /// Everything in a Namespace.
    pub(super) fn list_all<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = Id> + 'a {
        let kinds = Kind::ALL.into_iter().filter(|kind| kind.in_namespaces());
        kinds.flat_map(move |kind| self.list(kind, namespace, None).map(|(id, _)| id.clone()))
    }

    fn is_empty(&self, namespace: &str) -> bool {
        self.list_all(namespace).next().is_none()
    }

    /// Removes a Namespace that is being deleted and empty.
    pub(super) fn finish(&mut self, namespace: &str, user: &Arc<str>) {
        let id = Id {
            kind: Kind::Namespace,
            namespace: String::new(),
            name: namespace.to_owned(),
        };
        if let Ok(found) = self.found(&id)
            && deleting(&found)
            && self.is_empty(namespace)
        {
            self.settle(&id, (*found).clone(), user);
        }
    }
}

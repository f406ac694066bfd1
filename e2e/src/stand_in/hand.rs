//! The writing hand of a stand-in: every write goes to the API server and, once answered, into the store.

use super::{
    kind::Kind,
    store::{Key, Object, Store},
};
use crate::world::objects::Note;
use anyhow::{Context as _, Result};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Now, as the API writes times.
#[must_use]
pub fn now() -> String {
    k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// A controller owner reference, as JSON.
#[must_use]
pub fn owner(object: &DynamicObject, kind: Kind) -> Value {
    let meta = &object.metadata;
    json!({
        "apiVersion": kind.types().api_version, "kind": kind.name(), "name": meta.name, "uid": meta.uid,
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Object, component, reason and message of an event: what makes it the same event again.
type Said = (String, &'static str, String, String);

/// Client and store of one stand-in.
pub struct Hand {
    client: Client,
    /// What was seen.
    pub store: Arc<Store>,
    /// Name and count of events that may come again.
    events: Mutex<HashMap<Said, (String, u64)>>,
}

impl Hand {
    /// A hand that writes with this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            store: Arc::default(),
            events: Mutex::default(),
        }
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn keep(&self, kind: Kind, object: DynamicObject) -> Object {
        let object = Arc::new(object);
        self.store.apply(kind, object.clone());
        object
    }

    /// Creates an object. Fails if it exists.
    pub async fn create(&self, kind: Kind, namespace: &str, body: Value) -> Result<Object> {
        let mut object: DynamicObject = serde_json::from_value(body).context("body of a new object")?;
        object.types = Some(kind.types());
        let made = kind
            .api(&self.client, namespace)
            .create(&PostParams::default(), &object)
            .await?;
        Ok(self.keep(kind, made))
    }

    /// Reads from the store, changes, writes with Update semantics: a stale version is a conflict.
    pub async fn update(&self, kind: Kind, key: &Key, change: impl FnOnce(&mut DynamicObject)) -> Result<()> {
        let seen = self
            .store
            .get(kind, key)
            .with_context(|| format!("{} {} is gone", kind.name(), key.name))?;
        let mut object = (*seen).clone();
        change(&mut object);
        let api = kind.api(&self.client, &key.namespace);
        let made = api.replace(&key.name, &PostParams::default(), &object).await?;
        self.keep(kind, made);
        Ok(())
    }

    /// Sets annotations (or removes those without a value) with Update semantics.
    pub async fn annotate(&self, kind: Kind, key: &Key, changes: Vec<(String, Option<String>)>) -> Result<()> {
        self.update(kind, key, |object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            for (name, value) in changes {
                match value {
                    Some(value) => annotations.insert(name, value),
                    None => annotations.remove(&name),
                };
            }
        })
        .await
    }

    /// A merge patch of the status subresource.
    pub async fn patch_status(&self, kind: Kind, key: &Key, status: Value) -> Result<()> {
        let api = kind.api(&self.client, &key.namespace);
        let patch = Patch::Merge(json!({ "status": status }));
        let made = api.patch_status(&key.name, &PatchParams::default(), &patch).await?;
        self.keep(kind, made);
        Ok(())
    }

    /// Deletes an object if it is still this one; one that is gone already is no error.
    pub async fn delete(&self, kind: Kind, key: &Key, uid: &str, grace: Option<u32>) -> Result<()> {
        let params = DeleteParams {
            grace_period_seconds: grace,
            ..DeleteParams::background()
        }
        .preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        match kind.api(&self.client, &key.namespace).delete(&key.name, &params).await {
            // Still there, terminating: the watch tells the rest.
            Ok(either) => {
                if let Some(object) = either
                    .left()
                    .filter(|object| object.metadata.deletion_timestamp.is_some())
                {
                    self.keep(kind, object);
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.store.remove(kind, key, uid);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tells an event about an object; the same one again only raises its count. An event that cannot be written (its
    /// namespace goes away) is dropped, as event recorders do.
    pub async fn tell(&self, component: &'static str, object: &DynamicObject, note: &Note) {
        if let Err(error) = self.try_tell(component, object, note).await {
            tracing::debug!(component, reason = note.reason, %error, "event dropped");
        }
    }

    async fn try_tell(&self, component: &'static str, object: &DynamicObject, note: &Note) -> Result<()> {
        let meta = &object.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let said = (
            meta.uid.clone().unwrap_or_default(),
            component,
            note.reason.clone(),
            note.message.clone(),
        );
        let known = {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.get_mut(&said).map(|(name, count)| {
                *count += 1;
                (name.clone(), *count)
            })
        };
        let api = Kind::Event.api(&self.client, namespace);
        if let Some((name, count)) = known {
            let patch = Patch::Merge(json!({ "count": count, "lastTimestamp": now() }));
            let event = api.patch(&name, &PatchParams::default(), &patch).await?;
            self.keep(Kind::Event, event);
            return Ok(());
        }
        let types = object.types.clone().unwrap_or_default();
        let nanos = k8s_openapi::jiff::Timestamp::now().as_nanosecond();
        let name = format!("{}.{nanos:x}", meta.name.as_deref().unwrap_or_default());
        let body = json!({
            "metadata": { "name": name, "namespace": namespace },
            "involvedObject": {
                "apiVersion": types.api_version, "kind": types.kind, "namespace": meta.namespace, "name": meta.name,
                "uid": meta.uid, "resourceVersion": meta.resource_version,
            },
            "type": if note.warning { "Warning" } else { "Normal" },
            "reason": note.reason, "message": note.message, "count": 1,
            "source": { "component": component }, "reportingComponent": component,
            "firstTimestamp": now(), "lastTimestamp": now(),
        });
        self.create(Kind::Event, namespace, body).await?;
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(said, (name, 1));
        Ok(())
    }
}

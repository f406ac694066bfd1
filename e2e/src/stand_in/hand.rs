//! The writing hand of a stand-in: every write goes to the API server and, once answered, into the store.

use super::{
    events::Recorder,
    kind::Kind,
    store::{Key, Object, Store},
};
use crate::world::objects::Note;
use anyhow::{Context as _, Result};
use first_consumer::clock::Clock;
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Now, as the API writes times.
#[must_use]
pub fn now(clock: &Clock) -> String {
    clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What the API server said when it refused a write (403), if it did.
#[must_use]
pub fn refusal(error: &anyhow::Error) -> Option<&str> {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) if status.code == 403 => Some(&status.message),
        _ => None,
    }
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

/// Client and store of one stand-in.
pub struct Hand {
    client: Client,
    /// What was seen.
    pub store: Arc<Store>,
    /// The time of day.
    pub clock: Clock,
    recorder: Recorder,
}

impl Hand {
    /// A hand that writes with this client; its events are written by `tasks` until `stop`.
    #[must_use]
    pub fn new(client: Client, clock: &Clock, tasks: &mut JoinSet<()>, stop: &CancellationToken) -> Self {
        let store = Arc::default();
        let recorder = Recorder::start(&client, clock, &store, tasks, stop);
        Self {
            client,
            store,
            clock: clock.clone(),
            recorder,
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

    /// Binds a pod to a node, as the scheduler does.
    pub async fn bind(&self, pod: &Key, node: &str) -> Result<()> {
        let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
        let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name}, "target": target});
        let request = http::Request::post(path).body(serde_json::to_vec(&body)?)?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }

    /// Tells an event about an object, in the background.
    pub fn tell(&self, component: &'static str, about: &Object, note: &Note) {
        self.recorder.tell(component, about, note);
    }
}

//! Events are told on the side, as client-go's recorders do: a controller does not wait for them. Those about one object
//! keep their order; the same one again only raises its count.

use super::{
    hand::now,
    kind::Kind,
    store::{Object, Store},
};
use crate::world::objects::Note;
use anyhow::Result;
use first_consumer::clock::Clock;
use kube::{
    Client,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use serde_json::json;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Writers; an object always has the same one.
const LANES: usize = 8;

struct Saying {
    component: &'static str,
    about: Object,
    note: Note,
}

/// Writes events in the background.
pub struct Recorder {
    lanes: Vec<mpsc::UnboundedSender<Saying>>,
}

impl Recorder {
    /// Starts the writers; what they wrote goes into the store, too.
    #[must_use]
    pub fn start(
        client: &Client,
        clock: &Clock,
        store: &Arc<Store>,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Self {
        let lane = |_| {
            let (sender, sayings) = mpsc::unbounded_channel();
            let lane = Lane {
                client: client.clone(),
                clock: clock.clone(),
                store: store.clone(),
                known: HashMap::new(),
            };
            let stop = stop.clone();
            tasks.spawn(async move {
                stop.run_until_cancelled(lane.run(sayings)).await;
            });
            sender
        };
        Self {
            lanes: (0..LANES).map(lane).collect(),
        }
    }

    /// Tells an event about an object.
    pub fn tell(&self, component: &'static str, about: &Object, note: &Note) {
        let mut hasher = DefaultHasher::new();
        about.metadata.uid.hash(&mut hasher);
        let lane = usize::try_from(hasher.finish() % LANES as u64).unwrap_or_default();
        let saying = Saying {
            component,
            about: about.clone(),
            note: note.clone(),
        };
        // After the stop nobody writes any more.
        let _ = self.lanes[lane].send(saying);
    }
}

/// Object, component and note: what makes it the same event again.
type Said = (Option<String>, &'static str, Note);

struct Lane {
    client: Client,
    clock: Clock,
    store: Arc<Store>,
    /// Name and count.
    known: HashMap<Said, (String, u64)>,
}

impl Lane {
    async fn run(mut self, mut sayings: mpsc::UnboundedReceiver<Saying>) {
        while let Some(saying) = sayings.recv().await {
            // One that cannot be written, since its namespace goes away, is dropped, as event recorders do.
            match self.write(&saying).await {
                Ok(event) => self.store.apply(Kind::Event, Arc::new(event)),
                Err(error) => tracing::debug!(reason = saying.note.reason, "event dropped: {error:#}"),
            }
        }
    }

    async fn write(&mut self, saying: &Saying) -> Result<DynamicObject> {
        let Saying { component, about, note } = saying;
        let meta = &about.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or("default");
        let api = Kind::Event.api(&self.client, namespace);
        let said = (meta.uid.clone(), *component, note.clone());
        if let Some((name, count)) = self.known.get_mut(&said) {
            *count += 1;
            let patch = Patch::Merge(json!({ "count": *count, "lastTimestamp": now(&self.clock) }));
            return Ok(api.patch(name, &PatchParams::default(), &patch).await?);
        }
        let name = meta.name.as_deref().unwrap_or_default();
        let name = format!("{name}.{:x}", self.clock.now().as_nanosecond());
        let types = about.types.clone().unwrap_or_default();
        let mut event: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": namespace },
            "involvedObject": {
                "apiVersion": types.api_version, "kind": types.kind, "namespace": meta.namespace, "name": meta.name,
                "uid": meta.uid, "resourceVersion": meta.resource_version,
            },
            "type": if note.warning { "Warning" } else { "Normal" },
            "reason": note.reason, "message": note.message, "count": 1,
            "source": { "component": component }, "reportingComponent": component,
            "firstTimestamp": now(&self.clock), "lastTimestamp": now(&self.clock),
        }))?;
        event.types = Some(Kind::Event.types());
        let event = api.create(&PostParams::default(), &event).await?;
        self.known.insert(said, (name, 1));
        Ok(event)
    }
}

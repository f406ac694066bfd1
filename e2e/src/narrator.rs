//! Tells what happens in a namespace, line by line as it happens: for the demo, and for who debugs a scenario.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Instant;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

/// Prints until it is dropped.
pub struct Narrator(#[expect(dead_code, reason = "held for its end")] AbortOnDropHandle<()>);

impl Narrator {
    /// Begins to tell about a namespace; times are seconds since `start`.
    #[must_use]
    pub fn start(client: Client, namespace: &str, start: Instant) -> Self {
        let namespace = namespace.to_owned();
        let task = tokio::spawn(async move {
            let mut lines = stream::select_all([
                data_volumes(&client, &namespace).boxed(),
                claims(&client, &namespace).boxed(),
                workers(&client, &namespace).boxed(),
                events(&client, &namespace).boxed(),
            ]);
            while let Some(line) = lines.next().await {
                say(start, &line);
            }
        });
        Self(AbortOnDropHandle::new(task))
    }
}

/// Prints one line of the story.
pub fn say(start: Instant, line: &str) {
    println!("{:7.2}s  {line}", start.elapsed().as_secs_f64());
}

/// The objects of an API as they change.
fn objects<K>(api: Api<K>) -> impl Stream<Item = K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    events.filter_map(async |event| event.ok())
}

/// What is new about each object: a line if its state differs from the last one.
fn changes<K: Resource>(
    objects: impl Stream<Item = K>,
    state: impl Fn(&K) -> Option<String>,
) -> impl Stream<Item = String> {
    let mut last = HashMap::new();
    objects.filter_map(move |object| {
        let new = state(&object).filter(|state| last.insert(object.name_any(), state.clone()).as_ref() != Some(state));
        async move { new }
    })
}

fn data_volumes(client: &Client, namespace: &str) -> impl Stream<Item = String> + use<> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cdi.kubevirt.io", "v1beta1", "DataVolume"));
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
    changes(objects(api), |data_volume| {
        let phase = data_volume.data.pointer("/status/phase").and_then(Value::as_str)?;
        let meaning = match phase {
            "WaitForFirstConsumer" | "PendingPopulation" => " - it waits until some pod uses its claim",
            "Succeeded" => " - the disk is filled",
            _ => "",
        };
        Some(format!("disk    {}: {phase}{meaning}", data_volume.name_any()))
    })
}

fn claims(client: &Client, namespace: &str) -> impl Stream<Item = String> + use<> {
    changes(
        objects(Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace)),
        |claim| {
            let name = claim.name_any();
            let node = claim.annotations().get("volume.kubernetes.io/selected-node");
            let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_ref()).is_some();
            let helper = if name.starts_with("prime-") {
                " (which CDI fills for another)"
            } else {
                ""
            };
            match (node, bound) {
                (None, false) => None,
                (Some(node), false) => Some(format!("claim   {name}{helper}: the scheduler chose {node}")),
                (_, true) => Some(format!("claim   {name}{helper}: the provisioner made its volume")),
            }
        },
    )
}

fn workers(client: &Client, namespace: &str) -> impl Stream<Item = String> + use<> {
    changes(objects(Api::<Pod>::namespaced(client.clone(), namespace)), |pod| {
        let node = pod.spec.as_ref()?.node_name.as_ref()?;
        (pod.labels().get("app")? == "containerized-data-importer")
            .then(|| format!("worker  {} started on {node}", pod.name_any()))
    })
}

fn events(client: &Client, namespace: &str) -> impl Stream<Item = String> + use<> {
    changes(objects(Api::<Event>::namespaced(client.clone(), namespace)), |event| {
        let ours = event.reporting_component.as_deref() == Some("first-consumer");
        let text = event.message.as_deref().unwrap_or_default();
        let again = event
            .count
            .filter(|count| *count > 1)
            .map(|count| format!(" (x{count})"))
            .unwrap_or_default();
        ours.then(|| format!("EVENT   {}{again}: {text}", event.reason.as_deref().unwrap_or_default()))
    })
}

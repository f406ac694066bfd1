//! One look at a cluster: the kinds that the controller watches, listed once into an index.

use std::time::Duration;

use futures::future::{BoxFuture, try_join_all};
use kube::api::ListParams;
use kube::{Client, Resource as _};

use super::client::{CallError, timed};
use super::watch::{PAGE, scope};
use super::watched::{Fault, Watched};
use crate::api::{Beside, Namespace, View};
use crate::index::{Index, Indexed, Kinds, kinds};
use crate::name::Key;

/// A kind that could not be listed, by its plural, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot list {0}: {1}")]
pub struct ListError(pub &'static str, pub CallError);

/// An object that can't be read. As for the controller it counts as not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {place}{name}: {fault}", place = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) }, name = key.name)]
pub struct Skipped {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, empty for cluster-scoped kinds, and name.
    pub key: Key,
    /// Where.
    pub fault: Fault,
}

/// One look at a cluster.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// What could be read.
    pub index: Index,
    /// What could not.
    pub unreadable: Vec<Skipped>,
}

/// Lists what concerns the VMs of a Namespace, or of all. A kind without CRD counts as empty, and so does one that may
/// neither be read nor is `needed` (asked by its plural); the index knows which. `limit` is for one request.
pub async fn take(
    client: &Client,
    namespace: Option<&str>,
    limit: Duration,
    needed: fn(&str) -> bool,
) -> Result<Snapshot, ListError> {
    let mut lists = Lists {
        client,
        namespace,
        limit,
        needed,
        pending: Vec::new(),
    };
    kinds(&mut lists);
    let mut snapshot = Snapshot::default();
    for enter in try_join_all(lists.pending).await? {
        enter(&mut snapshot);
    }
    Ok(snapshot)
}

struct Lists<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    limit: Duration,
    needed: fn(&str) -> bool,
    pending: Vec<BoxFuture<'a, Result<Enter, ListError>>>,
}

/// Enters what was told of one kind.
type Enter = Box<dyn FnOnce(&mut Snapshot) + Send>;

impl Kinds for Lists<'_> {
    fn visit<V: Indexed>(&mut self) {
        let objects = objects::<V>(self.client, self.namespace, self.limit);
        self.pending.push(Box::pin(told(objects, (self.needed)(V::PLURAL))));
    }
}

async fn told<V: Indexed>(
    objects: impl Future<Output = Result<Objects<V>, ListError>>,
    needed: bool,
) -> Result<Enter, ListError> {
    Ok(match objects.await {
        Err(ListError(_, error)) if error.code() == Some(404) => Box::new(|snapshot| {
            snapshot.index.note_kind::<V>(false);
        }),
        Err(ListError(_, error)) if error.code() == Some(403) && !needed => Box::new(|snapshot| {
            snapshot.index.note_unseen::<V>();
        }),
        objects => {
            let Objects { readable, unreadable } = objects?;
            Box::new(|snapshot| {
                for view in readable {
                    drop(snapshot.index.apply(view));
                }
                snapshot.unreadable.extend(unreadable);
            })
        }
    })
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Objects<V> {
    /// What could be read.
    pub readable: Vec<V>,
    /// What could not.
    pub unreadable: Vec<Skipped>,
}

impl<V: View> Objects<V> {
    fn of(objects: Vec<Watched<V>>) -> Self {
        let mut found = Self {
            readable: Vec::new(),
            unreadable: Vec::new(),
        };
        for object in objects {
            let meta = object.meta();
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let key = Key::new(&text(&meta.namespace), &text(&meta.name));
            match object.view {
                Ok(view) => found.readable.push(view),
                Err(fault) => found.unreadable.push(Skipped {
                    kind: V::KIND,
                    key,
                    fault,
                }),
            }
        }
        found
    }
}

/// All objects of one kind that concern the VMs of a Namespace, or of all.
pub async fn objects<V: View>(
    client: &Client,
    namespace: Option<&str>,
    limit: Duration,
) -> Result<Objects<V>, ListError> {
    let (api, _) = scope::<V>(client, namespace);
    let failed = |error| ListError(V::PLURAL, error);
    // Who may read one Namespace may rarely list them.
    if let Some(namespace) = namespace.filter(|_| V::KIND == Namespace::KIND) {
        let found = timed(limit, api.get_opt(namespace)).await.map_err(failed)?;
        return Ok(Objects::of(found.into_iter().collect()));
    }
    let mut page = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let answer = timed(limit, api.list(&page)).await.map_err(failed)?;
        objects.extend(answer.items);
        match answer.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(Objects::of(objects)),
        }
    }
}

/// What `explain` reads beside: the Events of a Namespace, or of all, CDI's configuration, and the Leases of the
/// controller's Namespace. What cannot be read is none, and whoever asks hears of it.
pub async fn beside(client: &Client, namespace: Option<&str>, controllers: &str, limit: Duration) -> Beside {
    let (events, cdi_configs, leases) = tokio::join!(
        objects(client, namespace, limit),
        objects(client, None, limit),
        objects(client, Some(controllers), limit)
    );
    Beside {
        events: readable(events),
        cdi_configs: readable(cdi_configs),
        leases: readable(leases),
        definitions: Vec::new(),
    }
}

/// What could be read; of a kind that does not exist there is nothing more to know.
fn readable<V>(objects: Result<Objects<V>, ListError>) -> Option<Vec<V>> {
    match objects {
        Ok(objects) => Some(objects.readable),
        Err(ListError(_, error)) if error.code() == Some(404) => Some(Vec::new()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::cluster::client::{Clients, Observer};
    use crate::cluster::test_server::{TestServer, status};

    /// An API server that knows one Namespace, and lets nobody list what is outside it.
    async fn taken(needed: fn(&str) -> bool) -> Result<Snapshot, ListError> {
        let server = TestServer::start(|asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            let empty = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []});
            let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ns", "uid": "u"}});
            let broken = json!({"metadata": {"name": "odd", "namespace": "ns"}, "spec": {"volumes": "SECRET"}});
            let fine = json!({"metadata": {"name": "fine", "namespace": "ns", "uid": "u"}});
            let pods = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [broken, fine]});
            match path {
                "/api/v1/namespaces/ns/pods" => (200, pods.to_string()),
                "/api/v1/namespaces/ns" => (200, namespace.to_string()),
                path if path.contains("/namespaces/ns/") => (200, empty.to_string()),
                _ => status(403, "no"),
            }
        })
        .await;
        let clients = Clients::from_config(&server.config(), &(Arc::new(|_, _| ()) as Observer)).unwrap();
        take(&clients.read, Some("ns"), Duration::from_secs(5), needed).await
    }

    #[tokio::test]
    async fn what_may_not_be_read_counts_as_empty_unless_it_is_needed() {
        let Snapshot { index, .. } = taken(|plural| plural == "pods").await.expect("a snapshot");
        let outside = [
            "kubevirts",
            "network-attachment-definitions",
            "nodes",
            "persistentvolumes",
            "storageclasses",
        ];
        assert_eq!(index.unseen().iter().copied().collect::<Vec<_>>(), outside);
        assert!(
            index.namespace("ns").is_some(),
            "who may not list them may read their own"
        );
        let refused = taken(|plural| plural == "nodes").await.expect_err("no snapshot");
        assert!(refused.to_string().contains("cannot list nodes"), "{refused}");
    }

    /// As for the controller, which tolerates it, too.
    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_left_out_and_told() {
        let Snapshot { index, unreadable } = taken(|_| false).await.expect("a snapshot");
        assert!(index.pod(&Key::new("ns", "fine")).is_some());
        let texts: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["Pod ns/odd: cannot read the field spec.volumes"]);
    }

    /// What may not be read may hold something; a kind that does not exist does not.
    #[tokio::test]
    async fn what_lies_beside_and_cannot_be_read_is_not_empty() {
        let server = TestServer::start(|asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            let leases = json!({"kind": "List", "apiVersion": "v1", "metadata": {},
                "items": [{"metadata": {"name": "first-consumer", "namespace": "ours"}}]});
            match path.rsplit('/').next() {
                Some("events") => status(403, "no"),
                Some("cdiconfigs") => status(404, "no"),
                _ => (200, leases.to_string()),
            }
        })
        .await;
        let clients = Clients::from_config(&server.config(), &(Arc::new(|_, _| ()) as Observer)).unwrap();
        let found = beside(&clients.read, Some("ns"), "ours", Duration::from_secs(5)).await;
        let counts = (
            found.events.map(|all| all.len()),
            found.cdi_configs.map(|all| all.len()),
        );
        assert_eq!((counts, found.leases.map(|all| all.len())), ((None, Some(0)), Some(1)));
    }
}

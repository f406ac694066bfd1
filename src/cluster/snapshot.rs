//! One look at a cluster: the kinds that the controller watches, listed once into an index.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::{BoxFuture, try_join_all};
use kube::api::ListParams;
use kube::{Client, Resource as _};

use super::client::{CallError, timed};
use super::watch::{PAGE, lock, scope};
use super::watched::{Fault, Watched};
use crate::api::{Beside, Namespace, View};
use crate::index::{Index, Indexed, Kinds, kinds};

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A kind could not be listed.
    #[error("cannot list {0}: {1}")]
    List(&'static str, CallError),
    /// An object could not be read.
    #[error("{0} {1}: {2}")]
    Unreadable(&'static str, String, Fault),
}

/// Lists what concerns the VMs of a Namespace, or of all. A kind without CRD counts as empty, and so does one that may
/// neither be read nor is `needed` (asked by its plural); the index knows which. `limit` is for one request.
pub async fn take(
    client: &Client,
    namespace: Option<&str>,
    limit: Duration,
    needed: fn(&str) -> bool,
) -> Result<Index, SnapshotError> {
    let index = Mutex::default();
    let mut lists = Lists {
        client,
        namespace,
        limit,
        needed,
        index: &index,
        pending: Vec::new(),
    };
    kinds(&mut lists);
    try_join_all(lists.pending).await?;
    let index = lock(&index).clone();
    Ok(index)
}

struct Lists<'a> {
    client: &'a Client,
    namespace: Option<&'a str>,
    limit: Duration,
    needed: fn(&str) -> bool,
    index: &'a Mutex<Index>,
    pending: Vec<BoxFuture<'a, Result<(), SnapshotError>>>,
}

impl Kinds for Lists<'_> {
    fn visit<V: Indexed>(&mut self) {
        let objects = objects::<V>(self.client, self.namespace, self.limit);
        let list = enter(objects, (self.needed)(V::PLURAL), self.index);
        self.pending.push(Box::pin(list));
    }
}

async fn enter<V: Indexed>(
    objects: impl Future<Output = Result<Vec<V>, SnapshotError>>,
    needed: bool,
    index: &Mutex<Index>,
) -> Result<(), SnapshotError> {
    match objects.await {
        Err(SnapshotError::List(_, error)) if error.code() == Some(404) => lock(index).note_kind::<V>(false),
        Err(SnapshotError::List(_, error)) if error.code() == Some(403) && !needed => {
            lock(index).note_unseen::<V>();
        }
        objects => objects?.into_iter().for_each(|view| drop(lock(index).apply(view))),
    }
    Ok(())
}

/// All objects of one kind that concern the VMs of a Namespace, or of all.
pub async fn objects<V: View>(
    client: &Client,
    namespace: Option<&str>,
    limit: Duration,
) -> Result<Vec<V>, SnapshotError> {
    let (api, _) = scope::<V>(client, namespace);
    let read = |object: Watched<V>| {
        let name = object.meta().name.clone().unwrap_or_default();
        let unreadable = |fault| SnapshotError::Unreadable(V::KIND, name, fault);
        object.view.map_err(unreadable)
    };
    let failed = |error| SnapshotError::List(V::PLURAL, error);
    // Who may read one Namespace may rarely list them.
    if let Some(namespace) = namespace.filter(|_| V::KIND == Namespace::KIND) {
        let found = timed(limit, api.get_opt(namespace)).await.map_err(failed)?;
        return found.into_iter().map(read).collect();
    }
    let mut page = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let answer = timed(limit, api.list(&page)).await.map_err(failed)?;
        for object in answer.items {
            objects.push(read(object)?);
        }
        match answer.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

/// What `explain` reads beside: the Events of a Namespace, or of all, CDI's configuration, and the Leases of the
/// controller's Namespace. Whoever may not read them learns less, and nothing wrong.
pub async fn beside(client: &Client, namespace: Option<&str>, controllers: &str, limit: Duration) -> Beside {
    let (events, cdi_configs, leases) = tokio::join!(
        objects(client, namespace, limit),
        objects(client, None, limit),
        objects(client, Some(controllers), limit)
    );
    Beside {
        events: events.unwrap_or_default(),
        cdi_configs: cdi_configs.unwrap_or_default(),
        leases: leases.ok(),
        definitions: Vec::new(),
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
    async fn taken(needed: fn(&str) -> bool) -> Result<Index, SnapshotError> {
        let server = TestServer::start(|asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            let empty = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []});
            let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ns", "uid": "u"}});
            match path {
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
        let index = taken(|plural| plural == "pods").await.expect("a snapshot");
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
}

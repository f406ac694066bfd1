//! One look at a cluster: the kinds that the controller watches, listed once into an index.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::{BoxFuture, try_join_all};
use kube::api::ListParams;
use kube::{Client, Resource as _};

use super::client::{CallError, timed};
use super::watch::{PAGE, lock, scope};
use super::watched::Fault;
use crate::api::{Beside, View};
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

/// Lists what concerns the VMs of a Namespace, or of all. A kind without CRD counts as empty. `limit` is for one request.
pub async fn take(client: &Client, namespace: Option<&str>, limit: Duration) -> Result<Index, SnapshotError> {
    let index = Mutex::default();
    let mut lists = Lists {
        client,
        namespace,
        limit,
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
    index: &'a Mutex<Index>,
    pending: Vec<BoxFuture<'a, Result<(), SnapshotError>>>,
}

impl Kinds for Lists<'_> {
    fn visit<V: Indexed>(&mut self) {
        let list = list::<V>(self.client, self.namespace, self.limit, self.index);
        self.pending.push(Box::pin(list));
    }
}

async fn list<V: Indexed>(
    client: &Client,
    namespace: Option<&str>,
    limit: Duration,
    index: &Mutex<Index>,
) -> Result<(), SnapshotError> {
    match objects::<V>(client, namespace, limit).await {
        Err(SnapshotError::List(_, error)) if error.code() == Some(404) => lock(index).note_kind::<V>(false),
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
    let mut page = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let answer = timed(limit, api.list(&page)).await;
        let answer = answer.map_err(|error| SnapshotError::List(V::PLURAL, error))?;
        for object in answer.items {
            let name = object.meta().name.clone().unwrap_or_default();
            let view = object
                .view
                .map_err(|fault| SnapshotError::Unreadable(V::KIND, name, fault))?;
            objects.push(view);
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
        leases: leases.unwrap_or_default(),
        definitions: Vec::new(),
    }
}

//! The garbage collector and the namespace controller of kube-controller-manager: what has no owner any more goes, and
//! with a Namespace everything in it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use super::store::{Litter, Store, owners};
use super::write::Deletion;

/// How long it takes the collector to notice.
const NOTICES_AFTER: Duration = Duration::from_millis(20);

/// Collects until the store is gone.
pub async fn run(store: Arc<Mutex<Store>>, mut litter: mpsc::UnboundedReceiver<Litter>) {
    let user: Arc<str> = "system:serviceaccount:kube-system:generic-garbage-collector".into();
    while let Some(found) = litter.recv().await {
        tokio::time::sleep(NOTICES_AFTER).await;
        let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Litter::Owner(owner) => collect(&mut store, &owner, &user),
            Litter::Namespace(namespace) => {
                for id in store.list_all(&namespace).collect::<Vec<_>>() {
                    // Gone already, or marked and held by a finalizer.
                    let _ = store.delete(&id, &Deletion::default(), &user);
                }
                store.finish(&namespace, &user);
            }
        }
    }
}

fn collect(store: &mut Store, owner: &str, user: &Arc<str>) {
    if store.lives(owner) {
        return;
    }
    for id in store.owned(owner) {
        let Some(object) = store.get(id.kind, &id.namespace, &id.name).cloned() else {
            continue;
        };
        if owners(&object).any(|owner| store.lives(owner)) {
            continue;
        }
        let asked = Deletion {
            uid: Some(super::store::uid(&object).to_owned()),
            ..Deletion::default()
        };
        // Gone already, or marked and held by a finalizer.
        let _ = store.delete(&id, &asked, user);
    }
}

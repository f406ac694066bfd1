//! CDI's clone controller, and the data: an upload server ends when the pod that reads for it has.

use super::{foreign, origin, pods, tell};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::Hand,
        kind::Kind,
        read,
        store::{Entry, Key, Object},
    },
    world::{
        cdi::{Write, reader, reader_name, worker_name},
        objects::{PodPhase, Source},
    },
};
use anyhow::{Context as _, Result};
use std::{sync::Arc, time::Duration};

/// Drives [`reader`]. Keys are claims that ask for a host-assisted copy.
pub struct Readers {
    /// Client and store.
    pub hand: Arc<Hand>,
}

impl Controller for Readers {
    fn name(&self) -> &'static str {
        "clone-controller"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        match change.kind {
            Kind::Claim if read::annotation(&change.object, read::CLONE_REQUEST).is_some() => {
                vec![Key::of(&change.object)]
            }
            Kind::Pod => {
                let reads_for = read::annotation(&change.object, &read::cdi(pods::READS_FOR));
                let reads_for = reads_for.and_then(|claim| claim.split_once('/'));
                reads_for
                    .map(|(namespace, name)| Key::new(namespace, name))
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let store = &self.hand.store;
        let Some(object) = store.get(Kind::Claim, key) else {
            return Ok(Outcome::Done);
        };
        let Some((namespace, name)) =
            read::annotation(&object, read::CLONE_REQUEST).and_then(|from| from.split_once('/'))
        else {
            return Ok(Outcome::Done);
        };
        let from = Key::new(namespace, name);
        let claim = read::claim(store, &object);
        let pod_key = Key::new(namespace, &reader_name(&claim.uid));
        let pod = store.get(Kind::Pod, &pod_key);
        let seen = pod.as_ref().map(|pod| read::pod(pod));
        if seen.as_ref().is_some_and(|pod| pod.phase == PodPhase::Succeeded) {
            self.data_arrived(key).await?;
        }
        let mut outcome = Outcome::Done;
        for write in reader::next(&claim, &origin::claim(store, &from), seen.as_ref()) {
            match write {
                Write::NameReader => {
                    let mark = (read::cdi("storage.sourceClonePodName"), Some(pod_key.name.clone()));
                    self.hand.annotate(Kind::Claim, key, vec![mark]).await?;
                }
                Write::CreateReader => {
                    let from = store.get(Kind::Claim, &from).context("the source is gone")?;
                    self.hand
                        .create(Kind::Pod, namespace, pods::reader(&object, &from))
                        .await?;
                }
                Write::DeleteReader { uid } => self.hand.delete(Kind::Pod, &pod_key, &uid, None).await?,
                Write::MarkCloned => {
                    let mark = (read::CLONE_OF.to_owned(), Some("true".to_owned()));
                    self.hand.annotate(Kind::Claim, key, vec![mark]).await?;
                }
                Write::Event { note, .. } => {
                    // About a tmp claim the target is told.
                    let about = target(&self.hand, &object).unwrap_or_else(|| key.clone());
                    tell(&self.hand, "clone-controller", Kind::Claim, &about, &note);
                }
                Write::LookAgain { after } => outcome = Outcome::Later(Duration::from_secs(after)),
                other => foreign(&other)?,
            }
        }
        Ok(outcome)
    }
}

impl Readers {
    /// Everything was read, so everything was written.
    async fn data_arrived(&self, claim: &Key) -> Result<()> {
        let server = Key::new(&claim.namespace, &worker_name(Source::Pvc, &claim.name));
        let Some(pod) = self.hand.store.get(Kind::Pod, &server) else {
            return Ok(());
        };
        if read::pod(&pod).phase.is_final() || read::annotation(&pod, pods::RUNS_FOR).is_some() {
            return Ok(());
        }
        let end = (pods::RUNS_FOR.to_owned(), Some("0s".to_owned()));
        self.hand.annotate(Kind::Pod, &server, vec![end]).await
    }
}

/// The target that a helper was made for.
pub(super) fn target(hand: &Hand, helper: &Object) -> Option<Key> {
    let uid = helper.metadata.labels.as_ref()?.get(pods::MADE_FOR)?;
    let claims = hand.store.find(Kind::Claim, &Entry::Is(uid.clone()));
    claims.first().map(|claim| Key::of(claim))
}

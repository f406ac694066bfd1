//! CDI's clone populator.

use super::{copies, disk, foreign, pods, reader::target, rebind, tell, worker_annotations};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::Hand,
        kind::Kind,
        read,
        store::Key,
    },
    world::{
        cdi::{Write, clone_populator, prep_name, tmp_name},
        objects::{ClonePhase, Strategy},
    },
};
use anyhow::{Context as _, Result};
use std::{sync::Arc, time::Duration};

/// Drives [`clone_populator`]. Keys are target claims.
pub struct ClonePopulators {
    /// Client and store.
    pub hand: Arc<Hand>,
}

impl Controller for ClonePopulators {
    fn name(&self) -> &'static str {
        "clone-populator"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let helps = target(&self.hand, &change.object);
        match change.kind {
            Kind::Claim => vec![helps.unwrap_or_else(|| Key::of(&change.object))],
            Kind::Pod => helps.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let store = &self.hand.store;
        let Some(dv) = store.get(Kind::DataVolume, key) else {
            return Ok(Outcome::Done);
        };
        let (Some(disk), Some(object)) = (disk(store, &dv), store.get(Kind::Claim, key)) else {
            return Ok(Outcome::Done);
        };
        let Some(origin) = &disk.origin else {
            return Ok(Outcome::Done);
        };
        let uid = read::uid(&object);
        let tmp = Key::new(&origin.namespace, &tmp_name(&uid));
        let prep = Key::new(&origin.namespace, &prep_name(&uid));
        let seen = store.get(Kind::Pod, &prep).map(|pod| read::pod(&pod));
        let mut outcome = Outcome::Done;
        for write in clone_populator::next(&disk, seen.as_ref()) {
            match write {
                Write::BeginClone(strategy) => self.begin(key, strategy).await?,
                Write::SetClonePhase { phase, worker } => {
                    let mut changes = worker_annotations(&worker);
                    changes.push((read::cdi("clonePhase"), Some(phase.as_str().to_owned())));
                    if phase == ClonePhase::Succeeded {
                        changes.push((read::cdi("storage.populator.progress"), Some("100.0%".to_owned())));
                    }
                    self.hand.annotate(Kind::Claim, key, changes).await?;
                }
                Write::CreateTmp(strategy) => {
                    let body = copies::tmp(&object, origin, strategy);
                    self.hand.create(Kind::Claim, &tmp.namespace, body).await?;
                }
                Write::DeleteTmp { uid } => self.hand.delete(Kind::Claim, &tmp, &uid, None).await?,
                Write::CreatePrep { node } => {
                    let claim = store.get(Kind::Claim, &tmp).context("the tmp claim is gone")?;
                    let body = pods::prep(&claim, &uid, node.as_deref());
                    self.hand.create(Kind::Pod, &prep.namespace, body).await?;
                }
                Write::DeletePrep { uid } => self.hand.delete(Kind::Pod, &prep, &uid, None).await?,
                Write::Rebind { volume } => rebind(&self.hand, &volume, key).await?,
                Write::Event { note, .. } => tell(&self.hand, "clone-populator", Kind::Claim, key, &note),
                Write::LookAgain { after } => outcome = Outcome::Later(Duration::from_secs(after)),
                other => foreign(&other)?,
            }
        }
        Ok(outcome)
    }
}

impl ClonePopulators {
    /// \[`clone-populator.go`: initTargetClaim\]
    async fn begin(&self, target: &Key, strategy: Strategy) -> Result<()> {
        self.hand
            .update(Kind::Claim, target, |claim| {
                let annotations = claim.metadata.annotations.get_or_insert_default();
                annotations.insert(read::cdi("cloneType"), strategy.as_str().to_owned());
                let pending = || ClonePhase::Pending.as_str().to_owned();
                annotations.entry(read::cdi("clonePhase")).or_insert_with(pending);
            })
            .await
    }
}

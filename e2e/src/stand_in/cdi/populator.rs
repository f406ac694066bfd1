//! CDI's import and upload populators.

use super::{bodies, bound_annotations, by_source, disk, foreign, rebind, tell, worker_annotations};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::Hand,
        kind::Kind,
        read,
        store::Key,
    },
    world::{
        cdi::{Write, populator, prime_name},
        objects::{ClaimPhase, PodPhase},
    },
};
use anyhow::Result;
use std::{sync::Arc, time::Duration};

/// Drives [`populator`]. Keys are target claims.
pub struct Populators {
    /// Client and store.
    pub hand: Arc<Hand>,
}

/// While a population is unfinished the target is looked at this often, which is when new events are copied.
const POLL: Duration = Duration::from_secs(2);

impl Controller for Populators {
    fn name(&self) -> &'static str {
        "populator"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        if change.kind != Kind::Claim {
            return Vec::new();
        }
        let key = Key::of(&change.object);
        let target = read::owner(&change.object).filter(|owner| owner.kind == "PersistentVolumeClaim");
        vec![target.map_or(key.clone(), |target| Key::new(&key.namespace, &target.name))]
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(dv) = self.hand.store.get(Kind::DataVolume, key) else {
            return Ok(Outcome::Done);
        };
        let (Some(disk), Some(target)) = (disk(&self.hand.store, &dv), self.hand.store.get(Kind::Claim, key)) else {
            return Ok(Outcome::Done);
        };
        let component = by_source(disk.dv.source, "import-populator", "upload-populator");
        let prime = Key::new(&key.namespace, &prime_name(&read::uid(&target)));
        for write in populator::next(&disk) {
            match write {
                Write::CreatePrime { node } => {
                    let body = bodies::prime(&dv, &target, &disk, node);
                    self.hand.create(Kind::Claim, &key.namespace, body).await?;
                }
                Write::NoteBound { message, .. } => {
                    self.hand.annotate(Kind::Claim, key, bound_annotations(message)).await?;
                }
                Write::CopyWorker(worker) => {
                    let mut changes = worker_annotations(&worker);
                    let done = worker.phase == Some(PodPhase::Succeeded);
                    changes.push((read::cdi("storage.populator.pvcPrime"), Some(prime.name.clone())));
                    changes.push((
                        read::cdi("storage.populator.progress"),
                        done.then(|| "100.0%".to_owned()),
                    ));
                    self.hand.annotate(Kind::Claim, key, changes).await?;
                }
                Write::Rebind { volume } => rebind(&self.hand, &volume, key).await?,
                Write::DeletePrime { uid } => self.hand.delete(Kind::Claim, &prime, &uid, None).await?,
                Write::Event { note, .. } => tell(&self.hand, component, Kind::Claim, key, &note),
                other => foreign(&other)?,
            }
        }
        let unfinished = disk.prime.is_some()
            && disk
                .claim
                .is_some_and(|claim| claim.phase == ClaimPhase::Pending && !claim.deleting);
        Ok(if unfinished {
            Outcome::Later(POLL)
        } else {
            Outcome::Done
        })
    }
}

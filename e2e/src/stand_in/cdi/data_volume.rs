//! CDI's DataVolume controllers.

use super::{bodies, copies, disk, foreign, settings, tell};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::{Hand, now, owner, refusal},
        kind::Kind,
        read,
        store::{Entry, Key, Object},
        switch::Switch,
    },
    world::{
        cdi::{Disk, Status, Write, data_volume, restored_name},
        objects::{Condition, DvPhase, Source},
    },
};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Drives [`data_volume`]. Keys are DataVolumes.
pub struct DataVolumes {
    /// Client and store.
    pub hand: Arc<Hand>,
    /// The gate `HonorWaitForFirstConsumer`.
    pub gate: Arc<Switch>,
}

impl Controller for DataVolumes {
    fn name(&self) -> &'static str {
        "datavolume-controller"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        let copies = || {
            let copies = self.hand.store.find(Kind::DataVolume, &Entry::Names(key.clone()));
            copies.into_iter().map(|dv| Key::of(&dv))
        };
        match change.kind {
            Kind::DataVolume => vec![key],
            Kind::Claim => {
                let owner = read::owner(&change.object).filter(|owner| owner.kind == "DataVolume");
                let owner = owner.map(|owner| Key::new(&key.namespace, &owner.name));
                owner.into_iter().chain(copies()).collect()
            }
            Kind::DataSource | Kind::Snapshot => copies().collect(),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(dv) = self.hand.store.get(Kind::DataVolume, key) else {
            return Ok(Outcome::Done);
        };
        let Some(disk) = disk(&self.hand.store, &dv) else {
            return Ok(Outcome::Done);
        };
        let component = match disk.dv.source {
            Source::Http | Source::Registry | Source::Blank => "datavolume-import-controller",
            Source::Upload => "datavolume-upload-controller",
            Source::Pvc => "datavolume-pvc-clone-controller",
            Source::Snapshot => "datavolume-snapshot-clone-controller",
            Source::External => "datavolume-external-population-controller",
        };
        let mut writes = VecDeque::from(data_volume::next(&disk, settings(&self.gate, key)));
        let mut outcome = Outcome::Done;
        while let Some(write) = writes.pop_front() {
            match write {
                Write::MarkPath { populator } => {
                    let mark = (read::cdi("storage.usePopulator"), Some(populator.to_string()));
                    self.hand.annotate(Kind::DataVolume, key, vec![mark]).await?;
                }
                Write::CreateClaim { populator, immediate } => {
                    let body = bodies::claim(&self.hand.store, &dv, &disk, populator, immediate);
                    if let Err(error) = self.hand.create(Kind::Claim, &key.namespace, body).await {
                        match refusal(&error).filter(|text| text.contains("exceeded quota")) {
                            Some(text) => writes = data_volume::refused(&disk, text).into(),
                            None => return Err(error),
                        }
                    }
                }
                Write::AdoptClaim => self.adopt(key, &dv).await?,
                Write::SetStatus(status) => {
                    let body = status_body(&dv, &status, disk.dv.source, &now(&self.hand.clock));
                    self.hand.patch_status(Kind::DataVolume, key, body).await?;
                }
                Write::Event { note, on_dv } => {
                    let about = if on_dv { Kind::DataVolume } else { Kind::Claim };
                    tell(&self.hand, component, about, key, &note);
                }
                Write::CreateRestored => self.restore(&dv, &disk).await?,
                Write::LookAgain { after } => outcome = Outcome::Later(Duration::from_secs(after)),
                Write::RetryLater => outcome = Outcome::Limited,
                other => foreign(&other)?,
            }
        }
        Ok(outcome)
    }
}

impl DataVolumes {
    async fn restore(&self, dv: &Object, disk: &Disk) -> Result<()> {
        let from = disk.origin.as_ref().context("nothing to restore from")?;
        let body = copies::restored(&self.hand.store, dv, from);
        let key = Key::new(&from.namespace, &restored_name(&disk.dv.uid));
        if self.hand.store.get(Kind::Claim, &key).is_none() {
            self.hand.create(Kind::Claim, &from.namespace, body).await?;
        }
        Ok(())
    }

    async fn adopt(&self, key: &Key, dv: &Object) -> Result<()> {
        let reference = serde_json::from_value(owner(dv, Kind::DataVolume))?;
        self.hand
            .update(Kind::Claim, key, |claim| {
                claim.metadata.owner_references.get_or_insert_default().push(reference);
            })
            .await
    }
}

/// A merge patch of the status; conditions keep their transition time while their status stays.
fn status_body(dv: &Object, status: &Status, source: Source, now: &str) -> Value {
    let known = dv.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = |kind: &str, new: &Condition| {
        let old = known.iter().find(|old| old["type"] == kind);
        let state = if new.status { "True" } else { "False" };
        let since = old
            .filter(|old| old["status"] == state)
            .and_then(|old| old["lastTransitionTime"].as_str());
        json!({
            "type": kind, "status": state, "reason": new.reason, "message": new.message,
            "lastTransitionTime": since.unwrap_or(now), "lastHeartbeatTime": now,
        })
    };
    let running = status.running.status;
    let ready = Condition::new(
        status.phase == DvPhase::Succeeded,
        if running { "TransferRunning" } else { "" },
        "",
    );
    let bound = status.bound.clone().unwrap_or_default();
    let mut body = json!({
        "phase": status.phase.as_str(),
        "conditions": [condition("Bound", &bound), condition("Ready", &ready), condition("Running", &status.running)],
    });
    if status.restarts > 0 {
        body["restartCount"] = json!(status.restarts);
    }
    if status.claim_known {
        body["claimName"] = json!(dv.metadata.name);
        let silent = matches!(source, Source::Upload | Source::External);
        let done = status.phase == DvPhase::Succeeded && !silent;
        body["progress"] = json!(if done { "100.0%" } else { "N/A" });
    }
    body
}

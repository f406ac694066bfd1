//! CDI's DataVolume controllers.

use super::{bodies, by_source, disk, foreign, tell};
use crate::{
    stand_in::{
        engine::{Change, Controller, Outcome},
        hand::{Hand, now, owner, refusal},
        kind::Kind,
        read,
        store::{Key, Object},
    },
    world::{
        cdi::{Settings, Status, Write, data_volume},
        objects::{Condition, DvPhase, Source},
    },
};
use anyhow::Result;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc};

/// Drives [`data_volume`]. Keys are DataVolumes.
pub struct DataVolumes {
    /// Client and store.
    pub hand: Arc<Hand>,
    /// The gate.
    pub settings: Settings,
}

impl Controller for DataVolumes {
    fn name(&self) -> &'static str {
        "datavolume-controller"
    }

    fn wakes(&self, change: &Change) -> Vec<Key> {
        let key = Key::of(&change.object);
        match change.kind {
            Kind::DataVolume => vec![key],
            Kind::Claim => {
                let owner = read::owner(&change.object).filter(|owner| owner.kind == "DataVolume");
                owner
                    .map(|owner| Key::new(&key.namespace, &owner.name))
                    .into_iter()
                    .collect()
            }
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
        let component = by_source(
            disk.dv.source,
            "datavolume-import-controller",
            "datavolume-upload-controller",
        );
        let mut writes = VecDeque::from(data_volume::next(&disk, self.settings));
        let mut outcome = Outcome::Done;
        while let Some(write) = writes.pop_front() {
            match write {
                Write::MarkPath { populator } => {
                    let mark = (read::cdi("storage.usePopulator"), Some(populator.to_string()));
                    self.hand.annotate(Kind::DataVolume, key, vec![mark]).await?;
                }
                Write::CreateClaim { populator, immediate } => {
                    let body = bodies::claim(&self.hand.store, &dv, disk.dv.source, populator, immediate);
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
                Write::Event { note, .. } => tell(&self.hand, component, Kind::DataVolume, key, &note),
                Write::RetryLater => outcome = Outcome::Limited,
                other => foreign(&other)?,
            }
        }
        Ok(outcome)
    }
}

impl DataVolumes {
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
    if status.claim_known {
        body["claimName"] = json!(dv.metadata.name);
        let done = status.phase == DvPhase::Succeeded && source != Source::Upload;
        body["progress"] = json!(if done { "100.0%" } else { "N/A" });
    }
    body
}

//! What the caches hold about a subject's disks, and about who else uses them.

use std::sync::Arc;

use super::{Disk, Foreign, Further, Users};
use crate::api::{ClaimPhase, Pod, Template, View as _, Volume, VolumeKind};
use crate::claim::Claim;
use crate::index::{Index, own_subject, sidecar_claims};
use crate::name::Key;

/// The boot disks, in spec order.
pub(super) fn of_template(index: &Index, subject: &Key, template: &Template) -> Vec<Disk> {
    let boot = template.spec.volumes.iter().filter(|volume| !volume.hotpluggable);
    boot.filter_map(|volume| Some(disk(index, subject, volume, volume.claim()?)))
        .collect()
}

fn disk(index: &Index, subject: &Key, volume: &Volume, name: &Arc<str>) -> Disk {
    let key = subject.sibling(name);
    let data_volume = index.data_volume(&key);
    let claim = index.claim(&key).map(|claim| index.read_claim(claim));
    Disk {
        volume: Arc::clone(&volume.name),
        names_data_volume: matches!(volume.kind, VolumeKind::DataVolume(_)),
        name: Arc::clone(name),
        data_volume: data_volume.map(|data_volume| data_volume.phase()),
        data_volume_words: data_volume.and_then(|data_volume| Some(data_volume.unmet("Running")?.words())),
        data_volume_terminating: data_volume.is_some_and(|data_volume| data_volume.meta().terminating()),
        users: claim
            .as_ref()
            .map(|claim| users(index, subject, claim))
            .unwrap_or_default(),
        claim,
    }
}

fn users(index: &Index, subject: &Key, claim: &Claim) -> Users {
    let controlled = |pod: &Pod| pod.meta().controller().is_some_and(|owner| owner.uid == claim.uid);
    let key = subject.sibling(&claim.name);
    let live = || index.pods_of_claim(&key).filter(|pod| pod.live());
    let other = live().find(|pod| own_subject(pod).as_ref() != Some(subject));
    Users {
        worker: live().any(|pod| controlled(pod)),
        other: other.map(|pod| Arc::clone(&pod.meta().name)),
    }
}

/// Claims that are listed but not waited for: they pin the pod to where they are, or are placed with the others.
pub(super) fn further(index: &Index, subject: &Key, template: &Template) -> Vec<Further> {
    let state = index.state_claims(subject).filter(|_| template.spec.persistent_state);
    let hotplugged = template.spec.volumes.iter().filter(|volume| volume.hotpluggable);
    let hotplugged = hotplugged
        .filter_map(|volume| index.claim(&subject.sibling(volume.claim()?)))
        .filter(|claim| claim.phase() == ClaimPhase::Bound);
    let sidecars = sidecar_claims(template);
    let sidecars = sidecars.iter().filter_map(|name| index.claim(&subject.sibling(name)));
    state
        .chain(hotplugged)
        .chain(sidecars)
        .map(|claim| Further::new(index, subject, index.read_claim(claim)))
        .collect()
}

impl Further {
    /// A claim and who uses it.
    #[must_use]
    pub fn new(index: &Index, subject: &Key, claim: Claim) -> Self {
        Self {
            users: users(index, subject, &claim),
            claim,
        }
    }
}

/// A live pod that is nobody's first-consumer pod and lists a claim that needs.
pub(super) fn foreign_consumer(index: &Index, subject: &Key, disks: &[Disk]) -> Option<Foreign> {
    let needing = disks
        .iter()
        .filter(|disk| disk.claim.as_ref().is_some_and(|claim| claim.needs));
    let keys: Vec<Key> = needing.map(|disk| subject.sibling(&disk.name)).collect();
    let mut pods = keys.iter().flat_map(|key| index.pods_of_claim(key));
    let foreign = pods.find(|pod| pod.live() && own_subject(pod).is_none());
    foreign.map(|pod| Foreign {
        name: Arc::clone(&pod.meta().name),
        scheduled: pod.scheduled(),
    })
}

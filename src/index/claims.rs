//! Claims, DataVolumes and volumes: they concern the subjects that name the claim.

use std::sync::Arc;

use super::cluster::in_namespace;
use super::{Changed, Index, Indexed, Link, Table};
use crate::api::{DataVolume, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, View as _};
use crate::claim::Claim;
use crate::name::{Key, Uid};

/// The label by which KubeVirt finds the claim of a VMI's TPM and EFI state (KubeVirt
/// `pkg/storage/backend-storage/backend-storage.go`).
const STATE_LABEL: &str = "persistent-state-for";

impl Indexed for DataVolume {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.data_volumes
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        // A DataVolume and its claim have one name (CDI reference 4.1).
        changed.extend(index.subjects_by_claim.of(&self.meta().key()).cloned());
    }
}

impl Indexed for PersistentVolumeClaim {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.claims
    }

    fn link(&self, index: &mut Index, link: Link) {
        if let Some(subject) = state_of(self) {
            index.state_claims_by_subject.set(subject, self.meta().key(), link);
        }
    }

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        let key = self.meta().key();
        changed.extend(state_of(self));
        changed.extend(index.subjects_by_claim.of(&key).cloned());
        if let Some(filled) = self.fills() {
            changed.extend(index.subjects_by_claim.of(&filled).cloned());
        }
    }
}

impl Indexed for PersistentVolume {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.volumes
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        let claim = self.claim();
        changed.extend(
            claim
                .iter()
                .flat_map(|claim| index.subjects_by_claim.of(claim))
                .cloned(),
        );
    }
}

impl Index {
    /// A claim with what surrounds it.
    #[must_use]
    pub fn read_claim(&self, claim: &PersistentVolumeClaim) -> Claim {
        let key = claim.meta().key();
        let class = claim.spec.storage_class_name.as_deref();
        let class = class.and_then(|class| self.class(class));
        // DataVolume and claim have one name (CDI reference 4.1); who controls the claim is checked by UID.
        let data_volume = self.data_volume(&key);
        let prime = self.prime_claim(&key, &claim.meta().uid).is_some();
        // Of a class that can't be seen, CDI tells the one thing that counts (CDI reference 1.2).
        let unseen = class.is_none() && self.unseen().contains(StorageClass::PLURAL);
        let waits = data_volume.is_some_and(|data_volume| data_volume.phase().waits());
        let assumed = (unseen && waits).then(StorageClass::waiting);
        let class = class.map(AsRef::as_ref).or(assumed.as_ref());
        let read = Claim::new(claim, class, data_volume.map(AsRef::as_ref), prime);
        let known = self.has_kind::<DataVolume>() && !self.unseen().contains(DataVolume::PLURAL);
        Claim {
            orphaned: read.orphaned && known,
            ..read
        }
    }

    /// The claim through which CDI fills the claim of this key and UID, if it is filled that way and that has begun
    /// (CDI `populators/populator-base.go`: `createPVCPrime`).
    #[must_use]
    pub fn prime_claim(&self, claim: &Key, uid: &Uid) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claim(&claim.sibling(&format!("prime-{uid}")))
    }

    /// The pods that CDI has made to fill the claim of this key and UID: those that are controlled by it or by its prime
    /// claim. Finished ones too.
    pub fn workers<'a>(&'a self, claim: &Key, uid: &Uid) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
        let prime = self.prime_claim(claim, uid).map(|prime| prime.meta());
        let target = (claim.clone(), uid.clone());
        let prime = prime.map(|prime| (prime.key(), prime.uid.clone()));
        let filled = [target].into_iter().chain(prime);
        filled.flat_map(move |(key, uid)| {
            let pods = self.pods_by_claim.of(&key).filter_map(|key| self.pods.get(key));
            pods.filter(move |pod| pod.meta().controller().is_some_and(|owner| owner.uid == uid))
        })
    }

    /// Whether claims of a Namespace are read at all. Of one without claims that can't be told.
    #[must_use]
    pub fn knows_claims_of(&self, namespace: &str) -> bool {
        in_namespace(&self.claims, namespace).next().is_some()
    }
}

/// The subject whose state the claim keeps: by its label, else by the name that older KubeVirt gave it.
fn state_of(claim: &PersistentVolumeClaim) -> Option<Key> {
    let meta = claim.meta();
    let subject = meta
        .label(STATE_LABEL)
        .or_else(|| meta.name.strip_prefix("persistent-state-for-"))?;
    Some(meta.key().sibling(subject))
}

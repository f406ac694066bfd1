//! Claims, DataVolumes and volumes: they concern the subjects that name the claim.

use super::{Changed, Index, Indexed, Link, Table};
use crate::api::{DataVolume, PersistentVolume, PersistentVolumeClaim, View as _};
use crate::claim::Claim;
use crate::name::Key;

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
        // The prime claim of a population is controlled by the claim that is being filled.
        if let Some(owner) = self.meta().controller().filter(|owner| &*owner.kind == Self::KIND) {
            changed.extend(index.subjects_by_claim.of(&key.sibling(&owner.name)).cloned());
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
        let prime = self
            .claim(&key.sibling(&format!("prime-{}", claim.meta().uid)))
            .is_some();
        Claim::new(claim, class.map(AsRef::as_ref), data_volume.map(AsRef::as_ref), prime)
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

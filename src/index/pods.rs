//! Pods: ours, launchers, and whoever else lists a claim.

use super::subjects::owning_subject;
use super::{Changed, Index, Indexed, Link, Table};
use crate::api::{Pod, View as _, VirtualMachineInstance};
use crate::name::{DOMAIN, Key, pod_name};

impl Indexed for Pod {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.pods
    }

    fn link(&self, index: &mut Index, link: Link) {
        let key = self.meta().key();
        for claim in self.claims() {
            index.pods_by_claim.set(key.sibling(claim), key.clone(), link);
        }
        if let Some(subject) = launched_subject(self) {
            index.launchers_by_subject.set(subject, key.clone(), link);
        }
        if let Some(subject) = own_subject(self) {
            index.own_pods_by_subject.set(subject, key, link);
        }
    }

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        let key = self.meta().key();
        for claim in self.claims() {
            let listed = key.sibling(claim);
            changed.extend(index.subjects_by_claim.of(&listed).cloned());
            // A worker of a prime claim fills the claim that controls it.
            if let Some(filled) = index.claim(&listed).and_then(|claim| claim.fills()) {
                changed.extend(index.subjects_by_claim.of(&filled).cloned());
            }
        }
        changed.extend(launched_subject(self));
        changed.extend(own_subject(self));
        changed.extend(index.subjects_by_pod_name.of(&key).cloned());
    }
}

/// The subject of a first-consumer pod: it has our label, is owned by a VM or VMI, and has the fixed name of that
/// subject. Look-alikes are nobody's.
#[must_use]
pub fn own_subject(pod: &Pod) -> Option<Key> {
    let meta = pod.meta();
    meta.labels.get(&*format!("{DOMAIN}/managed"))?;
    owning_subject(meta).filter(|subject| pod_name(subject) == *meta.name)
}

/// The subject of a launcher, temporary or real: KubeVirt's label, and a VMI as controller.
fn launched_subject(pod: &Pod) -> Option<Key> {
    let meta = pod.meta();
    let controller = meta.controller()?;
    (meta.label("kubevirt.io") == Some("virt-launcher") && &*controller.kind == VirtualMachineInstance::KIND)
        .then(|| meta.key().sibling(&controller.name))
}

//! VMs and VMIs: they concern the subject of their name, and name its claims.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;

use super::{Changed, Index, Indexed, Link, Table};
use crate::api::{Meta, Template, View as _, VirtualMachine, VirtualMachineInstance};
use crate::name::{Key, pod_name};

impl Indexed for VirtualMachine {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.vms
    }

    fn link(&self, index: &mut Index, link: Link) {
        let subject = self.meta().key();
        link_subject(index, &subject, self.template(), link);
        // The VMI of that name may name the same claims and must keep its links.
        if let (Link::Leave, Some(vmi)) = (link, index.vmis.get(&subject).cloned()) {
            vmi.link(index, Link::Enter);
        }
    }

    fn concerns(&self, _: &Index, changed: &mut Changed) {
        changed.insert(self.meta().key());
    }
}

impl Indexed for VirtualMachineInstance {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.vmis
    }

    fn link(&self, index: &mut Index, link: Link) {
        let subject = self.meta().key();
        link_subject(index, &subject, &self.template(), link);
        if let (Link::Leave, Some(vm)) = (link, index.vms.get(&subject).cloned()) {
            vm.link(index, Link::Enter);
        }
    }

    fn concerns(&self, _: &Index, changed: &mut Changed) {
        changed.insert(self.meta().key());
    }
}

fn link_subject(index: &mut Index, subject: &Key, template: &Template, link: Link) {
    for claim in named_claims(template) {
        index
            .subjects_by_claim
            .set(subject.sibling(&claim), subject.clone(), link);
    }
    index
        .subjects_by_pod_name
        .set(subject.sibling(&pod_name(subject)), subject.clone(), link);
    index.link_neighbour(subject, template, link);
}

impl Index {
    /// What the subject boots from: a VMI that lives says it itself, else the VM's template does.
    #[must_use]
    pub fn template(&self, subject: &Key) -> Option<Cow<'_, Template>> {
        match (self.vm(subject), self.vmi(subject)) {
            (Some(vm), None) => Some(Cow::Borrowed(vm.template())),
            (Some(vm), Some(vmi)) if vmi.phase().is_final() => Some(Cow::Borrowed(vm.template())),
            (_, Some(vmi)) => Some(Cow::Owned(vmi.template())),
            (None, None) => None,
        }
    }
}

/// Every claim that a template names: behind its volumes, and of its hook sidecars.
fn named_claims(template: &Template) -> Vec<Arc<str>> {
    let volumes = template
        .spec
        .volumes
        .iter()
        .filter_map(|volume| volume.claim().cloned());
    volumes.chain(sidecar_claims(template)).collect()
}

/// The claims of the hook sidecars in the annotation `hooks.kubevirt.io/hookSidecars` (KubeVirt `pkg/hooks/hooks.go`).
/// What is not readable there is refused when the pod is rendered, not here.
#[must_use]
pub fn sidecar_claims(template: &Template) -> Vec<Arc<str>> {
    #[derive(Deserialize)]
    struct Sidecar {
        pvc: Option<SidecarClaim>,
    }
    #[derive(Deserialize)]
    struct SidecarClaim {
        name: Arc<str>,
    }
    let Some(annotation) = template.metadata.annotations.get("hooks.kubevirt.io/hookSidecars") else {
        return Vec::new();
    };
    let sidecars: Vec<Sidecar> = serde_json::from_str(annotation).unwrap_or_default();
    sidecars
        .into_iter()
        .filter_map(|sidecar| Some(sidecar.pvc?.name))
        .collect()
}

/// The owner of kind VM or VMI of an object: the subject that it belongs to, whichever life of that name it was.
#[must_use]
pub(super) fn owning_subject(meta: &Meta) -> Option<Key> {
    let owner = meta.owner_references.iter().find(|owner| {
        owner.api_version.starts_with("kubevirt.io/")
            && matches!(&*owner.kind, VirtualMachine::KIND | VirtualMachineInstance::KIND)
    })?;
    Some(meta.key().sibling(&owner.name))
}

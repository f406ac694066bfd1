//! Index and subject to [`Observed`]: all that the decision may know.

mod allowance;
mod disks;
mod own_pod;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::api::{
    DataVolumePhase, Scheduled, Strings, Template, View as _, VirtualMachine, VirtualMachineInstance, VmiPhase,
};
use crate::claim::Claim;
use crate::index::Index;
use crate::lifecycle::{State, state};
use crate::name::Key;
use crate::peers::Peers;
use crate::placement::{Domains, Inputs, Placement, Refusal};
use crate::pod::Owner;
use crate::policy::{Permission, Policy, permission};

pub use allowance::Allowance;
pub use own_pod::{Named, OwnPod, own_pod};

/// What the caches hold about one subject.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The subject.
    pub subject: Key,
    /// The VM, or without one the VMI. `None` if neither exists.
    pub owner: Option<Owner>,
    /// Where in its life it is.
    pub state: State,
    /// Whether its Namespace is being deleted.
    pub namespace_terminating: bool,
    /// What the API server lets into its Namespace.
    pub allowance: Allowance,
    /// Whether a VM and a VMI have its name, and the VM does not control the VMI.
    pub name_conflict: bool,
    /// When the VMI was created that is to run now; one that has ended is followed by another.
    pub vmi_created: Option<Timestamp>,
    /// Whether flags and annotations allow to serve it.
    pub permission: Permission,
    /// What it needs to boot, in spec order.
    pub disks: Vec<Disk>,
    /// Further claims that a pod lists: state of TPM and EFI, bound hotplugged disks, sidecars.
    pub further: Vec<Further>,
    /// A live launcher.
    pub launcher: Option<Arc<str>>,
    /// A live pod that is nobody's first-consumer pod and lists a claim that needs.
    pub foreign_consumer: Option<Foreign>,
    /// The pod that has the subject's fixed name.
    pub pod: Named,
    /// Labels of the template.
    pub labels: Strings,
    /// What the VM will ask for, kept out of where its peers are. `None` if no disk needs it and no own pod is there to
    /// compare with.
    pub placement: Option<Result<Placement, Refusal>>,
    /// What has to be expanded before there is a placement ([`VirtualMachine::expansion_inputs`]).
    pub unexpanded: Option<String>,
    /// Whom it must not run beside. Nobody, until somebody looks around ([`Observed::look_around`]).
    pub peers: Peers,
    /// The own pod is as it should be but that it keeps out of more places than it has to.
    pub too_strict: bool,
    /// Whom it has to let go first. Nobody, until a turn has looked ([`crate::decide::turn`]).
    pub rival: Option<Rival>,
}

/// A subject that goes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// It shares a claim that needs a consumer.
    Shares {
        /// Who.
        subject: Key,
        /// Which claim.
        claim: Arc<str>,
    },
    /// The two must not run beside each other.
    Peer(Key),
}

/// What `expand-spec` has made of a VM's template.
#[derive(Clone, Debug, PartialEq)]
pub struct Expanded {
    /// Of what it is the expansion ([`VirtualMachine::expansion_inputs`]).
    pub inputs: String,
    /// The expansion.
    pub template: Template,
}

/// A boot volume and its claim.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Name of the volume in the VM's spec.
    pub volume: Arc<str>,
    /// Whether the VM names a DataVolume, and not a claim.
    pub names_data_volume: bool,
    /// Name of the claim.
    pub name: Arc<str>,
    /// The claim, if it exists.
    pub claim: Option<Claim>,
    /// Phase of the DataVolume, whether or not its claim exists.
    pub data_volume: Option<DataVolumePhase>,
    /// What CDI says of a DataVolume that is not filled: its condition `Running`, where that is not met.
    pub data_volume_words: Option<String>,
    /// Whether the DataVolume is being deleted.
    pub data_volume_terminating: bool,
    /// Who uses the claim.
    pub users: Users,
}

/// A claim that a pod lists beside the boot disks.
#[derive(Clone, Debug)]
pub struct Further {
    /// The claim.
    pub claim: Claim,
    /// Who uses it.
    pub users: Users,
}

/// Live pods that list a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Whether a worker does, which the claim controls.
    pub worker: bool,
    /// One that is not the subject's own.
    pub other: Option<Arc<str>>,
}

/// A pod that is nobody's first-consumer pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its name.
    pub name: Arc<str>,
    /// What the scheduler says of it.
    pub scheduled: Scheduled,
}

impl Observed {
    /// Looks at the subject's peers, too, and keeps its placement out of where their disks are.
    pub fn look_around(&mut self, index: &Index) {
        let waits = self.placement.is_some() || self.own_pod().is_some();
        self.peers = Peers::of(index, &self.subject, waits);
        let placement = self.placement.take();
        self.too_strict = self.own_pod().is_some_and(|pod| {
            let known = &pod.marks.domains;
            let less = *known != self.peers.domains && contains(known, &self.peers.domains);
            let made = |placement: &Placement| placement.clone().keep_out_of(known).hash() == *pod.marks.placement_hash;
            less && matches!(&placement, Some(Ok(placement)) if made(placement))
        });
        self.placement = placement.map(|placement| Ok(placement?.keep_out_of(&self.peers.domains)));
    }

    /// The boot claims that exist.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.disks.iter().filter_map(|disk| disk.claim.as_ref())
    }

    /// Everything that a pod lists, one entry a claim.
    #[must_use]
    pub fn listed(&self) -> Vec<&Claim> {
        let mut listed: Vec<&Claim> = Vec::new();
        for claim in self.claims().chain(self.further.iter().map(|further| &further.claim)) {
            if listed.iter().all(|other| other.name != claim.name) {
                listed.push(claim);
            }
        }
        listed
    }

    /// The claims that a pod lists and who uses them; the further ones only if there is to be a pod.
    pub fn used(&self) -> impl Iterator<Item = (&Claim, &Users)> {
        let boot = self.disks.iter();
        let further = self.further.iter().filter(|_| self.needs());
        boot.filter_map(|disk| Some((disk.claim.as_ref()?, &disk.users)))
            .chain(further.map(|further| (&further.claim, &further.users)))
    }

    /// A bound claim that waits for a worker, which CDI will not start while a pod of ours lists it.
    #[must_use]
    pub fn awaits_worker(&self) -> Option<&Claim> {
        let mut used = self.used();
        used.find_map(|(claim, users)| (claim.awaits_worker() && !users.worker).then_some(claim))
    }

    /// Whether a boot claim needs a first consumer.
    #[must_use]
    pub fn needs(&self) -> bool {
        self.claims().any(|claim| claim.needs)
    }

    /// Whether the own pod has done its work: nothing needs it, and every late claim that it lists is placed, or bound if
    /// it holds.
    #[must_use]
    pub fn served(&self) -> bool {
        let released = |pod: &OwnPod| pod.claims.iter().all(|claim| claim.released(pod.marks.hold));
        !self.needs() && self.own_pod().is_some_and(released)
    }

    /// Whether the scheduler may be choosing a node for the own pod.
    #[must_use]
    pub fn awaits_node(&self) -> bool {
        self.needs() && self.own_pod().is_some_and(|pod| !pod.finished())
    }

    /// The own pod.
    #[must_use]
    pub fn own_pod(&self) -> Option<&OwnPod> {
        match &self.pod {
            Named::Own(pod) => Some(pod),
            Named::Nobody | Named::Foreign => None,
        }
    }
}

/// Whether the inner domains are all among the outer ones.
fn contains(outer: &Domains, inner: &Domains) -> bool {
    let known =
        |(key, values): (&Arc<str>, &BTreeSet<Arc<str>>)| outer.get(key).is_some_and(|known| values.is_subset(known));
    inner.iter().all(known)
}

/// Looks at one subject, as if it were alone. `expanded` is the last expansion of its template, current or not.
#[must_use]
pub fn observe(index: &Index, subject: &Key, policy: Policy, expanded: Option<&Expanded>) -> Observed {
    let vm = index.vm(subject).map(AsRef::as_ref);
    let vmi = index.vmi(subject).map(AsRef::as_ref);
    let namespace = index.namespace(&subject.namespace).map(|namespace| namespace.meta());
    let state = state(vm, vmi);
    let template = index.template(subject).unwrap_or_default();
    let disks = disks::of_template(index, subject, &template);
    let pod = own_pod::named(index, subject);
    let wanted = matches!(pod, Named::Own(_)) || disks.iter().any(|disk| disk.claim.as_ref().is_some_and(|c| c.needs));
    let (template, unexpanded) = if wanted {
        expand(index, subject, template, expanded)
    } else {
        (template, None)
    };
    Observed {
        owner: owner(vm, vmi),
        state,
        namespace_terminating: namespace.is_some_and(crate::api::Meta::terminating),
        allowance: Allowance::of(index, &subject.namespace),
        name_conflict: name_conflict(vm, vmi),
        vmi_created: living(index, subject).and_then(|vmi| vmi.meta().creation_timestamp),
        permission: permission(policy, state, vm, vmi, namespace),
        further: disks::further(index, subject, &template),
        launcher: index
            .launchers(subject)
            .find(|pod| pod.live())
            .map(|pod| Arc::clone(&pod.meta().name)),
        foreign_consumer: disks::foreign_consumer(index, subject, &disks),
        placement: wanted.then(|| render(index, subject, &template, unexpanded.is_some())),
        unexpanded,
        peers: Peers::default(),
        too_strict: false,
        rival: None,
        labels: template.into_owned().metadata.labels,
        subject: subject.clone(),
        disks,
        pod,
    }
}

/// What the VM will ask for, whether or not a pod is wanted, kept out of where its peers are.
pub fn placement(index: &Index, subject: &Key, expanded: Option<&Expanded>) -> Result<Placement, Refusal> {
    let template = index.template(subject).unwrap_or_default();
    let (template, unexpanded) = expand(index, subject, template, expanded);
    let placement = render(index, subject, &template, unexpanded.is_some())?;
    Ok(placement.keep_out_of(&Peers::of(index, subject, true).domains))
}

/// The template as virt-controller will have it, or what has to be expanded for that.
fn expand<'a>(
    index: &Index,
    subject: &Key,
    template: Cow<'a, Template>,
    expanded: Option<&Expanded>,
) -> (Cow<'a, Template>, Option<String>) {
    let unexpanded = unexpanded(index, subject).map(|(_, inputs)| inputs);
    match expanded.filter(|expanded| unexpanded.as_ref() == Some(&expanded.inputs)) {
        Some(expanded) => (Cow::Owned(expanded.template.clone()), None),
        None => (template, unexpanded),
    }
}

/// The VM that has to be expanded before its template says all, and of what the expansion depends. A VMI that lives has
/// been expanded by virt-controller.
#[must_use]
pub fn unexpanded<'a>(index: &'a Index, subject: &Key) -> Option<(&'a VirtualMachine, String)> {
    let vm = index
        .vm(subject)
        .filter(|vm| vm.needs_expansion() && living(index, subject).is_none())?;
    Some((vm, vm.expansion_inputs()))
}

/// The VMI, unless it has ended and its VM will make another one.
fn living<'a>(index: &'a Index, subject: &Key) -> Option<&'a VirtualMachineInstance> {
    let vmi = index.vmi(subject)?;
    (index.vm(subject).is_none() || !vmi.phase().is_final()).then_some(vmi)
}

fn render(index: &Index, subject: &Key, template: &Template, unexpanded: bool) -> Result<Placement, Refusal> {
    if unexpanded {
        return Err(Refusal::NotExpanded);
    }
    let living = living(index, subject);
    let state_claim = index.state_claims(subject).filter(|_| template.spec.persistent_state);
    let quotas: Vec<_> = index.quotas(&subject.namespace).map(AsRef::as_ref).collect();
    let nodes: Vec<_> = index.nodes().map(AsRef::as_ref).collect();
    Placement::of(&Inputs {
        template,
        // virt-api gives every VMI a phase when it gives it the defaults; in a file it may have neither.
        defaulted: living.is_some_and(|vmi| vmi.phase() != VmiPhase::Unset),
        machine: living.and_then(VirtualMachineInstance::machine),
        tsc_frequency: living.and_then(VirtualMachineInstance::tsc_frequency),
        namespace: &subject.namespace,
        namespace_labels: index
            .namespace(&subject.namespace)
            .map(|namespace| &namespace.meta().labels),
        kubevirt: index.kubevirt().map(AsRef::as_ref),
        claim: &|name| index.claim(&subject.sibling(name)).map(AsRef::as_ref),
        state_claim: state_claim.map(|claim| &*claim.meta().name).next(),
        quotas: &quotas,
        network: &|namespace, name| index.network(&Key::new(namespace, name)).map(AsRef::as_ref),
        nodes: &nodes,
    })
}

fn owner(vm: Option<&VirtualMachine>, vmi: Option<&VirtualMachineInstance>) -> Option<Owner> {
    let vm = vm.map(|vm| Owner {
        kind: VirtualMachine::KIND,
        uid: vm.meta().uid.clone(),
    });
    vm.or_else(|| {
        Some(Owner {
            kind: VirtualMachineInstance::KIND,
            uid: vmi?.meta().uid.clone(),
        })
    })
}

fn name_conflict(vm: Option<&VirtualMachine>, vmi: Option<&VirtualMachineInstance>) -> bool {
    match (vm, vmi) {
        (Some(vm), Some(vmi)) => vmi
            .meta()
            .controller()
            .is_none_or(|owner| owner.kind != VirtualMachine::KIND.into() || owner.uid != vm.meta().uid),
        _ => false,
    }
}

//! What may be wrong about where a disk, a pod or the VM is or shall be.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::wishes::NodeWishes;
use super::{Case, Since, Suspicion};
use crate::api::{ClaimPhase, DataVolumePhase, HOSTNAME, Node, Pod, Scheduled, View as _};
use crate::claim::Claim;
use crate::name::{a_few, pod_name};
use crate::observe::Disk;
use crate::pod::Owner;
use crate::reason::{Known, Trouble};

/// How long a node may be away, a launcher unschedulable, or a scheduler silent.
const HALF_MINUTE: u64 = 30;

/// How long a pod without grace period may be on its way out.
const GOING: u64 = 60;

/// How long a scheduler may take from the pod's node to its claims' node.
const MINUTE: u64 = 60;

/// A pending claim's node, or every node that reaches a bound claim's volume, does not exist. Where no node is known at
/// all, nothing is said: a file need not hold them.
pub(super) fn selected_node_missing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let claim = disk.claim.as_ref().filter(|claim| !claim.terminating)?;
    case.index.nodes().next()?;
    let (node, about) = match claim.phase {
        ClaimPhase::Pending => {
            let node = claim.selected_node.clone()?;
            let about = format!("{node} was chosen for {}", claim.name);
            (node, about)
        }
        ClaimPhase::Bound if reaching(case, claim)?.is_empty() => {
            let gone = |node: &Arc<str>| case.index.node(node).is_none();
            let node = claim.selected_node.clone().filter(gone);
            let node = node.or_else(|| expected(case, claim))?;
            let about = format!("the volume of {} can only be reached from {node}", claim.name);
            (node, about)
        }
        ClaimPhase::Bound | ClaimPhase::Lost => return None,
    };
    let known = match (claim.phase, &claim.data_volume) {
        (ClaimPhase::Bound, None) => Known::HoldsData,
        (ClaimPhase::Bound, Some(controller)) if controller.phase == DataVolumePhase::Succeeded => Known::HoldsData,
        _ => Known::Nothing,
    };
    let missing = case.index.node(&node).is_none();
    missing.then(|| Suspicion::of(Trouble::SelectedNodeMissing, &disk.name, about, &*node).knowing(known))
}

/// The kubelet of a pending claim's node, or of every node that reaches a bound and unfilled claim's volume, has not
/// reported for a while.
pub(super) fn selected_node_not_ready(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let claim = disk.claim.as_ref().filter(|claim| !claim.terminating)?;
    let unfilled = claim
        .data_volume
        .as_ref()
        .is_some_and(|controller| controller.phase != DataVolumePhase::Succeeded);
    let nodes: Vec<&Arc<Node>> = match claim.phase {
        ClaimPhase::Pending => vec![case.index.node(claim.selected_node.as_ref()?)?],
        ClaimPhase::Bound if unfilled => reaching(case, claim)?,
        ClaimPhase::Bound | ClaimPhase::Lost => return None,
    };
    let node = &nodes.first()?.metadata.name;
    let asleep = nodes.iter().all(|node| !node.ready());
    let suspicion = || {
        Suspicion::of(
            Trouble::SelectedNodeNotReady,
            &disk.name,
            format!("{} is on {node}", claim.name),
            &**node,
        )
    };
    asleep.then(|| suspicion().lasting(Since::Seen(None), HALF_MINUTE))
}

/// Our pod is deleted without grace period and still there, which only finalizers can do.
pub(super) fn pod_held(case: &Case) -> Option<Suspicion> {
    let pod = own_pod(case)?;
    let since = pod.meta().deletion_timestamp?;
    let name = &pod.meta().name;
    let suspicion = Suspicion::of(Trouble::PodHeld, "", format!("pod {name}"), &**name);
    Some(suspicion.lasting(Since::Told(Some(since)), GOING))
}

/// Our pod or a launcher has no word from the scheduler that it asks for. A node that was chosen for one of its claims is
/// a word: the rest comes when the volumes are there (Kubernetes `volumebinding/volume_binding.go`: `PreBind`), and a
/// moment later than them.
pub(super) fn scheduler_silent(case: &Case) -> Option<Suspicion> {
    let lost = |claim: &Claim| case.watched.is_some_and(|watched| watched.lost(&claim.uid) > 0);
    let listing = case.observed.listed();
    let spoken = |pod: &Arc<Pod>| {
        let mut pending = listing.iter().filter(|claim| claim.phase == ClaimPhase::Pending);
        pending.any(|claim| pod.claims().any(|name| *name == claim.name) && (claim.placed || lost(claim)))
    };
    let pod = pods(case).find(|pod| pod.scheduled() == Scheduled::Silent && !spoken(pod))?;
    let (name, scheduler) = (&pod.meta().name, pod.scheduler());
    let about = format!("pod {name} asks for {scheduler}");
    let suspicion = Suspicion::of(Trouble::SchedulerSilent, "", about, scheduler);
    Some(suspicion.lasting(Since::Seen(pod.meta().creation_timestamp), HALF_MINUTE))
}

/// Our pod or a launcher has a node, and a late claim that it lists has none: delayed binding is the scheduler's work,
/// and this one does not do it.
pub(super) fn scheduler_does_not_bind(case: &Case) -> Option<Suspicion> {
    pods(case).filter(|pod| pod.node().is_some()).find_map(|pod| {
        let listed = |claim: &&Claim| pod.claims().any(|name| *name == claim.name);
        let listing = case.observed.listed();
        let unbound = listing.into_iter().filter(listed);
        let unbound = unbound
            .into_iter()
            .find(|claim| claim.late && !claim.placed && claim.phase == ClaimPhase::Pending)?;
        let name = &pod.meta().name;
        let about = format!("pod {name}, scheduler {}, claim {}", pod.scheduler(), unbound.name);
        let suspicion = Suspicion::of(Trouble::SchedulerDoesNotBind, "", about, &**name);
        Some(suspicion.lasting(Since::Told(pod.scheduled_since()), MINUTE))
    })
}

/// The volumes of two or more disks are reached from different nodes.
pub(super) fn disks_conflict(case: &Case) -> Option<Suspicion> {
    let placed = placed(case)?;
    // A node that is gone is another diagnosis.
    let alone = placed.len() < 2 || placed.iter().any(|(_, nodes)| nodes.is_empty());
    if alone || !common(&placed).is_empty() {
        return None;
    }
    let disks = placed
        .iter()
        .map(|(claim, nodes)| format!("{} on {}", claim.name, named(nodes)));
    let about = disks.collect::<Vec<_>>().join(", ");
    let last = placed.last().map(|(claim, _)| &*claim.name).unwrap_or_default();
    Some(Suspicion::of(Trouble::DisksConflict, "", about, last))
}

/// No node that reaches all disks has what the VM itself asks of a node. What KubeVirt adds is not compared: the labels
/// of processors are not kept.
pub(super) fn bound_where_vm_cannot_run(case: &Case) -> Option<Suspicion> {
    let template = case.index.template(&case.observed.subject)?;
    let wishes = NodeWishes::of_spec(&template.spec.json)?;
    let placed = placed(case)?;
    let common = common(&placed);
    if common.is_empty() || common.iter().any(|node| wishes.take(node)) {
        return None;
    }
    let disks: Vec<&str> = placed.iter().map(|(claim, _)| &*claim.name).collect();
    let nodes: Vec<&Arc<Node>> = common.into_iter().collect();
    let about = format!(
        "{} on {}, and the VM asks for {}",
        disks.join(", "),
        named(&nodes),
        wishes.unmet(&nodes)
    );
    let kind = case.observed.owner.as_ref().map_or("vmi", Owner::word);
    let object = format!("{kind}/{}", case.observed.subject.name);
    Some(Suspicion::of(Trouble::BoundWhereVmCannotRun, "", about, object))
}

/// The scheduler says so of a launcher, temporary or real, of a VM with late disks: where they are or will be is at
/// least part of it.
pub(super) fn launcher_unschedulable(case: &Case) -> Option<Suspicion> {
    if !case.observed.claims().any(|claim| claim.late) {
        return None;
    }
    let mut live = case.index.launchers(&case.observed.subject).filter(|pod| pod.live());
    live.find_map(|pod| Suspicion::unschedulable(Trouble::LauncherUnschedulable, "", pod, HALF_MINUTE))
}

/// Our pod and the subject's launchers, as far as they live.
fn pods<'a>(case: &'a Case) -> impl Iterator<Item = &'a Arc<Pod>> {
    let launchers = case.index.launchers(&case.observed.subject);
    own_pod(case)
        .into_iter()
        .chain(launchers)
        .filter(|pod| pod.live() && !pod.meta().terminating())
}

/// Our pod, if the watch has shown it.
fn own_pod<'a>(case: &'a Case) -> Option<&'a Arc<Pod>> {
    let subject = &case.observed.subject;
    case.observed.own_pod()?;
    case.index.pod(&subject.sibling(&pod_name(subject)))
}

/// The nodes that reach the claim's volume; `None` if it has none yet, or one that all nodes reach. Of a volume that we
/// have not seen, the node that was chosen for it.
fn reaching<'a>(case: &'a Case, claim: &Claim) -> Option<Vec<&'a Arc<Node>>> {
    let object = case.index.claim(&case.observed.subject.sibling(&claim.name))?;
    let Some(volume) = case.index.volume(object.spec.volume_name.as_deref()?) else {
        return Some(vec![case.index.node(claim.selected_node.as_ref()?)?]);
    };
    // Nearly always one host, whose name is the node's; otherwise all nodes are asked.
    let host = |name: &Arc<str>| {
        let node = case.index.node(name);
        node.filter(|node| node.metadata.label(HOSTNAME) == Some(&**name))
    };
    if let Some(hosts) = volume.hosts().and_then(|hosts| hosts.iter().map(host).collect()) {
        return Some(hosts);
    }
    let near = |node: &&Arc<Node>| volume.reachable_from(&node.metadata.name, &node.metadata.labels);
    volume
        .bound_to_nodes()
        .then(|| case.index.nodes().filter(near).collect())
}

/// The node that a volume names, if it names one.
fn expected(case: &Case, claim: &Claim) -> Option<Arc<str>> {
    let object = case.index.claim(&case.observed.subject.sibling(&claim.name))?;
    let volume = case.index.volume(object.spec.volume_name.as_deref()?)?;
    volume.named_place().cloned()
}

/// A claim and the nodes that reach its volume.
type Placed<'a> = (&'a Claim, Vec<&'a Arc<Node>>);

/// The bound boot claims that not every node reaches, and who does. `None` if nobody need ask: KubeVirt's own pod has a
/// node already, or no node is known.
fn placed<'a>(case: &'a Case) -> Option<Vec<Placed<'a>>> {
    let mut launchers = case.index.launchers(&case.observed.subject);
    if launchers.any(|pod| pod.live() && pod.node().is_some()) {
        return None;
    }
    case.index.nodes().next()?;
    let bound = case.observed.claims().filter(|claim| claim.phase == ClaimPhase::Bound);
    Some(
        bound
            .filter_map(|claim| Some((claim, reaching(case, claim)?)))
            .collect(),
    )
}

/// The nodes that reach all of them; none if there is no disk to ask for.
fn common<'a>(placed: &[Placed<'a>]) -> Vec<&'a Arc<Node>> {
    let [(_, first), rest @ ..] = placed else {
        return Vec::new();
    };
    let reaches = |node: &&&Arc<Node>| {
        rest.iter()
            .all(|(_, nodes)| nodes.iter().any(|other| other.metadata.name == node.metadata.name))
    };
    first.iter().filter(reaches).copied().collect()
}

/// A few nodes for a person.
fn named(nodes: &[&Arc<Node>]) -> String {
    let names: BTreeSet<&str> = nodes.iter().map(|node| &*node.metadata.name).collect();
    a_few(&names, 3).unwrap_or_default()
}

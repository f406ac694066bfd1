//! What may be wrong with CDI's worker, which fills a disk, and with the gate that says when it may begin.

use std::sync::Arc;

use super::disks::{MINUTE, SHORT, bound_after, newest, pending};
use super::{Case, Since, Suspicion, places};
use crate::api::{
    BY_NODE, BY_TAINT, ClaimPhase, DataVolumePhase, Event, IMMEDIATE_BINDING, PersistentVolumeClaim, Pod, PodPhase,
    View as _,
};
use crate::claim::{Claim, Path};
use crate::observe::Disk;
use crate::reason::{Known, Trouble};

/// How long a worker may take to come, and from its node to its first step: its image is pulled and its volume attached.
const STARTING: u64 = 120;

/// A worker that was started again so often will not come to an end by itself.
const MANY_RESTARTS: u32 = 3;

/// CDI has written down on the claim why it could not create the worker (CDI `common/util.go`: `HandleFailedPod`).
pub(super) fn worker_refused(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (_, meta) = unfilled(case, disk).map(|(claim, object)| (claim, object.meta()))?;
    let reason = meta.annotation("cdi.kubevirt.io/storage.condition.running.reason")?;
    let refused = matches!(reason, "ErrExceededQuota" | "ErrStartingPod") && workers(case, disk).next().is_none();
    // CDI keeps the API server's words to itself.
    let quotas = case.index.quotas(&case.observed.subject.namespace);
    let quotas: Vec<&str> = quotas.map(|quota| &*quota.meta().name).collect();
    let words = meta.annotation("cdi.kubevirt.io/storage.condition.running.message");
    let (about, object) = match (reason, &*quotas) {
        ("ErrExceededQuota", [only]) => (format!("{}: it exceeds the quota {only}", disk.name), *only),
        ("ErrExceededQuota", [_, ..]) => (
            format!("{}: it exceeds one of the quotas {}", disk.name, quotas.join(", ")),
            "",
        ),
        _ => (format!("{}: {}", disk.name, words.unwrap_or(reason)), ""),
    };
    let suspicion = Suspicion::of(Trouble::WorkerRefused, &disk.name, about, object);
    refused.then(|| suspicion.lasting(Since::Seen(None), SHORT))
}

/// virt-controller's temporary pod lists a bound claim on the legacy path: CDI does not start its worker while it lives
/// (CDI reference 7.2), and it lives because no node fits.
pub(super) fn launcher_blocks_import(case: &Case, disk: &Disk) -> Option<Suspicion> {
    if disk.users.worker || !disk.claim.as_ref().is_some_and(Claim::awaits_worker) {
        return None;
    }
    let mut launchers = case.index.launchers(&case.observed.subject).filter(|pod| pod.live());
    let pod = launchers.find(|pod| pod.temporary() && pod.claims().any(|claim| *claim == disk.name))?;
    Suspicion::unschedulable(Trouble::LauncherBlocksImport, &disk.name, pod, SHORT)
}

/// The claim that a worker writes into is bound, no pod uses it, and no worker comes: CDI does not run, or does not dare
/// yet, because a pod has used the claim before (CDI reference 7.2). Between the stages of an import there is none.
pub(super) fn worker_missing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    use DataVolumePhase::{
        CloneFromSnapshotSourceInProgress, CsiCloneInProgress, Paused, PendingPopulation, PrepClaimInProgress,
        RebindInProgress, SnapshotForSmartCloneInProgress,
    };
    let (claim, object) = unfilled(case, disk)?;
    let without_pod = matches!(
        claim.data_volume.as_ref()?.phase,
        Paused
            | PendingPopulation
            | SnapshotForSmartCloneInProgress
            | CloneFromSnapshotSourceInProgress
            | CsiCloneInProgress
            | PrepClaimInProgress
            | RebindInProgress
    );
    let written = match claim.path {
        Path::Legacy => Some(object),
        Path::Populator => case.index.prime_claim(&case.key(disk), &claim.uid),
    };
    let written = written.filter(|claim| claim.phase() == ClaimPhase::Bound && !without_pod)?;
    let used = case.index.pods_of_claim(&written.meta().key()).any(|pod| pod.live());
    if used || workers(case, disk).next().is_some() {
        return None;
    }
    let key = case.key(disk);
    let told = newest(
        case.events(PersistentVolumeClaim::KIND, &key, &claim.uid.0)
            .filter(|event| event.warns()),
    );
    let words = told.map(|event| &*event.message);
    let said = disk.data_volume_words.as_deref();
    let about: Vec<&str> = [&*disk.name].into_iter().chain(said).chain(words).collect();
    let whose = words.map_or("", |_| &*disk.name);
    let suspicion = Suspicion::of(Trouble::WorkerMissing, &disk.name, about.join(", "), whose);
    Some(suspicion.lasting(Since::Seen(bound_after(case, written)), STARTING))
}

/// The scheduler says so of a live worker. At first that is usual: the scratch space comes after the pod. A taint or a
/// selector is a matter of what CDI asks for its workers.
pub(super) fn worker_unschedulable(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let mut live = workers(case, disk).filter(|pod| pod.live());
    let suspicion =
        live.find_map(|pod| Suspicion::unschedulable(Trouble::WorkerUnschedulable, &disk.name, pod, SHORT))?;
    let by_cdi = [BY_NODE, BY_TAINT]
        .iter()
        .any(|words| suspicion.finding.about.contains(words));
    Some(if by_cdi {
        suspicion.knowing(Known::PlacedByCdi)
    } else {
        suspicion
    })
}

/// A worker's container cannot start or ends badly again and again, or the pod has failed as a whole; or the clone
/// populator says so itself (CDI `populators/clone-populator.go`: `cloneError`).
pub(super) fn worker_failing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (_, object) = unfilled(case, disk)?;
    let of_pod = workers(case, disk).find_map(|pod| {
        let about = format!("pod {}{}", pod.meta().name, ailment(pod)?);
        Some(Suspicion::of(
            Trouble::WorkerFailing,
            &disk.name,
            about,
            &*pod.meta().name,
        ))
    });
    of_pod.or_else(|| {
        let words = object.meta().annotation("cdi.kubevirt.io/cloneError")?;
        Some(Suspicion::of(Trouble::WorkerFailing, &disk.name, words, ""))
    })
}

/// How a worker fails, beginning with what stands after its name.
fn ailment(pod: &Pod) -> Option<String> {
    if !pod.live() {
        return (!pod.succeeded()).then(|| format!(", {}", pod.outcome()));
    }
    let container = pod
        .troubled_containers()
        .iter()
        .find(|container| !container.waiting.is_empty() || container.restarts >= MANY_RESTARTS)?;
    let restarts = format!(", {} restarts", container.restarts);
    let waiting = format!(", {}", container.waiting);
    let message = format!(": {}", container.message);
    let parts = [
        (container.restarts > 0, restarts),
        (!container.waiting.is_empty(), waiting),
        (!container.message.is_empty(), message),
    ];
    Some(
        parts
            .into_iter()
            .filter_map(|(said, text)| said.then_some(text))
            .collect(),
    )
}

/// A worker has a node, and none of its containers runs: its image or its volume does not come. The kubelet says why in
/// an Event alone.
pub(super) fn worker_not_starting(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (pod, node) = workers(case, disk).find_map(|pod| {
        let waits = pod.phase() == PodPhase::Pending;
        Some((pod, pod.node().filter(|_| waits)?))
    })?;
    let meta = pod.meta();
    let key = meta.key();
    let words = newest(case.events(Pod::KIND, &key, &meta.uid.0).filter(|event| event.warns()));
    let words = words
        .map(|event: &Event| format!(": {}", event.message))
        .unwrap_or_default();
    let about = format!("pod {} on {node}{words}", meta.name);
    let suspicion = Suspicion::of(Trouble::WorkerNotStarting, &disk.name, about, &*meta.name);
    Some(suspicion.lasting(Since::Told(pod.scheduled_since()), STARTING))
}

/// A claim of a late class is neither waited for nor left to a consumer. On the legacy path its DataVolume stays
/// `Pending` (CDI `datavolume/controller-base.go`: `shouldBeMarkedWaitForFirstConsumer`); on the populator path CDI has
/// put the annotation on the claim that its DataVolume does not have (`common/util.go`:
/// `AddImmediateBindingAnnotationIfWFFCDisabled`).
pub(super) fn gate_off(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (claim, object) = pending(case, disk)?;
    if !claim.late || claim.placed || claim.needs || disk.users.worker || case.evidence.gate == Some(true) {
        return None;
    }
    let data_volume = case.index.data_volume(&case.key(disk))?;
    let given = object.meta().annotation(IMMEDIATE_BINDING);
    let off = match claim.path {
        Path::Legacy => data_volume.phase() == DataVolumePhase::Pending && given.is_none(),
        Path::Populator => given == Some("") && !asked(case, disk),
    };
    let suspicion = || Suspicion::of(Trouble::GateOff, &disk.name, &*disk.name, "");
    let since = Since::Told(object.meta().creation_timestamp);
    (off && claim.data_volume.is_some()).then(|| suspicion().lasting(since, MINUTE))
}

/// CDI has bound a disk without waiting for its VM, whose gate was off: the disk is where the VM may not run, or where the
/// others are not. On the populator path the claim says so; on the legacy path only who knows the gate can tell.
pub(super) fn misplaced_by_gate(case: &Case) -> Option<Suspicion> {
    let misplaced = places::disks_conflict(case).or_else(|| places::bound_where_vm_cannot_run(case))?;
    let by_cdi = |disk: &&Disk| {
        let claim = disk
            .claim
            .as_ref()
            .filter(|claim| claim.late && claim.data_volume.is_some());
        let object = claim.and_then(|_| case.index.claim(&case.key(disk)));
        object.is_some_and(|object| match object.meta().annotation(IMMEDIATE_BINDING) {
            Some(value) => value.is_empty() && !asked(case, disk),
            None => case.evidence.gate == Some(false),
        })
    };
    let known_on = case.evidence.gate == Some(true);
    let by_cdi = case.observed.disks.iter().filter(|disk| !known_on && by_cdi(disk));
    let by_cdi: Vec<Arc<str>> = by_cdi.map(|disk| Arc::clone(&disk.name)).collect();
    (!by_cdi.is_empty()).then(|| Suspicion::of(Trouble::GateOff, "", misplaced.finding.about, "").beside(by_cdi))
}

/// Whether a person has asked CDI not to wait.
fn asked(case: &Case, disk: &Disk) -> bool {
    let data_volume = case.index.data_volume(&case.key(disk));
    data_volume.is_some_and(|data_volume| data_volume.meta().annotation(IMMEDIATE_BINDING).is_some())
}

/// The disk's claim, as it was read and as it is, while CDI has not filled it.
fn unfilled<'a>(case: &'a Case, disk: &'a Disk) -> Option<(&'a Claim, &'a Arc<PersistentVolumeClaim>)> {
    let claim = disk.claim.as_ref().filter(|claim| !claim.terminating)?;
    let controller = claim.data_volume.as_ref()?;
    let open = !controller.phase.is_final();
    open.then_some((claim, case.index.claim(&case.key(disk))?))
}

/// The worker pods of an unfilled disk.
fn workers<'a>(case: &'a Case, disk: &'a Disk) -> impl Iterator<Item = &'a Arc<Pod>> {
    let unfilled = unfilled(case, disk).into_iter();
    unfilled.flat_map(move |(claim, _)| case.index.workers(&case.key(disk), &claim.uid))
}

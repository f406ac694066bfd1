//! What may be wrong on the way from a DataVolume to a filled claim, in the order of that way.

use std::sync::Arc;

use super::{Case, Since, Suspicion};
use crate::api::{ClaimPhase, DataVolume, DataVolumePhase, Event, PersistentVolumeClaim, Pod, Scheduled, View as _};
use crate::claim::{Claim, Path};
use crate::name::Key;
use crate::observe::Disk;
use crate::reason::{Trouble, quota};

/// How long an answer may take that usually comes within a second.
const SHORT: u64 = 10;

/// How long CDI may take to look at a new DataVolume.
const MINUTE: u64 = 60;

/// How long a provisioner may be silent.
const PROVISIONER: u64 = 120;

/// How long a populator that is not CDI's may take to begin.
const POPULATOR: u64 = 300;

/// A node that was given back so often will be given back again.
const MANY_TIMES: u32 = 3;

/// A worker that was started again so often will not come to an end by itself.
const MANY_RESTARTS: u32 = 3;

/// No DataVolume can exist, or one exists that has never got a status (CDI `datavolume/controller-base.go`:
/// `updateStatus` writes conditions in the first reconcile).
pub(super) fn cdi_missing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    if disk.claim.is_some() {
        return None;
    }
    let suspicion = |about: &str| Suspicion::of(Trouble::CdiMissing, &disk.name, about, "");
    let key = case.key(disk);
    let Some(data_volume) = case.index.data_volume(&key) else {
        let absent = disk.names_data_volume && !case.index.has_kind::<DataVolume>();
        let since = Since::Seen(case.created());
        return absent.then(|| suspicion("the cluster knows no DataVolumes").lasting(since, MINUTE));
    };
    let untouched = data_volume.phase() == DataVolumePhase::Unset
        && data_volume.unmet("Bound").is_none()
        && data_volume.unmet("Running").is_none();
    let since = Since::Told(data_volume.meta().creation_timestamp);
    untouched.then(|| suspicion(&format!("dv/{} has no status", disk.name)).lasting(since, MINUTE))
}

/// The class that the claim names, or the DataVolume where there is no claim, does not exist; or none is named and none
/// is the default. Where no class is known at all, nothing is said: a file need not hold them.
pub(super) fn storage_class_missing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let key = case.key(disk);
    let (class, created) = match (&disk.claim, case.index.claim(&key), case.index.data_volume(&key)) {
        (Some(read), Some(claim), _) if read.phase == ClaimPhase::Pending && !read.placed => {
            (claim.spec.storage_class_name.as_ref(), claim.meta().creation_timestamp)
        }
        (None, _, Some(data_volume)) => (data_volume.class(), data_volume.meta().creation_timestamp),
        _ => return None,
    };
    case.index.classes().next()?;
    let (about, object) = match class.map(|class| &**class) {
        // An empty name asks for a volume without class.
        Some("") => return None,
        Some(class) if case.index.class(class).is_some() => return None,
        Some(class) => (format!("{} asks for {class}", disk.name), class),
        None if case.index.classes().any(|class| class.default_class()) => return None,
        None => (format!("{} names none, and none is the default", disk.name), ""),
    };
    let suspicion = Suspicion::of(Trouble::StorageClassMissing, &disk.name, about, object);
    Some(suspicion.lasting(Since::Told(created), SHORT))
}

/// The DataVolume says why it has no claim (CDI `datavolume/controller-base.go`: `handlePvcCreation`, `syncDvPvcState`:
/// quota, a spec that cannot be rendered), or the claim of its name is not its own (`validatePVC`).
pub(super) fn claim_refused(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let data_volume = case.index.data_volume(&case.key(disk))?;
    if let Some(claim) = &disk.claim {
        let settled = matches!(
            data_volume.phase(),
            DataVolumePhase::Succeeded | DataVolumePhase::Failed
        );
        let stranger = claim.data_volume.is_none() && !settled;
        let about = format!("pvc/{0} exists already and does not belong to dv/{0}", disk.name);
        let since = Since::Told(data_volume.meta().creation_timestamp);
        return stranger.then(|| Suspicion::of(Trouble::ClaimRefused, &disk.name, about, "").lasting(since, MINUTE));
    }
    let bound = data_volume.unmet("Bound")?;
    if matches!(bound.reason.as_deref(), None | Some("Pending" | "NotFound")) {
        return None;
    }
    let words = bound.message.as_deref().unwrap_or_default();
    let suspicion = Suspicion::of(
        Trouble::ClaimRefused,
        &disk.name,
        words,
        quota(words).unwrap_or_default(),
    );
    Some(suspicion.lasting(Since::Told(bound.last_transition_time), SHORT))
}

/// The claim to be cloned does not exist, or has no volume itself (CDI `datavolume/pvc-clone-controller.go`:
/// `CloneWithoutSource`; `clone/common.go`: `IsSourceClaimReady`). As long as the disk waits for a consumer, that comes
/// first.
pub(super) fn source_missing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let key = case.key(disk);
    let data_volume = case.index.data_volume(&key)?;
    let done = matches!(
        data_volume.phase(),
        DataVolumePhase::Succeeded | DataVolumePhase::Failed
    );
    if done || disk.claim.as_ref().is_some_and(|claim| claim.needs) {
        return None;
    }
    let uid = &data_volume.meta().uid.0;
    let source = data_volume.source_claim();
    let object = source.as_ref().map(Key::to_string).unwrap_or_default();
    let told = case.events(DataVolume::KIND, &key, uid);
    if let Some(event) = newest(told.filter(|event| &*event.reason == "CloneWithoutSource")) {
        return Some(Suspicion::of(
            Trouble::SourceMissing,
            &disk.name,
            &*event.message,
            object,
        ));
    }
    let source = source?;
    let known = source.namespace == key.namespace || case.index.knows_claims_of(&source.namespace);
    let about = match case.index.claim(&source) {
        None if known => format!("pvc/{} in {} does not exist", source.name, source.namespace),
        Some(claim) if claim.phase() == ClaimPhase::Pending => {
            format!("pvc/{} in {} has no volume yet", source.name, source.namespace)
        }
        None | Some(_) => return None,
    };
    let since = Since::Told(data_volume.meta().creation_timestamp);
    Some(Suspicion::of(Trouble::SourceMissing, &disk.name, about, object).lasting(since, MINUTE))
}

/// The provisioner has said so in an Event on the claim, whose words CDI copies to the claim that it fills
/// (sig-storage-lib-external-provisioner `controller/controller.go`: `ProvisioningFailed`; CDI `common/util.go`:
/// `UpdatePVCBoundConditionFromEvents`).
pub(super) fn provisioning_failed(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (_, target) = pending(case, disk)?;
    let provisioned = provisioned(case, disk)?;
    let meta = provisioned.meta();
    let key = meta.key();
    let told = case.events(PersistentVolumeClaim::KIND, &key, &meta.uid.0);
    let told = newest(told.filter(|event| &*event.reason == "ProvisioningFailed")).map(|event| &*event.message);
    let copied = target
        .meta()
        .annotation("cdi.kubevirt.io/storage.condition.bound.message");
    let copied = copied.filter(|words| words.contains("failed to provision volume"));
    let words = told.or(copied)?;
    Some(Suspicion::of(
        Trouble::ProvisioningFailed,
        &disk.name,
        words,
        &*meta.name,
    ))
}

/// A node is selected for the claim that the provisioner works on, and nothing shows that it has begun. What the PV
/// controller says meanwhile (`ExternalProvisioning`) is not the provisioner's word.
pub(super) fn provisioner_silent(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let claim = provisioned(case, disk)?;
    let class = claim
        .spec
        .storage_class_name
        .as_deref()
        .and_then(|name| case.index.class(name))?;
    let node = claim.selected_node().filter(|_| class.provisions())?;
    let meta = claim.meta();
    let key = meta.key();
    let begun = |words: &str| words.contains("External provisioner is provisioning volume");
    let copied = meta.annotation("cdi.kubevirt.io/storage.condition.bound.message");
    let told = |event: &Event| event.reason.starts_with("Provisioning");
    let events = || case.events(PersistentVolumeClaim::KIND, &key, &meta.uid.0);
    if copied.is_some_and(begun) || events().any(told) {
        return None;
    }
    let asked = events().filter(|event| &*event.reason == "ExternalProvisioning");
    let asked = asked.filter_map(Event::first).min();
    let (provisioner, name) = (&class.provisioner, &class.metadata.name);
    let about = format!("{provisioner} of class {name}, for {} on {node}", disk.name);
    let suspicion = Suspicion::of(Trouble::ProvisionerSilent, &disk.name, about, &*class.metadata.name);
    Some(suspicion.lasting(Since::Seen(asked.or(meta.creation_timestamp)), PROVISIONER))
}

/// The provisioner gives every node back, or the nodes that come for the pod go before the volume is there. Only who has
/// watched it knows.
pub(super) fn node_given_back(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (claim, _) = pending(case, disk)?;
    let many = case.watched?.lost(&claim.uid) >= MANY_TIMES;
    let about = format!("{}, {MANY_TIMES} times or more", disk.name);
    many.then(|| Suspicion::of(Trouble::NodeGivenBack, &disk.name, about, ""))
}

/// The claim names a populator that is not CDI's, and its DataVolume is pending, so nobody asks for a consumer (CDI
/// `datavolume/external-population-controller.go`: `updateStatusPhase`).
pub(super) fn populator_silent(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (claim, object) = pending(case, disk)?;
    let source = object.spec.data_source_ref.as_ref().filter(|source| source.foreign())?;
    let phase = claim.data_volume.as_ref()?.phase;
    let about = format!("{} from {} {}", disk.name, source.kind, source.name);
    let suspicion = Suspicion::of(Trouble::PopulatorSilent, &disk.name, about, "");
    let since = Since::Told(object.meta().creation_timestamp);
    (phase == DataVolumePhase::Pending && !claim.placed).then(|| suspicion.lasting(since, POPULATOR))
}

/// A node is chosen, and the claim in which CDI fills this one does not come. CDI says why in an Event alone
/// (`populators/populator-base.go`: `createPVCPrime`), as a rule because a quota counts the disk twice.
pub(super) fn population_refused(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (claim, object) = pending(case, disk)?;
    let key = case.key(disk);
    let begun = !object.fills_prime_claim() || case.index.prime_claim(&key, &claim.uid).is_some();
    if begun || claim.data_volume.is_none() || claim.selected_node.is_none() {
        return None;
    }
    let told = case.events(PersistentVolumeClaim::KIND, &key, &claim.uid.0);
    let told = newest(told.filter(|event| &*event.reason == "ErrCreatingPVCPrime"));
    let words = told.map_or("CDI has made no claim to fill it, a quota may be why", |event| {
        &*event.message
    });
    let about = format!("{}: {words}", disk.name);
    let suspicion = Suspicion::of(
        Trouble::ClaimRefused,
        &disk.name,
        about,
        quota(words).unwrap_or_default(),
    );
    Some(suspicion.lasting(Since::Seen(object.meta().creation_timestamp), MINUTE))
}

/// CDI has written down on the claim why it could not create the worker (CDI `common/util.go`: `HandleFailedPod`).
pub(super) fn worker_refused(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (_, meta) = unfilled(case, disk).map(|(claim, object)| (claim, object.meta()))?;
    let reason = meta.annotation("cdi.kubevirt.io/storage.condition.running.reason")?;
    let refused = matches!(reason, "ErrExceededQuota" | "ErrStartingPod") && workers(case, disk).next().is_none();
    let words = meta.annotation("cdi.kubevirt.io/storage.condition.running.message");
    let about = format!("{}: {}", disk.name, words.unwrap_or(reason));
    refused.then(|| Suspicion::of(Trouble::WorkerRefused, &disk.name, about, "").lasting(Since::Seen(None), SHORT))
}

/// virt-controller's temporary pod lists a bound claim on the legacy path: CDI does not start its worker while it lives
/// (CDI reference 7.2), and it lives because no node fits.
pub(super) fn launcher_blocks_import(case: &Case, disk: &Disk) -> Option<Suspicion> {
    if disk.worker || !disk.claim.as_ref().is_some_and(Claim::awaits_worker) {
        return None;
    }
    let mut launchers = case.index.launchers(&case.observed.subject).filter(|pod| pod.live());
    let pod = launchers.find(|pod| pod.temporary() && pod.claims().any(|claim| *claim == disk.name))?;
    let Scheduled::Unschedulable(words) = pod.scheduled() else {
        return None;
    };
    let name = &pod.meta().name;
    let suspicion = Suspicion::of(
        Trouble::LauncherBlocksImport,
        &disk.name,
        format!("pod {name}: {words}"),
        &**name,
    );
    Some(suspicion.lasting(Since::Told(pod.scheduled_since()), SHORT))
}

/// The scheduler says so of a live worker. At first that is usual: the scratch space comes after the pod.
pub(super) fn worker_unschedulable(case: &Case, disk: &Disk) -> Option<Suspicion> {
    workers(case, disk).filter(|pod| pod.live()).find_map(|pod| {
        let Scheduled::Unschedulable(words) = pod.scheduled() else {
            return None;
        };
        let name = &pod.meta().name;
        let suspicion = Suspicion::of(
            Trouble::WorkerUnschedulable,
            &disk.name,
            format!("pod {name}: {words}"),
            &**name,
        );
        Some(suspicion.lasting(Since::Told(pod.scheduled_since()), SHORT))
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
        let (reason, words) = pod.verdict();
        return (!pod.succeeded()).then(|| {
            format!(" has failed: {reason} {words}")
                .trim_end_matches([' ', ':'])
                .to_owned()
        });
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

/// A claim of a late class is neither waited for nor left to a consumer. On the legacy path its DataVolume stays
/// `Pending` (CDI `datavolume/controller-base.go`: `shouldBeMarkedWaitForFirstConsumer`); on the populator path CDI has
/// put the annotation on the claim that its DataVolume does not have (`common/util.go`:
/// `AddImmediateBindingAnnotationIfWFFCDisabled`).
pub(super) fn gate_off(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (claim, object) = pending(case, disk)?;
    if !claim.late || claim.placed || claim.needs || disk.worker || case.evidence.gate == Some(true) {
        return None;
    }
    let data_volume = case.index.data_volume(&case.key(disk))?;
    let asked = data_volume.meta().annotation(IMMEDIATE).is_some();
    let given = object.meta().annotation(IMMEDIATE);
    let off = match claim.path {
        Path::Legacy => data_volume.phase() == DataVolumePhase::Pending && given.is_none(),
        Path::Populator => given == Some("") && !asked,
    };
    let suspicion = || Suspicion::of(Trouble::GateOff, &disk.name, &*disk.name, "");
    let since = Since::Told(object.meta().creation_timestamp);
    (off && claim.data_volume.is_some()).then(|| suspicion().lasting(since, MINUTE))
}

const IMMEDIATE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";

/// The disk's claim, as it was read and as it is, while it is not bound and nothing is being deleted.
fn pending<'a>(case: &'a Case, disk: &'a Disk) -> Option<(&'a Claim, &'a Arc<PersistentVolumeClaim>)> {
    let claim = disk.claim.as_ref().filter(|claim| !claim.terminating)?;
    let object = case.index.claim(&case.key(disk))?;
    (claim.phase == ClaimPhase::Pending).then_some((claim, object))
}

/// The disk's claim, as it was read and as it is, while CDI has not filled it.
fn unfilled<'a>(case: &'a Case, disk: &'a Disk) -> Option<(&'a Claim, &'a Arc<PersistentVolumeClaim>)> {
    let claim = disk.claim.as_ref().filter(|claim| !claim.terminating)?;
    let controller = claim.data_volume.as_ref()?;
    let open = !matches!(controller.phase, DataVolumePhase::Succeeded | DataVolumePhase::Failed);
    open.then_some((claim, case.index.claim(&case.key(disk))?))
}

/// The claim that the provisioner works on, while it is pending: the disk's own, or on the populator path its prime.
fn provisioned<'a>(case: &'a Case, disk: &'a Disk) -> Option<&'a Arc<PersistentVolumeClaim>> {
    let (claim, object) = pending(case, disk)?;
    let works_on = match claim.path {
        Path::Legacy => Some(object),
        Path::Populator => case.index.prime_claim(&case.key(disk), &claim.uid),
    };
    works_on.filter(|claim| claim.phase() == ClaimPhase::Pending)
}

/// The worker pods of an unfilled disk.
fn workers<'a>(case: &'a Case, disk: &'a Disk) -> impl Iterator<Item = &'a Arc<Pod>> {
    let unfilled = unfilled(case, disk).into_iter();
    unfilled.flat_map(move |(claim, _)| case.index.workers(&case.key(disk), &claim.uid))
}

/// The latest of some Events.
fn newest<'a>(events: impl Iterator<Item = &'a Event>) -> Option<&'a Event> {
    events.max_by_key(|event| event.last())
}

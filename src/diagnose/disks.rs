//! What may be wrong on the way from a DataVolume to a filled claim, in the order of that way.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::{Case, Since, Suspicion};
use crate::api::{ClaimPhase, DataVolume, DataVolumePhase, Event, PersistentVolumeClaim, View as _};
use crate::claim::{Claim, Path};
use crate::name::{Key, a_few};
use crate::observe::Disk;
use crate::reason::{Known, Trouble, quota};

/// How long an answer may take that usually comes within a second.
pub(super) const SHORT: u64 = 10;

/// How long CDI may take to look at a new DataVolume.
pub(super) const MINUTE: u64 = 60;

/// How long a provisioner may be silent.
const PROVISIONER: u64 = 120;

/// How long a populator that is not CDI's may take to begin.
const POPULATOR: u64 = 300;

/// A node that was given back so often will be given back again.
const MANY_TIMES: u32 = 3;

/// No DataVolume can exist, or one exists that has never got a status (CDI `datavolume/controller-base.go`:
/// `updateStatus` writes conditions in the first reconcile).
pub(super) fn cdi_missing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    if disk.claim.is_some() {
        return None;
    }
    let suspicion = |about: &str| Suspicion::of(Trouble::CdiMissing, &disk.name, about, "");
    let key = case.key(disk);
    let Some(data_volume) = case.index.data_volume(&key) else {
        // The controller learns of a new kind some time later, `explain` has just looked.
        let absent = disk.names_data_volume && !case.index.has_kind::<DataVolume>();
        return absent.then(|| suspicion("the cluster knows no DataVolumes").lasting(Since::Seen(None), MINUTE));
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
        let stranger = claim.data_volume.is_none() && !data_volume.phase().is_final();
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

/// The claim to be cloned does not exist, has no volume itself, or is not filled (CDI
/// `datavolume/pvc-clone-controller.go`: `CloneWithoutSource`; `clone/common.go`: `IsSourceClaimReady`). As long as the
/// disk waits for a consumer, that comes first.
pub(super) fn source_missing(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let key = case.key(disk);
    let data_volume = case.index.data_volume(&key)?;
    if data_volume.phase().is_final() || disk.claim.as_ref().is_some_and(|claim| claim.needs) {
        return None;
    }
    let uid = &data_volume.meta().uid.0;
    let source = data_volume.source_claim();
    let object = source.as_ref().map(Key::to_string).unwrap_or_default();
    let told = case.events(DataVolume::KIND, &key, uid);
    // CDI does not take it back when the source comes.
    let absent = source.as_ref().is_none_or(|source| case.index.claim(source).is_none());
    if let Some(event) = newest(told.filter(|event| absent && &*event.reason == "CloneWithoutSource")) {
        return Some(Suspicion::of(
            Trouble::SourceMissing,
            &disk.name,
            &*event.message,
            object,
        ));
    }
    let source = source?;
    let known = source.namespace == key.namespace || case.index.knows_claims_of(&source.namespace);
    // Whoever waits for a consumer of its own is nobody's work; anything else may be on its way.
    let mut users = case.index.subjects_of_claim(&source);
    let used = users.any(|subject| *subject != case.observed.subject);
    let read = case.index.claim(&source).map(|claim| case.index.read_claim(claim));
    let way = match read.as_ref().filter(|claim| claim.needs) {
        Some(_) if used => Known::UsedByVm,
        Some(_) => Known::UsedByNobody,
        None => Known::Nothing,
    };
    let (what, grace) = match read {
        None if known => ("does not exist".to_owned(), MINUTE),
        Some(claim) if claim.needs && used => ("waits for a first consumer itself".to_owned(), SHORT),
        Some(claim) if claim.needs => (
            "waits for a first consumer itself, and no other VM uses it".to_owned(),
            SHORT,
        ),
        Some(claim) if claim.phase == ClaimPhase::Pending => ("has no volume yet".to_owned(), MINUTE),
        Some(Claim {
            data_volume: Some(controller),
            ..
        }) if controller.phase != DataVolumePhase::Succeeded => (
            format!("is not filled: its DataVolume is {}", controller.phase.name()),
            MINUTE,
        ),
        None | Some(_) => return None,
    };
    let about = format!("pvc/{} in {} {what}", source.name, source.namespace);
    let since = Since::Told(data_volume.meta().creation_timestamp);
    let suspicion = Suspicion::of(Trouble::SourceMissing, &disk.name, about, object).knowing(way);
    Some(suspicion.lasting(since, grace))
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
    // The PV controller says so, too, when a write of its own met another one; it repeats the write (Kubernetes
    // `volume/persistentvolume/pv_controller.go`: `provisionClaimOperationExternal`).
    let failed = |event: &&Event| &*event.reason == "ProvisioningFailed" && !event.message.starts_with(SAVING);
    let told = newest(told.filter(failed)).map(|event| &*event.message);
    let copied = target
        .meta()
        .annotation("cdi.kubevirt.io/storage.condition.bound.message");
    let copied = copied.filter(|words| words.contains("failed to provision volume"));
    let words = told.or(copied)?;
    // A prime claim whose node the provisioner has given back is given no other (CDI reference 2.7).
    let stranded = target.selected_node().is_some() && provisioned.selected_node().is_none();
    let object = if stranded { "" } else { &*meta.name };
    let node = provisioned.selected_node().or(target.selected_node());
    let held = node.and_then(|node| Some(format!(" (on {node}, {})", bound_there(case, disk, node)?)));
    let about = format!("{words}{}", held.unwrap_or_default());
    Some(Suspicion::of(Trouble::ProvisioningFailed, &disk.name, about, object))
}

/// Other disks of the VM that have their volume on the node where this one is to come: they leave it no other.
fn bound_there(case: &Case, disk: &Disk, node: &str) -> Option<String> {
    let others = case.observed.disks.iter().filter(|other| other.name != disk.name);
    let there = others
        .filter_map(|other| other.claim.as_ref())
        .filter(|claim| claim.phase == ClaimPhase::Bound && claim.selected_node.as_deref() == Some(node));
    let names: BTreeSet<&str> = there.map(|claim| &*claim.name).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    a_few(&names, 3).map(|names| format!("where {names} {verb} bound"))
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
    let held = bound_there(case, disk, node).map(|held| format!(", {held}"));
    let about = format!(
        "{provisioner} of class {name}, for {} on {node}{}",
        disk.name,
        held.unwrap_or_default()
    );
    let suspicion = Suspicion::of(Trouble::ProvisionerSilent, &disk.name, about, &*class.metadata.name);
    Some(suspicion.lasting(Since::Seen(asked.or(meta.creation_timestamp)), PROVISIONER))
}

/// The provisioner gives every node back, or the nodes that come for the pod go before the volume is there. Only who has
/// watched it knows, and who has read its Event.
pub(super) fn node_given_back(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (claim, _) = pending(case, disk)?;
    let about = format!("{}, {MANY_TIMES} times or more", disk.name);
    let suspicion = Suspicion::of(Trouble::NodeGivenBack, &disk.name, about, "");
    let many = match case.watched {
        Some(watched) => watched.lost(&claim.uid) >= MANY_TIMES,
        None => case.told(&suspicion.finding),
    };
    many.then_some(suspicion)
}

/// The claim names a populator that is not CDI's, and its DataVolume is pending, so nobody asks for a consumer (CDI
/// `datavolume/external-population-controller.go`: `updateStatusPhase`).
pub(super) fn populator_silent(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let (claim, object) = pending(case, disk)?;
    let source = object.spec.data_source_ref.as_ref().filter(|source| source.foreign())?;
    let phase = claim.data_volume.as_ref()?.phase;
    let about = format!("{} from {} {}", disk.name, source.kind, source.name);
    let suspicion = Suspicion::of(Trouble::PopulatorSilent, &disk.name, about, "");
    // The phase lags the claim: after a node was given back it is another in a moment.
    let since = Since::Seen(object.meta().creation_timestamp);
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

/// The claim was to be filled through another one, and is bound before that has begun: it has taken a volume that was
/// there, or its provisioner does not look at `dataSourceRef` (CDI reference, sections 8 and 9). CDI waits for ever.
pub(super) fn not_populated(case: &Case, disk: &Disk) -> Option<Suspicion> {
    let claim = disk.claim.as_ref().filter(|claim| !claim.terminating)?;
    let object = case.index.claim(&case.key(disk))?;
    let waits = claim.data_volume.as_ref()?.phase == DataVolumePhase::PendingPopulation;
    // Of somebody else's populator CDI only sees that the claim is bound.
    let by_cdi = object
        .spec
        .data_source_ref
        .as_ref()
        .is_some_and(|source| !source.foreign());
    let begun = case.index.prime_claim(&case.key(disk), &claim.uid).is_some();
    if claim.phase != ClaimPhase::Bound || !waits || !by_cdi || begun {
        return None;
    }
    let volume = object.spec.volume_name.as_deref()?;
    let about = format!("{} is bound to {volume}", disk.name);
    let suspicion = Suspicion::of(Trouble::NotPopulated, &disk.name, about, volume);
    Some(suspicion.lasting(Since::Seen(bound_after(case, object)), MINUTE))
}

/// When a bound claim was bound, at the earliest.
pub(super) fn bound_after(case: &Case, claim: &PersistentVolumeClaim) -> Option<Timestamp> {
    let volume = case.index.volume(claim.spec.volume_name.as_deref()?);
    let created = volume.and_then(|volume| volume.meta().creation_timestamp);
    created.max(claim.meta().creation_timestamp)
}

const SAVING: &str = "Error saving claim: ";

/// The disk's claim, as it was read and as it is, while it is not bound and nothing is being deleted.
pub(super) fn pending<'a>(case: &'a Case, disk: &'a Disk) -> Option<(&'a Claim, &'a Arc<PersistentVolumeClaim>)> {
    let claim = disk.claim.as_ref().filter(|claim| !claim.terminating)?;
    let object = case.index.claim(&case.key(disk))?;
    (claim.phase == ClaimPhase::Pending).then_some((claim, object))
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

/// The latest of some Events.
pub(super) fn newest<'a>(events: impl Iterator<Item = &'a Event>) -> Option<&'a Event> {
    events.max_by_key(|event| event.last())
}

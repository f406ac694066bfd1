//! One claim: its path, and whether it is placed, needs a consumer, or was stripped of its node (design section 2).

use std::sync::Arc;

use crate::api::{ClaimPhase, DataVolume, DataVolumePhase, PersistentVolumeClaim, StorageClass, View as _};
use crate::name::Uid;

/// How CDI fills a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// A worker pod writes into the claim itself.
    Legacy,
    /// A worker pod writes into a second claim, whose volume is handed over at the end.
    Populator,
}

/// A claim that exists, with the DataVolume that controls it and what its class says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Uid,
    /// Its phase.
    pub phase: ClaimPhase,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether its class waits for a first consumer.
    pub late: bool,
    /// Whether its node is decided.
    pub placed: bool,
    /// The node that the scheduler selected for it.
    pub selected_node: Option<Arc<str>>,
    /// The DataVolume that controls it.
    pub data_volume: Option<Controller>,
    /// Whether it is pending and the DataVolume that controls it is gone, so that the garbage collector is about to take it,
    /// too; as long as there are DataVolumes at all, and they are seen ([`Index::read_claim`](crate::index::Index::read_claim)).
    pub orphaned: bool,
    /// How CDI fills it; legacy too if nobody fills it.
    pub path: Path,
    /// Whether it needs a first consumer.
    pub needs: bool,
    /// Whether it needs one again, because the provisioner gave the node back.
    pub stripped: bool,
    /// Whether only one pod at a time may use it.
    pub single_pod: bool,
}

/// A DataVolume that controls a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its name.
    pub name: Arc<str>,
    /// Its phase.
    pub phase: DataVolumePhase,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl Claim {
    /// Reads a claim. `class` is the class it names, `data_volume` the DataVolume of its name, `population_runs` whether
    /// a prime claim of it exists.
    #[must_use]
    pub fn new(
        claim: &PersistentVolumeClaim,
        class: Option<&StorageClass>,
        data_volume: Option<&DataVolume>,
        population_runs: bool,
    ) -> Self {
        let data_volume = data_volume
            .filter(|candidate| controls(candidate, claim))
            .map(Controller::new);
        let controller = claim.meta().controller();
        let orphaned = claim.phase() == ClaimPhase::Pending
            && data_volume.is_none()
            && controller.is_some_and(|owner| &*owner.kind == DataVolume::KIND);
        let path = path(claim);
        let late = class.is_some_and(StorageClass::late);
        let usable = claim.phase() != ClaimPhase::Lost && !claim.meta().terminating();
        let placed = usable && has_node(claim, class);
        // An import or upload goes on without a node once its prime claim exists; a clone pauses (CDI reference 2.6).
        let goes_on = population_runs && claim.fills_prime_claim();
        let needs = usable
            && late
            && !placed
            && data_volume.as_ref().is_some_and(|controller| controller.phase.waits())
            && !claim.immediate_binding_requested()
            && !goes_on;
        Self {
            name: Arc::clone(&claim.meta().name),
            uid: claim.meta().uid.clone(),
            phase: claim.phase(),
            terminating: claim.meta().terminating(),
            late,
            placed,
            selected_node: claim.selected_node().map(Arc::from),
            data_volume,
            orphaned,
            path,
            needs,
            stripped: needs && path == Path::Legacy && claim.provisioner_asked(),
            single_pod: claim.single_pod(),
        }
    }

    /// Whether the claim is on its way to being filled by a worker that uses the claim itself.
    #[must_use]
    pub fn awaits_worker(&self) -> bool {
        let unfinished = |controller: &Controller| !controller.phase.is_final();
        self.path == Path::Legacy
            && self.phase == ClaimPhase::Bound
            && self.data_volume.as_ref().is_some_and(unfinished)
    }

    /// Whether it will get its node without a pod of ours: it waits, but for somebody else.
    #[must_use]
    pub fn placed_by_others(&self) -> bool {
        let ours_to_place = self.needs || (self.late && self.data_volume.is_none());
        self.phase == ClaimPhase::Pending && !self.placed && !ours_to_place
    }

    /// Whether a pod that lists it has done its work: at once when it is placed, but a holding pod stays until a legacy
    /// claim is bound. Claims that bind without a consumer are nobody's work.
    #[must_use]
    pub fn released(&self, holding: bool) -> bool {
        let done = match (holding, self.path) {
            (true, Path::Legacy) => self.phase == ClaimPhase::Bound,
            (true, Path::Populator) | (false, _) => self.placed,
        };
        done || !self.late
    }
}

impl Controller {
    fn new(data_volume: &DataVolume) -> Self {
        Self {
            name: Arc::clone(&data_volume.meta().name),
            phase: data_volume.phase(),
            terminating: data_volume.meta().terminating(),
        }
    }
}

/// Whether the DataVolume is the claim's controller, by kind and UID.
fn controls(data_volume: &DataVolume, claim: &PersistentVolumeClaim) -> bool {
    claim
        .meta()
        .controller()
        .is_some_and(|owner| &*owner.kind == DataVolume::KIND && owner.uid == data_volume.meta().uid)
}

/// Populator, if its data source is one that only a populator understands.
fn path(claim: &PersistentVolumeClaim) -> Path {
    match claim.spec.data_source_ref.as_ref().map(|source| &*source.kind) {
        None | Some("PersistentVolumeClaim" | "VolumeSnapshot") => Path::Legacy,
        Some(_) => Path::Populator,
    }
}

/// A volume is named, or a node is selected and somebody will provision there.
fn has_node(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> bool {
    claim
        .spec
        .volume_name
        .as_deref()
        .is_some_and(|volume| !volume.is_empty())
        || (claim.selected_node().is_some() && class.is_none_or(StorageClass::provisions))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A claim `disk` and its DataVolume, to be changed.
    struct Pieces {
        claim: Value,
        class: Value,
        data_volume: Value,
        prime: bool,
    }

    fn waiting() -> Pieces {
        Pieces {
            claim: json!({
                "metadata": {"name": "disk", "uid": "claim", "annotations": {}, "ownerReferences":
                    [{"kind": "DataVolume", "name": "disk", "uid": "dv", "controller": true}]},
                "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]},
                "status": {"phase": "Pending"},
            }),
            class: json!({"metadata": {"name": "late"}, "provisioner": "example.com/local",
                "volumeBindingMode": "WaitForFirstConsumer"}),
            data_volume: json!({"metadata": {"name": "disk", "uid": "dv"}, "status": {"phase": "WaitForFirstConsumer"}}),
            prime: false,
        }
    }

    fn populated(source: &str) -> Pieces {
        let mut pieces = waiting();
        pieces.claim["spec"]["dataSourceRef"] = json!({"kind": source, "name": "source"});
        pieces.data_volume["status"]["phase"] = json!("PendingPopulation");
        pieces
    }

    impl Pieces {
        fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
            change(&mut self);
            self
        }

        fn node(self) -> Self {
            self.with(|p| p.claim["metadata"]["annotations"][SELECTED] = json!("node-1"))
        }

        fn bound(self) -> Self {
            self.with(|p| {
                p.claim["spec"]["volumeName"] = json!("pv");
                p.claim["status"]["phase"] = json!("Bound");
            })
        }

        fn read(self) -> Claim {
            let view = |value: Value| serde_json::from_value(value);
            Claim::new(
                &serde_json::from_value(self.claim).expect("a claim"),
                Some(&view(self.class).expect("a class")),
                Some(&serde_json::from_value(self.data_volume).expect("a DataVolume")),
                self.prime,
            )
        }
    }

    const SELECTED: &str = "volume.kubernetes.io/selected-node";

    #[test]
    fn each_condition_of_need_is_needed() {
        let not = |change: fn(&mut Pieces)| assert!(!waiting().with(change).read().needs);
        not(|p| p.class["volumeBindingMode"] = json!("Immediate"));
        not(|p| p.class["volumeBindingMode"] = Value::Null);
        not(|p| p.claim["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z"));
        not(|p| p.claim["metadata"]["ownerReferences"] = json!([]));
        not(|p| p.claim["metadata"]["ownerReferences"][0]["uid"] = json!("an earlier life"));
        not(|p| p.claim["metadata"]["ownerReferences"][0]["kind"] = json!("Other"));
        not(|p| p.claim["metadata"]["ownerReferences"][0]["controller"] = json!(false));
        let class_missing = Claim::new(
            &serde_json::from_value(waiting().claim).expect("a claim"),
            None,
            None,
            false,
        );
        assert!(!class_missing.needs && !class_missing.late);
    }

    #[test]
    fn without_a_provisioner_a_node_alone_places_nothing() {
        let fixed = || waiting().with(|p| p.class["provisioner"] = json!("kubernetes.io/no-provisioner"));
        assert!(fixed().node().read().needs);
        assert!(fixed().bound().read().placed);
        assert!(
            !waiting()
                .with(|p| p.claim["metadata"]["annotations"][SELECTED] = json!(""))
                .read()
                .placed
        );
    }

    #[test]
    fn stripped_is_a_legacy_claim_that_a_provisioner_gave_back() {
        let asked = |p: &mut Pieces| {
            p.claim["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] = json!("example.com/local");
        };
        assert!(waiting().with(asked).read().stripped);
        assert!(!waiting().read().stripped);
        assert!(!waiting().node().with(asked).read().stripped);
        assert!(!populated("VolumeImportSource").with(asked).read().stripped);
    }

    #[test]
    fn a_holding_pod_waits_until_legacy_claims_are_bound() {
        assert!(waiting().node().read().released(false));
        assert!(!waiting().node().read().released(true));
        assert!(waiting().bound().read().released(true));
        assert!(populated("VolumeImportSource").node().read().released(true));
        let at_once = waiting().with(|p| p.class["volumeBindingMode"] = json!("Immediate"));
        assert!(
            at_once.read().released(false),
            "whose class binds at once is nobody's work"
        );
    }

    #[test]
    fn a_snapshot_or_claim_as_source_is_no_populator() {
        for source in ["PersistentVolumeClaim", "VolumeSnapshot"] {
            assert_eq!(populated(source).read().path, Path::Legacy);
        }
        assert_eq!(populated("SomethingElse").read().path, Path::Populator);
    }
}

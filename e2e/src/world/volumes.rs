//! kube-controller-manager's PV controller and pvc-protection, as far as claims of a provisioner are concerned
//! (`pkg/controller/volume/persistentvolume/pv_controller.go`, `pvcprotection`, Kubernetes 1.36).

use super::objects::ClaimPhase;

/// What the controller reads of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    /// `status.phase`.
    pub phase: ClaimPhase,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Its class binds late.
    pub late: bool,
    /// selected-node is set.
    pub node: bool,
    /// Annotation `volume.kubernetes.io/storage-provisioner` is set.
    pub asked: bool,
    /// A volume's `claimRef` names it, by UID.
    pub volume: bool,
}

/// One write of the PV controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// Annotation `storage-provisioner`: it is the provisioner's turn \[provisionClaimOperationExternal\].
    Ask,
    /// `spec.volumeName` and phase Bound. A volume whose `claimRef` names the claim is matched whether or not a node was
    /// chosen \[`index.go`: findMatchingVolume\].
    Bind,
    /// Phase Lost: the volume is gone, or is another claim's now \[syncBoundClaim\].
    Lose,
}

/// One look at a claim.
#[must_use]
pub fn next(view: &View) -> Option<Write> {
    match view.phase {
        ClaimPhase::Bound => (!view.volume).then_some(Write::Lose),
        ClaimPhase::Lost => None,
        ClaimPhase::Pending if view.deleting => None,
        ClaimPhase::Pending if view.volume => Some(Write::Bind),
        ClaimPhase::Pending => (!view.asked && (view.node || !view.late)).then_some(Write::Ask),
    }
}

/// Whether the finalizer holds a claim that is being deleted: only pods that have a node and have not ended count
/// \[`pvc_protection_controller.go`: podUsesPVC\].
#[must_use]
pub fn held(users: impl IntoIterator<Item = (bool, bool)>) -> bool {
    users.into_iter().any(|(has_node, ended)| has_node && !ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_claim_is_asked_for_when_it_has_a_node_and_bound_when_it_has_a_volume() {
        let late = View {
            late: true,
            ..View::default()
        };
        assert_eq!(next(&late), None);
        assert_eq!(next(&View { node: true, ..late }), Some(Write::Ask));
        assert_eq!(
            next(&View {
                node: true,
                asked: true,
                ..late
            }),
            None
        );
        assert_eq!(next(&View { volume: true, ..late }), Some(Write::Bind));
        let bound = View {
            phase: ClaimPhase::Bound,
            ..late
        };
        assert_eq!(next(&bound), Some(Write::Lose));
        assert_eq!(next(&View { volume: true, ..bound }), None);
    }

    #[test]
    fn only_a_running_pod_holds_a_claim() {
        assert!(held([(false, false), (true, false)]));
        assert!(!held([(false, false), (true, true)]));
    }
}

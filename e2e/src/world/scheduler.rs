//! kube-scheduler, as far as volumes are concerned: which pods can be placed, and the writes that follow
//! (`pkg/scheduler/framework/plugins/volumebinding`, Kubernetes 1.36).

use super::objects::ClaimPhase;

/// A claim that a pod lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// `status.phase`.
    pub phase: ClaimPhase,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Its class binds late.
    pub late: bool,
    /// The node that its volume, else its selected-node, pins a pod to.
    pub node: Option<u8>,
}

/// What comes of one look at a pod without node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Condition PodScheduled is False, reason Unschedulable; it is looked at again when something changes.
    Unschedulable,
    /// It may go to this node. Claims without a node are annotated first, one after the other, and the pod gets its
    /// node when all are bound \[PreBind: BindPodVolumes\].
    Node(u8),
}

/// The verdicts that are possible for a pod that lists these claims (`None`: it does not exist), on the nodes that its
/// other wishes allow \[PreFilter, Filter: FindPodVolumes\].
#[must_use]
pub fn look(claims: &[Option<Claim>], nodes: impl IntoIterator<Item = u8>) -> Vec<Verdict> {
    let hopeless = |claim: &Option<Claim>| {
        claim.is_none_or(|claim| {
            claim.deleting
                || claim.phase == ClaimPhase::Lost
                // "pod has unbound immediate PersistentVolumeClaims"
                || (claim.phase == ClaimPhase::Pending && !claim.late)
        })
    };
    if claims.iter().any(hopeless) {
        return vec![Verdict::Unschedulable];
    }
    let reached = |node: &u8| {
        claims
            .iter()
            .flatten()
            .all(|claim| claim.node.is_none_or(|pin| pin == *node))
    };
    let fit: Vec<_> = nodes.into_iter().filter(reached).map(Verdict::Node).collect();
    if fit.is_empty() {
        vec![Verdict::Unschedulable]
    } else {
        fit
    }
}

/// The next write of a binding cycle that has begun. It never takes an annotation back, and goes on when the pod is
/// deleted \[bindAPIUpdate, checkBindings\].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// selected-node on the first claim that is left to annotate.
    Annotate,
    /// The pod gets its node.
    Bind,
    /// An error, or nobody left to bind: the cycle is over, and a pod that is still there is looked at again.
    GiveUp,
}

/// One step of a binding cycle. `next` is the first claim that is left to annotate: `Some(false)` if it is no longer what
/// the scheduler has seen. `claims` are those of the pod as they are now, `None` for one that is gone.
#[must_use]
pub fn bind(next: Option<bool>, pod_there: bool, claims: &[Option<Claim>]) -> Option<Write> {
    match next {
        Some(true) => return Some(Write::Annotate),
        Some(false) => return Some(Write::GiveUp),
        None => {}
    }
    let stripped = |claim: &Claim| claim.phase == ClaimPhase::Pending && claim.node.is_none();
    if !pod_there || claims.iter().any(|claim| claim.is_none_or(|claim| stripped(&claim))) {
        return Some(Write::GiveUp);
    }
    let bound = claims.iter().flatten().all(|claim| claim.phase == ClaimPhase::Bound);
    bound.then_some(Write::Bind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Claim = Claim {
        phase: ClaimPhase::Pending,
        deleting: false,
        late: true,
        node: None,
    };

    #[test]
    fn a_pod_follows_claims_that_have_a_node_and_waits_for_those_that_bind_at_once() {
        let chosen = Claim { node: Some(1), ..LATE };
        let immediate = Claim { late: false, ..LATE };
        assert_eq!(look(&[Some(LATE)], 0..2), [Verdict::Node(0), Verdict::Node(1)]);
        assert_eq!(look(&[Some(LATE), Some(chosen)], 0..2), [Verdict::Node(1)]);
        assert_eq!(
            look(&[Some(chosen), Some(Claim { node: Some(0), ..LATE })], 0..2),
            [Verdict::Unschedulable]
        );
        assert_eq!(look(&[Some(immediate)], 0..2), [Verdict::Unschedulable]);
        assert_eq!(look(&[None], 0..2), [Verdict::Unschedulable]);
    }

    #[test]
    fn annotations_go_on_without_the_pod_and_a_node_that_is_given_back_ends_the_cycle() {
        let chosen = Claim { node: Some(1), ..LATE };
        let bound = Claim {
            phase: ClaimPhase::Bound,
            ..chosen
        };
        assert_eq!(bind(Some(true), false, &[Some(LATE)]), Some(Write::Annotate));
        assert_eq!(bind(None, true, &[Some(chosen)]), None);
        assert_eq!(bind(None, true, &[Some(bound)]), Some(Write::Bind));
        assert_eq!(bind(None, true, &[Some(LATE)]), Some(Write::GiveUp));
        assert_eq!(bind(None, false, &[Some(bound)]), Some(Write::GiveUp));
    }
}

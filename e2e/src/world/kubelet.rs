//! A kubelet, and what runs in the pods that matter here.

use super::objects::PodPhase;

/// What a container does once it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Runs {
    /// Ends well after its work: a worker, a temporary launcher, a first-consumer pod.
    Ends,
    /// Ends badly, and is not started again.
    Fails,
    /// Runs until it is told to stop: a VM.
    Stays,
}

/// The next phase of a pod that has a node. Volumes are waited for even if no container mounts them
/// \[`volumemanager`: WaitForAttachAndMount\].
#[must_use]
pub fn next(phase: PodPhase, bound: bool, runs: Runs) -> Option<PodPhase> {
    match (phase, runs) {
        (PodPhase::Pending, _) => bound.then_some(PodPhase::Running),
        (PodPhase::Running, Runs::Ends) => Some(PodPhase::Succeeded),
        (PodPhase::Running, Runs::Fails) => Some(PodPhase::Failed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_starts_when_its_claims_are_bound() {
        assert_eq!(next(PodPhase::Pending, false, Runs::Ends), None);
        assert_eq!(next(PodPhase::Pending, true, Runs::Stays), Some(PodPhase::Running));
        assert_eq!(next(PodPhase::Running, true, Runs::Stays), None);
        assert_eq!(next(PodPhase::Running, true, Runs::Ends), Some(PodPhase::Succeeded));
        assert_eq!(next(PodPhase::Running, true, Runs::Fails), Some(PodPhase::Failed));
        assert_eq!(next(PodPhase::Succeeded, true, Runs::Ends), None);
    }
}

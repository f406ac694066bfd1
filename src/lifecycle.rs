//! Run strategy and VMI to state: whether a VM is halted, about to start, or beyond our help (design section 4).

use crate::api::{RunStrategy, View as _, VirtualMachine, VirtualMachineInstance, VmiPhase};

/// Where in its life a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No VMI or a final one, and virt-controller will not make another.
    Halted,
    /// Virt-controller will make a VMI.
    Starting,
    /// A VMI waits for its disks or its launcher.
    Pending,
    /// KubeVirt runs it, or has begun to.
    Running,
    /// A VMI without a VM has ended.
    Final,
    /// The VM or the VMI is being deleted.
    Deleting,
    /// A run strategy that we do not know, or neither VM nor VMI.
    Unknown,
}

/// The state of a subject.
#[must_use]
pub fn state(vm: Option<&VirtualMachine>, vmi: Option<&VirtualMachineInstance>) -> State {
    if vm.is_some_and(|vm| vm.meta().terminating()) || vmi.is_some_and(|vmi| vmi.meta().terminating()) {
        return State::Deleting;
    }
    let ended = match vmi.map(VirtualMachineInstance::phase) {
        Some(VmiPhase::Unset | VmiPhase::Pending) => return State::Pending,
        Some(
            VmiPhase::Scheduling
            | VmiPhase::Scheduled
            | VmiPhase::Running
            | VmiPhase::WaitingForSync
            | VmiPhase::Unknown,
        ) => return State::Running,
        Some(VmiPhase::Succeeded) => Some(Ended::Well),
        Some(VmiPhase::Failed) => Some(Ended::Badly),
        None => None,
    };
    match (vm, ended) {
        (Some(vm), ended) => match starts(vm, ended) {
            Some(true) => State::Starting,
            Some(false) => State::Halted,
            None => State::Unknown,
        },
        (None, Some(_)) => State::Final,
        (None, None) => State::Unknown,
    }
}

/// How the last VMI of a VM has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
}

/// Whether virt-controller will make a VMI (KubeVirt `watch/vm/vm.go`: `syncRunStrategy`). `None` if we can't know.
fn starts(vm: &VirtualMachine, ended: Option<Ended>) -> Option<bool> {
    match vm.run_strategy() {
        RunStrategy::Always => Some(true),
        RunStrategy::Halted => Some(false),
        RunStrategy::Manual => Some(vm.start_requested()),
        RunStrategy::Once | RunStrategy::WaitAsReceiver => Some(ended.is_none()),
        // Once more after a failure, on request, and when the strategy has just been chosen.
        RunStrategy::RerunOnFailure => {
            let just_chosen = vm.observed_run_strategy() != Some(RunStrategy::RerunOnFailure);
            Some(ended == Some(Ended::Badly) || vm.start_requested() || (ended.is_none() && just_chosen))
        }
        RunStrategy::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn vm(spec: &Value, status: &Value) -> VirtualMachine {
        serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": spec, "status": status})).expect("a VM")
    }

    fn vmi(phase: &str) -> VirtualMachineInstance {
        serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": {}, "status": {"phase": phase}}))
            .expect("a VMI")
    }

    /// KubeVirt reference A.9: spec and status of the VM; its state without a VMI, after one that ended well, and after
    /// one that failed.
    #[test]
    fn run_strategies_say_whether_another_vmi_will_be_made() {
        use State::{Halted, Starting, Unknown};
        let start = json!({"stateChangeRequests": [{"action": "Start"}]});
        let stop = json!({"stateChangeRequests": [{"action": "Stop", "uid": "x"}]});
        let table = [
            (json!({}), json!({}), [Halted, Halted, Halted]),
            (json!({"running": false}), json!({}), [Halted, Halted, Halted]),
            (json!({"running": true}), json!({}), [Starting, Starting, Starting]),
            (json!({"runStrategy": "Halted"}), json!({}), [Halted, Halted, Halted]),
            (
                json!({"runStrategy": "Halted"}),
                start.clone(),
                [Halted, Halted, Halted],
            ),
            (
                json!({"runStrategy": "Always"}),
                json!({}),
                [Starting, Starting, Starting],
            ),
            (json!({"runStrategy": "Manual"}), json!({}), [Halted, Halted, Halted]),
            (json!({"runStrategy": "Manual"}), stop, [Halted, Halted, Halted]),
            (
                json!({"runStrategy": "Manual"}),
                start.clone(),
                [Starting, Starting, Starting],
            ),
            (json!({"runStrategy": "Once"}), json!({}), [Starting, Halted, Halted]),
            (
                json!({"runStrategy": "RerunOnFailure"}),
                json!({}),
                [Starting, Halted, Starting],
            ),
            (
                json!({"runStrategy": "RerunOnFailure"}),
                json!({"runStrategy": "Always"}),
                [Starting, Halted, Starting],
            ),
            (
                json!({"runStrategy": "RerunOnFailure"}),
                json!({"runStrategy": "RerunOnFailure"}),
                [Halted, Halted, Starting],
            ),
            (
                json!({"runStrategy": "RerunOnFailure"}),
                start,
                [Starting, Starting, Starting],
            ),
            (
                json!({"runStrategy": "WaitAsReceiver"}),
                json!({}),
                [Starting, Halted, Halted],
            ),
            (
                json!({"runStrategy": "FromTheFuture"}),
                json!({}),
                [Unknown, Unknown, Unknown],
            ),
            (
                json!({"running": true, "runStrategy": "Always"}),
                json!({}),
                [Unknown, Unknown, Unknown],
            ),
        ];
        for (spec, status, expected) in table {
            let vm = vm(&spec, &status);
            let found =
                [None, Some("Succeeded"), Some("Failed")].map(|phase| state(Some(&vm), phase.map(vmi).as_ref()));
            assert_eq!(found, expected, "{spec} {status}");
        }
    }

    #[test]
    fn a_vmi_says_itself_what_it_is_at() {
        let table = [
            ("", State::Pending),
            ("Pending", State::Pending),
            ("Scheduling", State::Running),
            ("Scheduled", State::Running),
            ("Running", State::Running),
            ("WaitingForSync", State::Running),
            ("Unknown", State::Running),
            ("FromTheFuture", State::Running),
            ("Succeeded", State::Final),
            ("Failed", State::Final),
        ];
        for (phase, expected) in table {
            assert_eq!(state(None, Some(&vmi(phase))), expected, "{phase}");
            let halted = vm(&json!({"runStrategy": "Halted"}), &json!({}));
            let beside = if expected == State::Final {
                State::Halted
            } else {
                expected
            };
            assert_eq!(
                state(Some(&halted), Some(&vmi(phase))),
                beside,
                "{phase} of a halted VM"
            );
        }
        assert_eq!(state(None, None), State::Unknown);
    }

    #[test]
    fn whoever_is_being_deleted_is_deleting_whatever_else_holds() {
        let going = json!({"name": "db", "deletionTimestamp": "2027-01-15T08:00:00Z"});
        let vm: VirtualMachine =
            serde_json::from_value(json!({"metadata": going, "spec": {"running": true}})).expect("a VM");
        assert_eq!(state(Some(&vm), Some(&vmi("Running"))), State::Deleting);
        let vmi: VirtualMachineInstance =
            serde_json::from_value(json!({"metadata": going, "spec": {}})).expect("a VMI");
        assert_eq!(state(None, Some(&vmi)), State::Deleting);
    }
}

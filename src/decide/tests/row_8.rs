//! Row 8, policy: for every condition a situation that has it, and one that just does not.

use serde_json::{Value, json};

use super::super::Action;
use super::situation::*;
use crate::api::VirtualMachine;
use crate::policy::{HaltedVms, StartedVms};
use crate::reason::Reason;

#[test]
fn row_8_halted() {
    let not_asked = (Action::None, Reason::NotAskedFor);
    check(&[
        ("not asked for", |s| s.asks_nothing(), not_asked),
        ("an unreadable value counts as absent", |s| s.asks("yes"), not_asked),
        (
            "not: the Namespace asks",
            |s| {
                s.asks_nothing();
                s.namespace(&json!({"annotations": {"first-consumer.kubevirt.io/provision": "true"}}));
            },
            CREATE,
        ),
        (
            "not: the flag asks",
            |s| {
                s.asks_nothing();
                s.settings.policy.halted = HaltedVms::All;
            },
            CREATE,
        ),
        (
            "the VM opts out of the flag",
            |s| {
                s.asks("false");
                s.settings.policy.halted = HaltedVms::All;
            },
            (Action::None, Reason::OptedOut),
        ),
        (
            "the VM opts out of its Namespace",
            |s| {
                s.asks("false");
                s.namespace(&json!({"annotations": {"first-consumer.kubevirt.io/provision": "true"}}));
            },
            (Action::None, Reason::OptedOut),
        ),
        (
            "the Namespace opts out",
            |s| {
                s.asks_nothing();
                s.namespace(&json!({"annotations": {"first-consumer.kubevirt.io/provision": "false"}}));
            },
            (Action::None, Reason::OptedOut),
        ),
        (
            "the VM opts in where its Namespace opts out",
            |s| {
                s.asks("true");
                s.namespace(&json!({"annotations": {"first-consumer.kubevirt.io/provision": "false"}}));
            },
            CREATE,
        ),
        (
            "switched off beats asked for",
            |s| s.settings.policy.halted = HaltedVms::None,
            (Action::None, Reason::SwitchedOff),
        ),
        (
            "a receiver",
            |s| s.run_strategy("WaitAsReceiver"),
            (Action::None, Reason::MigrationTarget),
        ),
    ]);
}

#[test]
fn row_8_started() {
    check(&[
        ("virt-controller first", |s| s.run_strategy("Always"), LEFT),
        (
            "switched off",
            |s| {
                s.run_strategy("Always");
                s.settings.policy.started = StartedVms::None;
            },
            (Action::None, Reason::SwitchedOff),
        ),
        (
            "not: always",
            |s| {
                s.run_strategy("Always");
                s.settings.policy.started = StartedVms::Always;
            },
            CREATE,
        ),
        (
            "opted out of the fallback",
            |s| {
                s.run_strategy("Always");
                s.asks("false");
                s.now = at(1000);
            },
            (Action::None, Reason::OptedOut),
        ),
        (
            "9 s after the VMI's creation",
            |s| {
                s.vmi(&vmi("Pending"));
                s.now = at(9);
            },
            LEFT,
        ),
        (
            "not: 10 s after it",
            |s| {
                s.vmi(&vmi("Pending"));
                s.now = at(10);
            },
            CREATE,
        ),
        (
            "the pod was made for the halted VM",
            |s| {
                s.create();
                s.vmi(&vmi("Pending"));
                s.now = at(1000);
            },
            LEFT,
        ),
        (
            "not: the pod was made for the started VM, and the fallback gates creation only",
            |s| {
                s.vmi(&vmi("Pending"));
                s.now = at(10);
                s.create();
                s.now = at(1);
            },
            (Action::Keep, Reason::WaitingForScheduler),
        ),
        (
            "not: the pod was made for the started VM, which is halted now and asks",
            |s| {
                s.run_strategy("Always");
                s.settings.policy.started = StartedVms::Always;
                s.create();
                s.run_strategy("Halted");
            },
            (Action::Keep, Reason::WaitingForScheduler),
        ),
    ]);
}

/// A VMI without a VM, made 1000 s ago.
fn bare(s: &mut Situation, phase: &str, annotations: &Value) {
    s.index.delete::<VirtualMachine>(&Situation::subject());
    let mut bare = vmi(phase);
    bare["metadata"]["ownerReferences"] = json!([]);
    bare["metadata"]["annotations"] = annotations.clone();
    s.vmi(&bare);
    s.now = at(1000);
}

#[test]
fn row_8_a_vmi_alone() {
    let opted_out = (Action::None, Reason::OptedOut);
    check(&[
        ("not: it says nothing", |s| bare(s, "Pending", &json!({})), CREATE),
        (
            "it opts out",
            |s| bare(s, "Pending", &json!({"first-consumer.kubevirt.io/provision": "false"})),
            opted_out,
        ),
        (
            "its Namespace opts out",
            |s| {
                bare(s, "Pending", &json!({}));
                s.namespace(&json!({"annotations": {"first-consumer.kubevirt.io/provision": "false"}}));
            },
            opted_out,
        ),
        (
            "not: it opts in again",
            |s| {
                bare(s, "Pending", &json!({"first-consumer.kubevirt.io/provision": "true"}));
                s.namespace(&json!({"annotations": {"first-consumer.kubevirt.io/provision": "false"}}));
            },
            CREATE,
        ),
        (
            "opting in beats no flag",
            |s| {
                bare(s, "Pending", &json!({"first-consumer.kubevirt.io/provision": "true"}));
                s.settings.policy.started = StartedVms::None;
            },
            (Action::None, Reason::SwitchedOff),
        ),
        (
            "it has ended well",
            |s| bare(s, "Succeeded", &json!({"first-consumer.kubevirt.io/provision": "true"})),
            LEFT,
        ),
        (
            "it has failed, whatever the flags",
            |s| {
                bare(s, "Failed", &json!({}));
                s.settings.policy.halted = HaltedVms::All;
                s.settings.policy.started = StartedVms::Always;
            },
            LEFT,
        ),
    ]);
}

/// The VM's own VMI, made 1000 s ago.
fn own_vmi(s: &mut Situation, annotations: &Value) {
    let mut own = vmi("Pending");
    own["metadata"]["annotations"] = annotations.clone();
    s.vmi(&own);
    s.now = at(1000);
}

#[test]
fn row_8_what_virt_controller_alone_can_start() {
    let receives = (Action::None, Reason::MigrationTarget);
    check(&[
        (
            "a migration's target",
            |s| own_vmi(s, &json!({"kubevirt.io/create-migration-target": "true"})),
            receives,
        ),
        (
            "without a VM",
            |s| bare(s, "Pending", &json!({"kubevirt.io/create-migration-target": "true"})),
            receives,
        ),
        (
            "not: another value",
            |s| own_vmi(s, &json!({"kubevirt.io/create-migration-target": "false"})),
            CREATE,
        ),
        (
            "not: the VM is asked, not its VMI",
            |s| own_vmi(s, &json!({"first-consumer.kubevirt.io/provision": "false"})),
            CREATE,
        ),
        (
            "a run strategy from the future",
            |s| {
                s.run_strategy("FromTheFuture");
                s.now = at(1000);
            },
            LEFT,
        ),
        (
            "whatever the flags",
            |s| {
                s.run_strategy("FromTheFuture");
                s.settings.policy.halted = HaltedVms::All;
                s.settings.policy.started = StartedVms::Always;
            },
            LEFT,
        ),
        (
            "not: its VMI waits",
            |s| {
                s.run_strategy("FromTheFuture");
                own_vmi(s, &json!({}));
            },
            CREATE,
        ),
    ]);
}

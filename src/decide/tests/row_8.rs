//! Row 8, policy: for every condition a situation that has it, and one that just does not.

use serde_json::json;

use super::super::Action;
use super::situation::*;
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

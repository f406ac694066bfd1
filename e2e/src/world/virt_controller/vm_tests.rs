use super::*;
use crate::world::virt_controller::{Disk, VmiStatus};

fn disk(phase: DvPhase) -> Disk {
    Disk {
        claim: true,
        owned: true,
        phase: Some(phase),
        ..Disk::default()
    }
}

fn view(strategy: RunStrategy, phase: Option<DvPhase>, vmi: Option<VmiPhase>) -> View {
    View {
        vm: Vm {
            name: "db".into(),
            strategy,
            templates: vec!["d0".into()],
            volumes: vec![Volume {
                claim: "d0".into(),
                data_volume: true,
            }],
            ..Vm::default()
        },
        vmi: vmi.map(|phase| Vmi {
            status: VmiStatus {
                phase,
                ..VmiStatus::default()
            },
            ..Vmi::default()
        }),
        disks: phase.map(|phase| ("d0".to_owned(), disk(phase))).into_iter().collect(),
    }
}

fn starts(view: &View) -> bool {
    next(view, 0).contains(&Write::CreateVmi)
}

fn shown(view: &View) -> &'static str {
    printable(view, &view.vm.status)
}

#[test]
fn disks_are_made_for_halted_vms_too() {
    let halted = view(RunStrategy::Halted, None, None);
    assert_eq!(next(&halted, 0)[0], Write::CreateDataVolume { name: "d0".into() });
    let mut at_start = halted;
    at_start.vm.disks_at_start = true;
    assert!(!next(&at_start, 0).contains(&Write::CreateDataVolume { name: "d0".into() }));
    at_start.vm.strategy = RunStrategy::Always;
    assert!(next(&at_start, 0).contains(&Write::CreateDataVolume { name: "d0".into() }));
}

#[test]
fn a_vmi_is_made_when_the_disks_wait_or_are_done() {
    use DvPhase::{ImportInProgress, Pending, PendingPopulation, Succeeded, WaitForFirstConsumer};
    for (phase, expected) in [
        (WaitForFirstConsumer, true),
        (PendingPopulation, true),
        (Succeeded, true),
        (Pending, false),
        (ImportInProgress, false),
    ] {
        assert_eq!(
            starts(&view(RunStrategy::Always, Some(phase), None)),
            expected,
            "{phase:?}"
        );
    }
    assert!(!starts(&view(RunStrategy::Halted, Some(Succeeded), None)));
}

#[test]
fn strategies() {
    let ready = Some(DvPhase::Succeeded);
    assert!(starts(&view(RunStrategy::Once, ready, None)));
    let mut manual = view(RunStrategy::Manual, ready, None);
    assert!(!starts(&manual));
    manual.vm.start_asked = true;
    assert!(starts(&manual));
    let mut rerun = view(RunStrategy::RerunOnFailure, ready, None);
    assert!(starts(&rerun), "just changed");
    rerun.vm.status.strategy = Some(RunStrategy::RerunOnFailure);
    assert!(!starts(&rerun));
}

#[test]
fn what_ends_a_vmi() {
    let deletes = |strategy, phase| {
        let writes = next(&view(strategy, Some(DvPhase::Succeeded), Some(phase)), 0);
        writes.iter().any(|write| matches!(write, Write::DeleteVmi { .. }))
    };
    assert!(deletes(RunStrategy::Halted, VmiPhase::Running));
    assert!(!deletes(RunStrategy::Always, VmiPhase::Running));
    assert!(deletes(RunStrategy::Always, VmiPhase::Succeeded));
    assert!(deletes(RunStrategy::RerunOnFailure, VmiPhase::Failed));
    assert!(!deletes(RunStrategy::RerunOnFailure, VmiPhase::Succeeded));
    assert!(!deletes(RunStrategy::Once, VmiPhase::Failed));
}

#[test]
fn a_failed_start_waits_longer_each_time() {
    let mut failed = view(RunStrategy::Always, Some(DvPhase::Succeeded), Some(VmiPhase::Failed));
    failed.vm.status.failures = 1;
    let status = next(&failed, 1_000).into_iter().find_map(|write| match write {
        Write::SetStatus(status) => Some(status),
        _ => None,
    });
    let status = status.unwrap();
    assert_eq!((status.failures, status.retry_at), (2, Some(41_000)));
    let again = View {
        vmi: None,
        vm: Vm {
            status,
            ..failed.vm.clone()
        },
        ..failed
    };
    assert!(!next(&again, 40_000).contains(&Write::CreateVmi));
    assert_eq!(wake_at(&again, 40_000), Some(41_000));
    assert!(next(&again, 41_000).contains(&Write::CreateVmi));
}

#[test]
fn printable_status() {
    use DvPhase::{ImportInProgress, PendingPopulation, PvcBound, Succeeded, WaitForFirstConsumer};
    for (strategy, phase, vmi, expected) in [
        (RunStrategy::Halted, WaitForFirstConsumer, None, "Stopped"),
        (RunStrategy::Halted, PendingPopulation, None, "Stopped"),
        (RunStrategy::Halted, PvcBound, None, "Provisioning"),
        (RunStrategy::Halted, Succeeded, None, "Stopped"),
        (
            RunStrategy::Always,
            WaitForFirstConsumer,
            Some(VmiPhase::Pending),
            "WaitingForVolumeBinding",
        ),
        (
            RunStrategy::Always,
            ImportInProgress,
            Some(VmiPhase::Pending),
            "Provisioning",
        ),
        (
            RunStrategy::Always,
            DvPhase::Failed,
            Some(VmiPhase::Failed),
            "DataVolumeError",
        ),
        (RunStrategy::Always, Succeeded, Some(VmiPhase::Running), "Running"),
    ] {
        assert_eq!(
            shown(&view(strategy, Some(phase), vmi)),
            expected,
            "{strategy:?} {phase:?}"
        );
    }
    let mut starting = view(RunStrategy::Always, Some(Succeeded), Some(VmiPhase::Scheduling));
    starting.disks.get_mut("d0").unwrap().bound = true;
    assert_eq!(shown(&starting), "Starting");
    starting.vmi.as_mut().unwrap().status.unschedulable = Some("no".into());
    assert_eq!(shown(&starting), "ErrorUnschedulable");
}

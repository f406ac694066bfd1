use super::*;

fn disk(phase: DvPhase) -> Disk {
    Disk {
        claim: true,
        owned: true,
        phase: Some(phase),
        ..Disk::default()
    }
}

fn view(phase: VmiPhase, disks: &[Disk], pods: &[Pod]) -> View {
    let names: Vec<_> = (0..disks.len()).map(|at| format!("d{at}")).collect();
    View {
        vmi: Vmi {
            name: "db".into(),
            volumes: names
                .iter()
                .map(|name| Volume {
                    claim: name.clone(),
                    data_volume: true,
                })
                .collect(),
            status: VmiStatus {
                phase,
                ..VmiStatus::default()
            },
            ..Vmi::default()
        },
        disks: names.into_iter().zip(disks.iter().copied()).collect(),
        pods: pods.to_vec(),
    }
}

fn pod(phase: PodPhase, temporary: bool) -> Pod {
    Pod {
        name: "p".into(),
        uid: "u".into(),
        phase,
        temporary,
        ready: phase == PodPhase::Running,
        ..Pod::default()
    }
}

fn launched(view: &View) -> Option<bool> {
    next(view).iter().find_map(|write| match write {
        Write::CreateLauncher { temporary } => Some(*temporary),
        _ => None,
    })
}

fn phase_after(view: &View) -> VmiPhase {
    let set = next(view).into_iter().find_map(|write| match write {
        Write::SetStatus(status) => Some(status.phase),
        _ => None,
    });
    set.unwrap_or(view.vmi.status.phase)
}

#[test]
fn which_pod_is_made() {
    use DvPhase::{ImportInProgress, PendingPopulation, Succeeded, WaitForFirstConsumer};
    let plain = Disk {
        claim: true,
        ..Disk::default()
    };
    for (disks, expected) in [
        (vec![disk(WaitForFirstConsumer), disk(Succeeded)], Some(true)),
        (vec![disk(WaitForFirstConsumer), plain], Some(true)),
        (vec![disk(WaitForFirstConsumer), disk(PendingPopulation)], Some(true)),
        (vec![disk(WaitForFirstConsumer), disk(ImportInProgress)], None),
        (vec![disk(PendingPopulation)], Some(false)),
        (vec![plain], Some(false)),
        (vec![disk(DvPhase::Pending)], None),
        (vec![disk(Succeeded), Disk::default()], None),
    ] {
        assert_eq!(launched(&view(VmiPhase::Pending, &disks, &[])), expected, "{disks:?}");
    }
}

#[test]
fn the_full_launcher_makes_the_vmi_scheduling_in_the_same_pass() {
    assert_eq!(
        phase_after(&view(VmiPhase::Unset, &[disk(DvPhase::PendingPopulation)], &[])),
        VmiPhase::Scheduling
    );
    assert_eq!(
        phase_after(&view(VmiPhase::Unset, &[disk(DvPhase::WaitForFirstConsumer)], &[])),
        VmiPhase::Pending
    );
}

#[test]
fn no_second_pod_while_one_is_there() {
    for phase in [PodPhase::Pending, PodPhase::Succeeded] {
        for temporary in [true, false] {
            assert_eq!(
                launched(&view(
                    VmiPhase::Pending,
                    &[disk(DvPhase::Succeeded)],
                    &[pod(phase, temporary)]
                )),
                None
            );
        }
    }
}

#[test]
fn temporary_pods_go_only_when_nothing_waits_and_never_while_pending() {
    let waiting = [disk(DvPhase::WaitForFirstConsumer)];
    let bound = [disk(DvPhase::PvcBound)];
    let deletes = |disks: &[Disk], phase| {
        next(&view(VmiPhase::Pending, disks, &[pod(phase, true)]))
            .iter()
            .any(|write| matches!(write, Write::DeletePod { .. }))
    };
    assert!(!deletes(&waiting, PodPhase::Succeeded));
    assert!(deletes(&bound, PodPhase::Succeeded) && deletes(&bound, PodPhase::Running));
    assert!(!deletes(&bound, PodPhase::Pending));
    let told = next(&view(VmiPhase::Pending, &bound, &[pod(PodPhase::Pending, true)]));
    assert!(
        matches!(&told[0], Write::Event(note) if note.reason == "SuccessfulDelete"),
        "announced all the same"
    );
}

#[test]
fn phases_follow_the_launcher() {
    let done = [disk(DvPhase::Succeeded)];
    let launcher = |phase| [pod(phase, false)];
    for (from, pods, to) in [
        (VmiPhase::Pending, launcher(PodPhase::Pending), VmiPhase::Scheduling),
        (VmiPhase::Scheduling, launcher(PodPhase::Pending), VmiPhase::Scheduling),
        (VmiPhase::Scheduling, launcher(PodPhase::Running), VmiPhase::Scheduled),
        (VmiPhase::Scheduled, launcher(PodPhase::Running), VmiPhase::Running),
        (VmiPhase::Running, launcher(PodPhase::Succeeded), VmiPhase::Succeeded),
        (VmiPhase::Running, launcher(PodPhase::Failed), VmiPhase::Failed),
        (VmiPhase::Scheduling, [pod(PodPhase::Running, true)], VmiPhase::Failed),
    ] {
        assert_eq!(phase_after(&view(from, &done, &pods)), to, "{from:?}");
    }
    assert_eq!(phase_after(&view(VmiPhase::Running, &done, &[])), VmiPhase::Failed);
}

#[test]
fn a_broken_temporary_pod_fails_the_vmi_only_while_a_disk_waits() {
    let failed = [pod(PodPhase::Failed, true)];
    assert_eq!(
        phase_after(&view(
            VmiPhase::Pending,
            &[disk(DvPhase::WaitForFirstConsumer)],
            &failed
        )),
        VmiPhase::Failed
    );
    assert_eq!(
        phase_after(&view(VmiPhase::Pending, &[disk(DvPhase::PvcBound)], &failed)),
        VmiPhase::Pending
    );
    assert_eq!(
        phase_after(&view(VmiPhase::Pending, &[disk(DvPhase::Failed)], &[])),
        VmiPhase::Failed
    );
}

#[test]
fn a_missing_claim_is_said_once() {
    let mut view = view(VmiPhase::Pending, &[Disk::default()], &[]);
    assert!(matches!(&next(&view)[0], Write::Event(note) if note.reason == "FailedPvcNotFound"));
    view.vmi.status.claim_missing = true;
    assert!(next(&view).is_empty());
}

#[test]
fn what_the_status_remembers_of_an_unschedulable_temporary_pod() {
    let stuck = Pod {
        unschedulable: Some("no nodes".into()),
        ..pod(PodPhase::Pending, true)
    };
    let status = |phase, pods: &[Pod], known: Option<&str>| {
        let mut view = view(VmiPhase::Pending, &[disk(phase)], pods);
        view.vmi.status.unschedulable = known.map(String::from);
        next(&view).into_iter().find_map(|write| match write {
            Write::SetStatus(status) => Some(status),
            _ => None,
        })
    };
    let waiting = status(DvPhase::WaitForFirstConsumer, std::slice::from_ref(&stuck), None).unwrap();
    assert_eq!(
        (waiting.unschedulable.as_deref(), waiting.provisioning),
        (Some("no nodes"), true)
    );
    let kept = status(DvPhase::PvcBound, &[pod(PodPhase::Running, true)], Some("no nodes")).unwrap();
    assert_eq!(
        kept.unschedulable.as_deref(),
        Some("no nodes"),
        "stays when the disk left its phase first"
    );
}

#[test]
fn the_newest_pod_is_the_current_one() {
    let old = Pod {
        name: "z".into(),
        created: 1,
        ..Pod::default()
    };
    let new = Pod {
        name: "a".into(),
        created: 2,
        ..Pod::default()
    };
    assert_eq!(current(&[old, new]).unwrap().name, "a");
}

//! What `explain` makes of the controller's Lease.

use super::*;
use crate::leader::watch_mark;
use crate::policy::Policy;

/// The controller's Lease.
fn lease(marks: &[(String, String)], holder: &str) -> String {
    let marks: BTreeMap<&str, &str> = marks.iter().map(|(key, value)| (&**key, &**value)).collect();
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "first-consumer",
        "namespace": "first-consumer", "annotations": marks}, "spec": {"holderIdentity": holder}})
    .to_string()
}

#[test]
fn flags_that_are_not_known_are_told() {
    let marks = Policy::default().marks();
    let remarks = |more: &str, words: &str| told(&(vm("ns", "db", true) + more + &beside()), words).remarks;
    let known = lease(&marks, "pod-a");
    assert_eq!(remarks(&known, "vm/db"), Vec::<String>::new());
    assert_eq!(remarks("", "vm/db"), [NO_LEASE]);
    assert_eq!(
        remarks(
            &known.replace("\"name\":\"first-consumer\"", "\"name\":\"another\""),
            "-A"
        ),
        [NO_LEASE]
    );
    let unmarked =
        "the Lease of the controller in first-consumer does not tell its flags: they are taken to be the defaults";
    assert_eq!(remarks(&lease(&[], "pod-a"), "vm/db"), [unmarked]);
    assert_eq!(remarks(&lease(&marks[1..], "pod-a"), "-A"), [unmarked]);
    let left = "nobody holds the Lease of the controller in first-consumer: its flags are taken to be those of its last leader";
    assert_eq!(remarks(&lease(&marks, ""), "-A"), [left]);
    let calm = vm("ns", "db", true)
        .replace("\"Pending\"", "\"Bound\"")
        .replace("\"WaitForFirstConsumer\"}}", "\"Succeeded\"}}");
    assert_eq!(told(&calm, "vm/db").remarks, Vec::<String>::new());

    let (index, mut beside) = (Index::default(), Beside::default());
    beside.leases = None;
    let doubt = Scene::new(index, beside, &flags("--controller-namespace ours"), None)
        .controller
        .doubt;
    let unread = "the Lease of the controller in ours cannot be read: its flags are taken to be the defaults";
    assert_eq!(doubt.as_deref(), Some(unread));
}

/// The Lease with its last renewal at a second, and an Event of the same file that was written at another.
fn renewed(lease: &str, renewed: i64, seen: i64) -> String {
    let mut lease: Value = serde_json::from_str(lease).expect("a Lease");
    lease["spec"]["leaseDurationSeconds"] = json!(15);
    lease["spec"]["renewTime"] = json!(at(renewed).to_string());
    lease.to_string() + &event("NodeChosen", "Served", "of another VM", seen).replace("\"db\"", "\"web\"")
}

#[test]
fn a_controller_that_is_gone_is_the_cause() {
    let marks = Policy::default().marks();
    let cause = |text: &str| {
        let found = json_of(text, "vm/db -o json");
        ["reason", "message", "next"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
    };
    let waiting = vm("ns", "db", true);
    let needed = "a disk waits for its first consumer: db-root";
    let neglected = "pod-a has not renewed the Lease of the controller in first-consumer since 2027-01-15T08:00:00Z";
    let look = "kubectl describe deployment -l app.kubernetes.io/name=first-consumer -n first-consumer";
    let held = lease(&marks, "pod-a");
    let gone = waiting.clone() + &renewed(&held, 0, 76);
    let message = format!("{needed}; no controller acts: {neglected}");
    assert_eq!(cause(&gone), ["FirstConsumerNeeded", &*message, look]);
    let flags = ": its flags are taken to be those of its last leader";
    assert_eq!(
        told(&(gone.clone() + &beside()), "vm/db").remarks,
        [format!("{neglected}{flags}")]
    );
    let left = "nobody holds the Lease of the controller in first-consumer";
    let message = format!("{needed}; no controller acts: {left}");
    assert_eq!(
        cause(&(waiting.clone() + &lease(&marks, ""))),
        ["FirstConsumerNeeded", &*message, look]
    );

    // It may come back within the minute, and nothing tells when a file with no more than the Lease was saved.
    let late = waiting.clone() + &renewed(&held, 0, 75);
    let alone = waiting.clone() + renewed(&held, 0, 0).split_inclusive("}}").next().unwrap_or_default();
    for alive in [late, alone, waiting.clone() + &held, waiting.clone()] {
        assert_eq!(cause(&alive)[1], needed, "{alive}");
    }
    // Nobody waits for it.
    let pod = own_pod(&[("db-root", "claim")]);
    let pod = pod.replace("v1:", "v0:");
    let waits = [waiting.replace("\"true\"", "\"false\""), waiting.clone() + &pod];
    for waits in waits {
        let told = cause(&(waits + &renewed(&held, 0, 76)));
        assert!(!told[1].contains("no controller acts"), "{told:?}");
    }
}

/// Who is served is fine as soon as the pod has gone, which the controller has to delete.
#[test]
fn a_pod_that_nobody_takes_away_is_told() {
    let served = vm("ns", "db", true)
        .replace(
            "\"spec\":{\"storageClassName\"",
            "\"spec\":{\"volumeName\":\"pv\",\"storageClassName\"",
        )
        .replace("\"Pending\"", "\"Bound\"")
        .replace("\"WaitForFirstConsumer\"}}", "\"Succeeded\"}}");
    let pod = own_pod(&[("db-root", "claim")]);
    let lease = lease(&Policy::default().marks(), "pod-a");
    let found = |lease: String| {
        let found = told(&(served.clone() + &pod + &lease), "vm/db");
        let words = found.text.split_whitespace().collect::<Vec<_>>().join(" ");
        (found.code, words.contains("no controller acts"))
    };
    assert_eq!(found(renewed(&lease, 0, 600)), (1, true));
    assert_eq!(found(renewed(&lease, 590, 600)), (0, false));
}

/// It may be the only one of several installations in one file.
#[test]
fn the_lease_of_the_controllers_own_namespace_counts() {
    let all = Policy {
        halted: crate::policy::HaltedVms::All,
        ..Policy::default()
    };
    let ours = lease(&all.marks(), "pod-a").replace("\"namespace\":\"first-consumer\"", "\"namespace\":\"ours\"");
    let text = ours + &lease(&Policy::default().marks(), "pod-a");
    let leases: Vec<crate::api::Lease> = serde_json::Deserializer::from_str(&text)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("Leases");
    assert_eq!(Controller::read(Some(&leases), "ours").policy, all);
    assert_eq!(
        Controller::read(Some(&leases), "first-consumer").policy,
        Policy::default()
    );
}

#[test]
fn a_namespace_that_is_not_watched_is_not_told_to_wait() {
    let watching = |namespace: Option<&str>| {
        let marks: Vec<_> = Policy::default()
            .marks()
            .into_iter()
            .chain([watch_mark(namespace)])
            .collect();
        let text = vm("ns", "db", true) + &lease(&marks, "pod-a");
        ["reason", "message", "next"].map(|field| {
            let found = json_of(&text, "vm/db -o json --controller-namespace ours");
            found[field].as_str().unwrap_or_default().to_owned()
        })
    };
    for namespace in [None, Some("ns")] {
        assert_eq!(watching(namespace)[0], "FirstConsumerNeeded");
    }
    let elsewhere = [
        "SwitchedOff",
        "the controller's flags switch this off: --watch-namespace is prod",
        "change --watch-namespace: kubectl edit deployment/first-consumer -n ours",
    ];
    assert_eq!(watching(Some("prod")), elsewhere);
}

#[test]
fn who_is_left_to_virt_controller_hears_why() {
    let found = |strategy: &str| {
        let spec = format!("\"spec\":{{{strategy},\"template\"");
        let text = vm("ns", "db", true).replace("\"spec\":{\"template\"", &spec);
        let found = json_of(&text, "vm/db -o json");
        assert_eq!(found["reason"], "LeftToVirtController", "{found}");
        assert_eq!(found["next"], "kubectl describe vm/db -n ns");
        found["message"].as_str().unwrap_or_default().to_owned()
    };
    let left = "the VM is left to virt-controller: ";
    assert_eq!(
        found("\"runStrategy\":\"Always\""),
        format!("{left}it is started, and served from here if it still waits after 10s")
    );
    for unknown in [
        "\"runStrategy\":\"Sometimes\"",
        "\"running\":true,\"runStrategy\":\"Always\"",
    ] {
        assert_eq!(
            found(unknown),
            format!("{left}spec.running and spec.runStrategy name no run strategy that is known")
        );
    }
}

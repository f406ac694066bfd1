//! Which claims the pod lists (design section 2).

use serde_json::{Value, json};

use super::situation::*;
use crate::api::PersistentVolumeClaim;
use crate::name::Key;

/// A volume, and its claim in the class `late`, bound.
fn add(s: &mut Situation, volume: &Value) {
    s.add_volume(volume);
    s.claim(&bound(claim("more", "late")));
}

fn tpm(s: &mut Situation, tpm: &Value) {
    s.edit_vm(|vm| vm["spec"]["template"]["spec"]["domain"]["devices"]["tpm"] = tpm.clone());
}

fn efi(s: &mut Situation, efi: &Value) {
    s.edit_vm(|vm| vm["spec"]["template"]["spec"]["domain"]["firmware"]["bootloader"]["efi"] = efi.clone());
}

/// The claim that keeps TPM and EFI state of the VM `of`.
fn state(s: &mut Situation, of: &str) {
    let mut state = bound(claim("state-x7", "late"));
    state["metadata"]["labels"] = json!({"persistent-state-for": of});
    s.claim(&controlled(state, "VirtualMachine", of, &format!("vm-{of}")));
}

fn sidecars(s: &mut Situation, sidecars: &Value) {
    let sidecars = json!(sidecars.to_string());
    s.edit_vm(|vm| {
        vm["spec"]["template"]["metadata"]["annotations"]["hooks.kubevirt.io/hookSidecars"] = sidecars;
    });
}

/// How it comes about, and what is listed beside the boot disks `root` and `data`.
const TABLE: &[(&str, Setup, &[&str])] = &[
    ("two boot disks", |_| {}, &[]),
    (
        "a claim",
        |s| {
            add(
                s,
                &json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}}),
            );
        },
        &["more"],
    ),
    (
        "below a throw-away layer",
        |s| {
            let ephemeral = json!({"persistentVolumeClaim": {"claimName": "more"}});
            add(s, &json!({"name": "more", "ephemeral": ephemeral}));
        },
        &["more"],
    ),
    (
        "twice is once",
        |s| s.add_volume(&json!({"name": "again", "persistentVolumeClaim": {"claimName": "root"}})),
        &[],
    ),
    (
        "hotplugged, bound",
        |s| {
            let claim = json!({"claimName": "more", "hotpluggable": true});
            add(s, &json!({"name": "more", "persistentVolumeClaim": claim}));
        },
        &["more"],
    ),
    (
        "a hotplugged DataVolume, bound",
        |s| {
            add(
                s,
                &json!({"name": "more", "dataVolume": {"name": "more", "hotpluggable": true}}),
            );
        },
        &["more"],
    ),
    (
        "not: hotplugged, pending, even with a node",
        |s| {
            add(
                s,
                &json!({"name": "more", "dataVolume": {"name": "more", "hotpluggable": true}}),
            );
            s.claim(&with_node(claim("more", "late")));
        },
        &[],
    ),
    (
        "not: hotplugged, without a claim",
        |s| s.add_volume(&json!({"name": "more", "dataVolume": {"name": "more", "hotpluggable": true}})),
        &[],
    ),
    (
        "not: a memory dump",
        |s| {
            add(
                s,
                &json!({"name": "more", "memoryDump": {"claimName": "more", "hotpluggable": true}}),
            );
        },
        &[],
    ),
    (
        "not: a utility volume",
        |s| {
            s.edit_vm(|vm| {
                vm["spec"]["template"]["spec"]["utilityVolumes"] = json!([{"name": "more", "claimName": "more"}]);
            });
            s.claim(&bound(claim("more", "late")));
        },
        &[],
    ),
    (
        "not: what CDI fills the disks through",
        |s| {
            s.claim(&controlled(
                claim("prime-claim-root", "late"),
                "PersistentVolumeClaim",
                "root",
                "claim-root",
            ));
            s.claim(&controlled(
                claim("root-scratch", "late"),
                "Pod",
                "importer-root",
                "pod",
            ));
        },
        &[],
    ),
    (
        "state of a persistent TPM",
        |s| {
            tpm(s, &json!({"persistent": true}));
            state(s, "db");
        },
        &["state-x7"],
    ),
    (
        "state of persistent EFI",
        |s| {
            efi(s, &json!({"persistent": true}));
            state(s, "db");
        },
        &["state-x7"],
    ),
    (
        "state by the name that older KubeVirt gave it",
        |s| {
            tpm(s, &json!({"persistent": true}));
            s.claim(&bound(claim("persistent-state-for-db", "late")));
        },
        &["persistent-state-for-db"],
    ),
    (
        "state that is not placed yet",
        |s| {
            tpm(s, &json!({"persistent": true}));
            let pending = claim("persistent-state-for-db", "late");
            s.claim(&controlled(pending, "VirtualMachine", "db", "vm-db"));
        },
        &["persistent-state-for-db"],
    ),
    (
        "not: there is no state yet",
        |s| tpm(s, &json!({"persistent": true})),
        &[],
    ),
    (
        "not: another VM's state",
        |s| {
            tpm(s, &json!({"persistent": true}));
            state(s, "web");
        },
        &[],
    ),
    ("not: neither TPM nor EFI", |s| state(s, "db"), &[]),
    (
        "not: TPM and EFI without state",
        |s| {
            tpm(s, &json!({}));
            efi(s, &json!({"persistent": false}));
            state(s, "db");
        },
        &[],
    ),
    (
        "not: a TPM that is switched off",
        |s| {
            tpm(s, &json!({"enabled": false, "persistent": true}));
            state(s, "db");
        },
        &[],
    ),
    (
        "a sidecar's claim",
        |s| {
            sidecars(
                s,
                &json!([{"image": "hook"}, {"pvc": {"name": "more", "volumePath": "/more"}}]),
            );
            s.disk("more", &claim("more", "late"), "WaitForFirstConsumer");
        },
        &["more"],
    ),
    (
        "not: it does not exist",
        |s| sidecars(s, &json!([{"pvc": {"name": "more", "volumePath": "/more"}}])),
        &[],
    ),
    (
        "not: the sidecar names none",
        |s| {
            sidecars(s, &json!([{"image": "hook"}]));
            s.disk("more", &claim("more", "late"), "WaitForFirstConsumer");
        },
        &[],
    ),
    (
        "what a VMI that lives says itself",
        |s| {
            let mut vmi = vmi("Pending");
            let volumes = vmi["spec"]["volumes"].as_array_mut().expect("volumes");
            volumes.push(json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}}));
            s.vmi(&vmi);
            s.claim(&bound(claim("more", "late")));
            s.now = at(10);
        },
        &["more"],
    ),
];

#[test]
fn the_pod_lists_what_the_launcher_will_list() {
    for (name, setup, beside) in TABLE {
        let mut s = Situation::new();
        setup(&mut s);
        let pod = s.create();
        let volumes = pod["spec"]["volumes"].as_array().expect("volumes");
        let listed = volumes
            .iter()
            .map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str().expect("a claim"));
        let expected = ["root", "data"].into_iter().chain(beside.iter().copied());
        assert!(listed.clone().eq(expected), "{name}: {:?}", listed.collect::<Vec<_>>());
        for claim in *beside {
            let changed = s.index.delete::<PersistentVolumeClaim>(&Key::new(NAMESPACE, claim));
            assert!(
                changed.contains(&Situation::subject()),
                "{name}: nobody hears of {claim}"
            );
        }
    }
}

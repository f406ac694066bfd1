//! One table: for each check what just is fine, and the smallest change that makes it fail, with its hint.

mod cluster;
mod installation;

use serde_json::json;

use super::facts::Facts;
use super::findings::Mark::{self, Doubtful, Wrong};
use super::findings::{Finding, sections};
use super::text::text;
use crate::cli::layout::WIDTH;
use crate::cli::supported::{CDI, KUBERNETES, KUBEVIRT, Minor};
use cluster::*;

/// What is not fine.
fn trouble(facts: &Facts) -> Vec<Finding> {
    let findings = sections(facts).into_iter().flat_map(|section| section.findings);
    findings.filter(|finding| finding.mark != Mark::Fine).collect()
}

type Edit = fn(&mut Facts);

#[test]
fn a_cluster_that_has_everything_has_no_trouble() {
    let mut facts = good();
    assert_eq!(trouble(&facts), []);
    facts.pre = true;
    facts.rights = installs();
    assert_eq!(trouble(&facts), []);
    facts.deployments = Ok(vec![]);
    facts.leases = Ok(vec![]);
    assert_eq!(trouble(&facts), []);
}

#[test]
fn what_only_just_is_fine_is_fine() {
    let fine: [Edit; 14] = [
        |facts| facts.leases = Ok(vec![renewed("first-consumer", "a", "2025-12-31T23:58:55Z")]),
        // Its controller is gone, and was never deleted.
        |facts| {
            let gone = renewed("second", "x", "2025-12-31T23:58:54Z");
            facts.leases = Ok(vec![lease("first-consumer", "a"), gone]);
        },
        |facts| facts.deployments = Ok(one(&running("first-consumer", "", 2, 1))),
        // Without an election there is no Lease.
        |facts| {
            let mut alone = running("first-consumer", "", 1, 1);
            alone["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["run"]);
            facts.deployments = Ok(one(&alone));
            facts.leases = Ok(vec![]);
        },
        |facts| {
            let mut owned = vm("yes");
            owned["metadata"]["ownerReferences"] =
                json!([{"kind": "VirtualMachine", "name": "db", "controller": true}]);
            facts.vmis = Ok(one(&owned));
        },
        |facts| facts.kubernetes = version(KUBERNETES.from),
        |facts| {
            facts.kubevirts = Ok(one(
                &json!({"status": {"observedKubeVirtVersion": version(KUBEVIRT.from)}}),
            ));
        },
        |facts| facts.cdis = Ok(one(&json!({"status": {"observedVersion": version(CDI.from)}}))),
        |facts| facts.cdi_configs = Ok(one(&gates(&["HonorWaitForFirstConsumer"]))),
        |facts| facts.classes = Ok(vec![view(&class("Immediate")), view(&class("WaitForFirstConsumer"))]),
        |facts| {
            facts.namespaces = Ok(one(
                &json!({"metadata": {"name": "vms", "annotations": provision("true")}}),
            ));
        },
        |facts| facts.vms = Ok(one(&json!({"metadata": {"name": "db", "namespace": "vms"}}))),
        |facts| {
            facts.deployments = Ok(vec![deployment("first-consumer", "a"), deployment("second", "b")]);
            facts.leases = Ok(vec![lease("first-consumer", "a"), lease("second", "b")]);
        },
        // An unknown level where nobody has opted in is nobody's trouble.
        |facts| {
            let labels = json!({"pod-security.kubernetes.io/enforce": "strict"});
            facts.namespaces = Ok(one(&json!({"metadata": {"name": "others", "labels": labels}})));
        },
    ];
    for (position, edit) in fine.into_iter().enumerate() {
        let mut facts = good();
        edit(&mut facts);
        assert_eq!(trouble(&facts), [], "{position}");
    }
}

/// How bad it is, what it says, what its hint says, and the one change that makes it so.
type Case = (Mark, &'static str, &'static str, Edit);

/// Each check fails by one change, and has a hint.
fn each_fails(cases: &[Case]) {
    for (mark, says, hint, edit) in cases {
        let mut facts = good();
        edit(&mut facts);
        let trouble = trouble(&facts);
        let [found] = &*trouble else {
            panic!("{says}: {trouble:?}");
        };
        assert_eq!(found.mark, *mark, "{found:?}");
        assert!(found.text.contains(says), "{found:?}");
        assert!(found.hint.contains(hint), "{found:?}");
    }
}

#[test]
fn what_is_wrong_with_kubernetes_and_kubevirt_is_found() {
    each_fails(&[
        (Doubtful, "v1.29.3 is older", "update Kubernetes to 1.30", |facts| {
            facts.kubernetes = version(Minor(1, 29));
        }),
        (Doubtful, "v1.38.3 is newer", "update first-consumer", |facts| {
            facts.kubernetes = version(Minor(1, 38));
        }),
        (Wrong, "KubeVirt is not installed", "install KubeVirt", |facts| {
            facts.versions.remove("kubevirt.io");
        }),
        (
            Wrong,
            "kubevirt.io/v1 is not served, only v1alpha3",
            "update KubeVirt",
            |facts| {
                facts.versions.insert("kubevirt.io".into(), vec!["v1alpha3".into()]);
                facts.resources.remove("kubevirt.io/v1");
            },
        ),
        (Wrong, "served without virtualmachines", "install KubeVirt", |facts| {
            let names = facts.resources.get_mut("kubevirt.io/v1").expect("KubeVirt");
            names.as_mut().expect("read").remove("virtualmachines");
        }),
        (Doubtful, "v1.4.3 is older", "update KubeVirt to 1.5", |facts| {
            facts.kubevirts = Ok(one(&json!({"status": {"observedKubeVirtVersion": "v1.4.3"}})));
        }),
        (
            Doubtful,
            "KubeVirt does not say its version",
            "kubectl get kubevirt -A",
            |facts| facts.kubevirts = Ok(vec![]),
        ),
    ]);
}

#[test]
fn what_is_wrong_with_cdi_and_the_storage_is_found() {
    each_fails(&[
        (Wrong, "CDI is not installed", "install CDI", |facts| {
            facts.versions.remove("cdi.kubevirt.io");
        }),
        (Doubtful, "v1.61.3 is older", "update CDI to 1.62", |facts| {
            facts.cdis = Ok(one(&json!({"status": {"observedVersion": "v1.61.3"}})));
        }),
        (Doubtful, "cannot be read: devel", "kubectl get cdi -o yaml", |facts| {
            facts.cdis = Ok(one(&json!({"status": {"observedVersion": "devel"}})));
        }),
        (
            Wrong,
            "HonorWaitForFirstConsumer is off",
            r#"kubectl patch cdi/cdi --type merge -p '{"spec":{"config":{"featureGates":["Other","HonorWaitForFirstConsumer"]}}}'"#,
            |facts| facts.cdi_configs = Ok(one(&gates(&["Other"]))),
        ),
        (Doubtful, "no configuration yet", "kubectl get cdi", |facts| {
            facts.cdi_configs = Ok(vec![]);
        }),
        (
            Wrong,
            "no StorageClass binds late",
            r#"{"metadata":{"name":"local-late","annotations":null,"labels":null,"resourceVersion":null},"#,
            |facts| {
                facts.classes = Ok(one(&class("Immediate")));
            },
        ),
    ]);
}

#[test]
fn what_is_wrong_with_namespaces_and_vms_is_found() {
    each_fails(&[
        (
            Wrong,
            "vm/db -n vms says",
            "kubectl annotate vm/db -n vms --overwrite",
            |facts| facts.vms = Ok(one(&vm("yes"))),
        ),
        (
            Wrong,
            "vmi/db -n vms says",
            "kubectl annotate vmi/db -n vms --overwrite",
            |facts| facts.vmis = Ok(one(&vm("no"))),
        ),
        (
            Wrong,
            "namespace/vms says",
            "kubectl annotate namespace/vms --overwrite",
            |facts| {
                facts.namespaces = Ok(one(
                    &json!({"metadata": {"name": "vms", "annotations": provision("True")}}),
                ));
            },
        ),
        (
            Doubtful,
            "namespace/vms enforces \"strict\"",
            "kubectl label namespace/vms",
            |facts| {
                let labels = json!({"pod-security.kubernetes.io/enforce": "strict"});
                facts.namespaces = Ok(one(&json!({"metadata": {"name": "vms", "labels": labels}})));
                facts.vms = Ok(one(&vm("true")));
            },
        ),
    ]);
}

/// Whoever wrote "no" is not told to opt in.
#[test]
fn the_hint_of_an_unreadable_opt_in_says_what_was_meant() {
    for (value, why, command) in [
        ("yes", "say what you mean", "true"),
        ("True", "say what you mean", "true"),
        (" on", "say what you mean", "true"),
        ("1", "say what you mean", "true"),
        ("no", "say what you mean", "false"),
        ("False", "say what you mean", "false"),
        ("off ", "say what you mean", "false"),
        ("0", "say what you mean", "false"),
        ("N", "say what you mean", "false"),
        ("", "to have it served (else with =false)", "true"),
        ("later", "to have it served (else with =false)", "true"),
    ] {
        let mut facts = good();
        facts.vms = Ok(one(&vm(value)));
        let hint = &trouble(&facts)[0].hint;
        let command =
            format!("kubectl annotate vm/db -n vms --overwrite first-consumer.kubevirt.io/provision={command}");
        assert_eq!(*hint, format!("{why}: {command}"), "{value:?}");
    }
}

#[test]
fn what_cannot_be_read_is_said_and_nothing_is_claimed_of_it() {
    let no = || "cannot list it (HTTP 403)".to_owned();
    let hidden: [Edit; 11] = [
        |facts| facts.kubevirts = Err(String::new()),
        |facts| facts.cdis = Err(String::new()),
        |facts| facts.cdi_configs = Err(String::new()),
        |facts| facts.classes = Err(String::new()),
        |facts| facts.drivers = Err(String::new()),
        |facts| facts.namespaces = Err(String::new()),
        |facts| facts.vms = Err(String::new()),
        |facts| facts.vmis = Err(String::new()),
        |facts| facts.deployments = Err(String::new()),
        |facts| facts.leases = Err(String::new()),
        |facts| {
            facts
                .resources
                .insert("cdi.kubevirt.io/v1beta1".into(), Err(String::new()));
        },
    ];
    for edit in hidden {
        let mut facts = good();
        edit(&mut facts);
        let trouble = trouble(&facts);
        assert!(
            matches!(&*trouble, [one] if one.mark == Mark::Doubtful && one.text.contains("cannot be checked")),
            "{trouble:?}"
        );
    }
    let mut facts = good();
    facts.vms = Err(no());
    assert!(trouble(&facts)[0].text.ends_with(&no()));
}

#[test]
fn many_unreadable_opt_ins_are_counted_and_some_are_named() {
    let mut facts = good();
    facts.vms = Ok(vec![view(&vm("yes")); 13]);
    let trouble = trouble(&facts);
    assert_eq!(trouble.len(), 10);
    assert!(trouble[9].text.ends_with("(and 3 more like it)"), "{:?}", trouble[9]);
}

#[test]
fn the_text_is_narrow_and_coloured_only_if_asked() {
    let mut facts = good();
    facts.cdi_configs = Ok(one(&gates(&["DataVolumeClaimAdoption", "WebhookPvcRendering"])));
    facts.vms = Ok(one(&vm("yes")));
    for (_, allowed) in &mut facts.rights {
        *allowed = Ok(false);
    }
    facts.kubernetes = "v1.38.0".into();
    let plain = text(&sections(&facts), false);
    for line in plain.lines() {
        let word = line.trim().trim_start_matches('\'').starts_with("{\"spec\"");
        assert!(line.chars().count() <= WIDTH || word, "{line}");
    }
    assert!(plain.ends_with("\nWrong: 3; to be looked at: 1\n"), "{plain}");
    assert!(
        plain.contains("\n‼ version v1.38.0 is newer") && plain.contains("\n  Next:   update first-consumer"),
        "{plain}"
    );
    let coloured = text(&sections(&facts), true);
    let (stripped, marks) = (["32", "33", "31", "34"].iter()).fold((coloured.clone(), 0), |(text, marks), tint| {
        let start = format!("\u{1b}[{tint}m");
        (text.replace(&start, ""), marks + text.matches(&start).count())
    });
    assert!(marks > 10);
    assert_eq!(stripped.replace("\u{1b}[0m", ""), plain);
    assert!(text(&sections(&good()), false).ends_with("\nAll is as it should be.\n"));
}

#[test]
fn the_example_of_the_readme_is_true() {
    let readme = include_str!("../../../README.md");
    let mut facts = good();
    facts.cdi_configs = Ok(one(&gates(&[])));
    let text = text(&sections(&facts), false);
    let cdi = text.split("\n\n").find(|section| section.starts_with("CDI\n"));
    let cdi = cdi.expect("a section");
    assert!(readme.contains(&format!("\n{cdi}\n...\n")), "{cdi}");
}

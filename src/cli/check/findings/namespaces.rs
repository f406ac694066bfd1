//! Who has opted in: whether it can be read, and whether Pod Security lets our pods in.

use std::collections::BTreeSet;

use super::super::facts::Facts;
use super::{Finding, read};
use crate::api::{Meta, View};
use crate::name::DOMAIN;
use crate::policy::{asked, unreadable};

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";

/// Our pods pass all of them (`src/pod.rs`; Kubernetes `pod-security-admission/api/constants.go`).
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// What is written for `"true"` and `"false"`: the words of YAML 1.1 (`bool`) and of Go (`strconv.ParseBool`).
const YES: [&str; 6] = ["true", "t", "yes", "y", "on", "1"];
const NO: [&str; 6] = ["false", "f", "no", "n", "off", "0"];

/// So many objects are named; whoever repairs those sees the next.
const SHOWN: usize = 10;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let reads = (
        read("Namespaces", &facts.namespaces),
        read("VMs", &facts.vms),
        read("VMIs", &facts.vmis),
    );
    let (namespaces, vms, instances) = match reads {
        (Ok(namespaces), Ok(vms), Ok(instances)) => (namespaces, vms, instances),
        (namespaces, vms, instances) => {
            return [namespaces.err(), vms.err(), instances.err()]
                .into_iter()
                .flatten()
                .collect();
        }
    };
    // A VMI with a VM is not asked.
    let bare = instances
        .iter()
        .map(View::meta)
        .filter(|meta| meta.controller().is_none());
    let subjects = vms
        .iter()
        .map(|vm| ("vm", vm.meta()))
        .chain(bare.map(|meta| ("vmi", meta)));
    let on_namespaces = namespaces.iter().map(|namespace| ("namespace", namespace.meta()));
    let mut odd: Vec<Finding> = on_namespaces
        .chain(subjects.clone())
        .filter_map(|(kind, meta)| Some(opt_in(kind, meta, unreadable(meta)?)))
        .collect();
    let more = odd.len().saturating_sub(SHOWN);
    odd.truncate(SHOWN);
    if let Some(last) = odd.last_mut().filter(|_| more > 0) {
        last.text = format!("{} (and {more} more like it)", last.text);
    }
    if odd.is_empty() {
        odd.push(Finding::fine(format!(
            "every annotation {DOMAIN}/provision can be read"
        )));
    }

    let by_vm = subjects.filter(|(_, meta)| asked(meta) == Some(true));
    let by_vm: BTreeSet<&str> = by_vm.map(|(_, meta)| &*meta.namespace).collect();
    let opted_in = namespaces.iter().map(View::meta);
    let opted_in: Vec<&Meta> = opted_in
        .filter(|meta| asked(meta) == Some(true) || by_vm.contains(&*meta.name))
        .collect();
    let refusing: Vec<Finding> = opted_in.iter().filter_map(|meta| pod_security(meta)).collect();
    if opted_in.is_empty() {
        odd.push(Finding::fine("no Namespace has opted in, and no VM"));
    } else if refusing.is_empty() {
        let count = opted_in.len();
        odd.push(Finding::fine(format!(
            "Pod Security lets our pods into every opted-in Namespace ({count})"
        )));
    }
    odd.extend(refusing);
    odd
}

/// An annotation that counts as absent.
fn opt_in(kind: &str, meta: &Meta, value: &str) -> Finding {
    let (name, namespace) = (&meta.name, &meta.namespace);
    let place = if namespace.is_empty() {
        String::new()
    } else {
        format!(" -n {namespace}")
    };
    let word = value.trim().to_lowercase();
    let (why, meant) = if NO.contains(&&*word) {
        ("say what you mean", false)
    } else if YES.contains(&&*word) {
        ("say what you mean", true)
    } else {
        ("to have it served (else with =false)", true)
    };
    Finding::wrong(
        format!("{kind}/{name}{place} says {DOMAIN}/provision: {value:?}, which is neither \"true\" nor \"false\""),
        format!("{why}: kubectl annotate {kind}/{name}{place} --overwrite {DOMAIN}/provision={meant}"),
    )
}

/// A level that the API server does not know counts as `restricted`, for the VM itself, too.
fn pod_security(meta: &Meta) -> Option<Finding> {
    let level = meta.label(ENFORCE).filter(|level| !LEVELS.contains(level))?;
    let name = &meta.name;
    Some(Finding::doubtful(
        format!("namespace/{name} enforces {level:?}, which is no level of Pod Security and counts as restricted"),
        format!(
            "name one of {}: kubectl label namespace/{name} --overwrite {ENFORCE}=baseline",
            LEVELS.join(", ")
        ),
    ))
}

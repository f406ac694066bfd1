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

/// So many objects are named; whoever repairs those sees the next.
const SHOWN: usize = 10;

pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let (namespaces, vms) = match (read("Namespaces", &facts.namespaces), read("VMs", &facts.vms)) {
        (Ok(namespaces), Ok(vms)) => (namespaces, vms),
        (namespaces, vms) => return namespaces.err().into_iter().chain(vms.err()).collect(),
    };
    let on_vms = vms.iter().map(|vm| ("vm", vm.meta()));
    let on_namespaces = namespaces.iter().map(|namespace| ("namespace", namespace.meta()));
    let mut odd: Vec<Finding> = on_namespaces
        .chain(on_vms.clone())
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

    let by_vm = on_vms.filter(|(_, meta)| asked(meta) == Some(true));
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
    Finding::wrong(
        format!("{kind}/{name}{place} says {DOMAIN}/provision: {value:?}, which is neither \"true\" nor \"false\""),
        format!("say what you mean: kubectl annotate {kind}/{name}{place} --overwrite {DOMAIN}/provision=true"),
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

//! The installation itself: what it is allowed, and that there is one.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::super::facts::Facts;
use super::super::rights::Right;
use super::{Finding, read};
use crate::api::{Deployment, Lease, OUR_LABEL, View as _};

const APPLY: &str = "kubectl apply -k manifests/base";

/// The flag by which several installations share a cluster.
const SCOPE: &str = "watch-namespace";

/// Whether the controller, or before an installation whoever asks, may do what is needed.
pub(super) fn rights(facts: &Facts) -> Vec<Finding> {
    let refused = |allowed: bool| {
        let wrong = facts.rights.iter().filter(move |(_, answer)| *answer == Ok(allowed));
        wrong.map(|(right, _)| right).collect::<Vec<&Right>>()
    };
    let unknown = facts.rights.iter().find_map(|(_, answer)| answer.as_ref().err());
    let missing: Vec<String> = refused(false).iter().map(ToString::to_string).collect();
    let whom = if facts.pre { "you" } else { "the controller" };
    if !missing.is_empty() {
        let (note, hint) = if facts.pre {
            let gives = missing
                .iter()
                .any(|right| right.starts_with("escalate ") || right.starts_with("bind "));
            let note = if gives {
                "; or else you need all rights that you would give the controller"
            } else {
                ""
            };
            (note, format!("let an administrator install it: {APPLY}"))
        } else {
            ("", format!("give it back what it is shipped with: {APPLY}"))
        };
        let text = format!("{whom} may not {}{note}", missing.join(", "));
        return vec![Finding::wrong(text, hint)];
    }
    if let Some(error) = unknown {
        let hint = "ask somebody who may create subjectaccessreviews, or name another account with --as";
        return vec![Finding::doubtful(
            format!("what {whom} may do cannot be checked: {error}"),
            hint,
        )];
    }
    let count = facts.rights.len();
    vec![Finding::fine(if facts.pre {
        format!("you may do all {count} things that an installation takes")
    } else {
        format!("the controller may do all {count} things that it does")
    })]
}

/// Whether there is one installation, or several that keep out of each other's way.
pub(super) fn installations(facts: &Facts) -> Vec<Finding> {
    let deployments = match read("the installation", &facts.deployments) {
        Ok(deployments) => deployments,
        Err(finding) => return vec![finding],
    };
    let mut findings = vec![match &**deployments {
        [] if facts.pre => Finding::fine("there is none yet"),
        [] => Finding::wrong(
            "first-consumer is not installed: there is no Deployment with its label",
            format!("install it: {APPLY}"),
        ),
        [one] if facts.pre && *one.meta().namespace == *facts.controllers => {
            Finding::fine(format!("{} is there; to apply it again updates it", shown(one)))
        }
        [one] if facts.pre => Finding::doubtful(
            format!("there is one already: {}", shown(one)),
            format!("delete it first: kubectl delete {}", shown(one)),
        ),
        [one] => Finding::fine(format!("there is one: {}", shown(one))),
        several => rivals(several, &facts.controllers),
    }];
    if !facts.pre {
        let leases = facts.leases.as_deref().ok();
        findings.extend(deployments.iter().map(|found| life(found, leases, facts.now)));
    }
    let homes: BTreeSet<&str> = deployments.iter().map(|found| &*found.meta().namespace).collect();
    match read("Leases", &facts.leases) {
        Err(finding) => findings.push(finding),
        Ok(leases) => {
            let strange = leases.iter().filter(|lease| !homes.contains(&*lease.meta().namespace));
            findings.extend(strange.filter_map(|lease| strange_leader(lease, facts.now)));
        }
    }
    findings
}

/// Somebody leads where nothing is installed.
fn strange_leader(lease: &Lease, now: Timestamp) -> Option<Finding> {
    let namespace = &lease.meta().namespace;
    let holder = lease.holder().filter(|_| !lease.expired(now))?;
    Some(Finding::doubtful(
        format!("{holder} holds the Lease of a controller in {namespace}, where there is no Deployment of it"),
        format!("stop what runs there by that name: kubectl get pods -n {namespace}"),
    ))
}

/// Whether a controller runs, and one of its replicas leads. `leases` is missing if they cannot be read.
fn life(deployment: &Deployment, leases: Option<&[Lease]>, now: Timestamp) -> Finding {
    let (meta, shown) = (deployment.meta(), shown(deployment));
    let (namespace, (key, value)) = (&meta.namespace, OUR_LABEL);
    let ready = deployment.ready_replicas();
    if deployment.replicas() == 0 {
        let hint = format!("start it: kubectl scale {shown} --replicas=2");
        return Finding::doubtful(format!("nothing runs: {shown} asks for no replica"), hint);
    }
    if ready == 0 {
        let hint = format!("see what they wait for: kubectl describe pods -n {namespace} -l {key}={value}");
        return Finding::doubtful(format!("no replica of {shown} is ready"), hint);
    }
    let is_ours = |lease: &&Lease| lease.meta().namespace == *namespace;
    let lease = match leases.filter(|_| deployment.switch("leader-elect")) {
        None => return Finding::fine(format!("replicas that are ready: {ready}")),
        Some(leases) => leases.iter().find(is_ours),
    };
    let text = match lease.and_then(|lease| Some((lease, lease.holder()?))) {
        Some((lease, holder)) if lease.expired(now) => {
            format!("{holder} leads in {namespace} and has not said so for more than a minute: nobody makes pods")
        }
        Some((_, holder)) => return Finding::fine(format!("replicas that are ready: {ready}; {holder} leads")),
        None => format!("no replica leads in {namespace}: nobody makes pods"),
    };
    let hint = format!("see what they say: kubectl logs -n {namespace} -l {key}={value} --prefix");
    Finding::doubtful(text, hint)
}

/// Several installations: each has a Lease of its own, so two of them would serve the same VMs.
fn rivals(deployments: &[Deployment], controllers: &str) -> Finding {
    let all: Vec<String> = deployments.iter().map(shown).collect();
    let scopes: BTreeSet<Option<&str>> = deployments.iter().map(scope).collect();
    if scopes.len() == deployments.len() && !scopes.contains(&None) {
        return Finding::fine(format!("each has VMs of its own: {}", all.join(", ")));
    }
    // The one that was not named is the one too many.
    let other = deployments
        .iter()
        .rfind(|found| *found.meta().namespace != *controllers);
    let other = other.or(deployments.last()).map(shown).unwrap_or_default();
    Finding::wrong(
        format!(
            "{} installations serve the same VMs: {}",
            deployments.len(),
            all.join(", ")
        ),
        format!("delete one, or give each its --{SCOPE}: kubectl delete {other}"),
    )
}

fn scope(deployment: &Deployment) -> Option<&str> {
    deployment.flag(SCOPE).filter(|namespace| !namespace.is_empty())
}

/// As kubectl takes it.
fn shown(deployment: &Deployment) -> String {
    let meta = deployment.meta();
    format!("deployment/{} -n {}", meta.name, meta.namespace)
}

//! The one cause, in one line, and the one next step.

use std::sync::Arc;

use super::Scene;
use super::decided::Decided;
use super::filling;
use crate::api::{BY_NODE, DataVolumePhase, Node, Scheduled, View as _, VmiPhase};
use crate::decide::Decision;
use crate::diagnose::{Diagnosis, Lack, NodeWishes};
use crate::name::{Key, pod_name};
use crate::observe::Observed;
use crate::placement::Domains;
use crate::pod::Owner;
use crate::policy;
use crate::reason::{Reason, Trouble, Whom};

/// The cause of what a subject waits for.
pub(super) struct Cause {
    /// Its name: of a diagnosis, else of the decision.
    pub name: String,
    /// What it is.
    pub message: String,
    /// What to do about it.
    pub next: String,
    /// Whether nothing waits and nothing fails.
    pub fine: bool,
}

/// The cause for a subject.
pub(super) fn cause(scene: &Scene, subject: &Key, decided: &Decided, diagnosis: &Diagnosis) -> Cause {
    let Decided { observed, decision, .. } = decided;
    let pod = pod_name(subject);
    let whom = Whom {
        namespace: &subject.namespace,
        kind: observed.owner.as_ref().map_or("vmi", Owner::word),
        name: &subject.name,
        started: scene.index.vmi(subject).is_some(),
        pod: &pod,
        controller: &scene.home,
        whole: scene.index.unseen().is_empty(),
    };
    let mut cause = match diagnosis.cause(decision.reason) {
        Some(finding) => Cause {
            name: finding.trouble.name(),
            message: finding.message(),
            next: diagnosis.next(finding, &subject.namespace),
            fine: false,
        },
        None => Cause {
            name: decision.reason.name(),
            message: decision.message(),
            next: unknown_source(scene, subject, decision)
                .unwrap_or_else(|| decision.reason.next(whom, &decision.about)),
            fine: decision.reason.fine() && diagnosis.findings.is_empty(),
        },
    };
    // The verdict is on a pod that asks for what the VM does.
    let of_vm = match diagnosis.cause(decision.reason) {
        Some(finding) => finding.trouble == Trouble::LauncherUnschedulable,
        None => decision.reason == Reason::Unschedulable,
    };
    if of_vm && cause.message.contains(BY_NODE) {
        name_wishes(scene, observed, &mut cause);
    }
    if let Some((message, next)) = further(scene, decided, diagnosis, whom, &cause) {
        cause = Cause {
            message,
            next,
            fine: false,
            ..cause
        };
    }
    cause
}

/// Names what the pod asks of its node, as far as nodes lack it. The scheduler says only how many do.
fn name_wishes(scene: &Scene, observed: &Observed, cause: &mut Cause) {
    let index = &scene.index;
    let subject = &observed.subject;
    let template = index.template(subject);
    let own = template.and_then(|template| NodeWishes::of_spec(&template.spec.json));
    let own = own.unwrap_or_default();
    let nobody = Domains::new();
    let peers = observed.own_pod().map_or(&nobody, |pod| &pod.marks.domains);
    let ours = observed
        .own_pod()
        .and_then(|_| index.pod(&subject.sibling(&pod_name(subject))));
    let mut pods = ours.into_iter().chain(index.launchers(subject));
    let unfit = pods.find(|pod| matches!(pod.scheduled(), Scheduled::Unschedulable(_)));
    let wishes = unfit.map_or_else(NodeWishes::default, |pod| NodeWishes::of_pod(pod, peers));
    let nodes: Vec<&Arc<Node>> = index.nodes().collect();
    if nodes.is_empty() {
        if let Some(words) = own.text() {
            cause.message.extend(["; the VM asks for ", &words]);
        }
        return;
    }
    let lacks = wishes.lacking(&own, &nodes);
    if lacks.is_empty() {
        if let Some(unknown) = wishes.unknown() {
            cause
                .message
                .extend(["; it asks for ", &unknown, ", which is not counted here"]);
        }
        return;
    }
    let texts: Vec<&str> = lacks.iter().map(|lack| &*lack.text).collect();
    cause.message.extend(["; ", &texts.join(", ")]);
    let (theirs, own): (Vec<&Lack>, Vec<&Lack>) = lacks.iter().partition(|lack| lack.kubevirt);
    if own.is_empty() || theirs.iter().any(|lack| lack.nodes == nodes.len()) {
        let keys: Vec<&str> = theirs.iter().map(|lack| &*lack.key).collect();
        cause.next = format!(
            "see where KubeVirt's virt-handler runs: kubectl get nodes -L {}",
            keys.join(",")
        );
    }
}

/// What is to be said beside or instead of the bare cause.
fn further(
    scene: &Scene,
    decided: &Decided,
    diagnosis: &Diagnosis,
    whom: Whom,
    cause: &Cause,
) -> Option<(String, String)> {
    let Decided {
        observed,
        decision,
        unasked,
        due,
    } = decided;
    let Whom {
        namespace, kind, name, ..
    } = whom;
    let subject = &observed.subject;
    let message = &cause.message;
    if observed.namespace_terminating
        && let Some(words) = held(scene, subject)
    {
        return Some((
            format!("its Namespace is being deleted, and something holds it: {words}"),
            format!("see what is left in it: kubectl describe namespace/{namespace}"),
        ));
    }
    if let Some(idle) = &scene.controller.idle
        && *due
        && diagnosis.cause(decision.reason).is_none()
    {
        return Some((format!("{message}; no controller acts: {}", idle.words), idle.next()));
    }
    if decision.reason == Reason::NotAskedFor
        && let Some(words) = unreadable(scene, subject)
    {
        return Some((format!("{message}: {words}"), Reason::OptedOut.next(whom, "")));
    }
    if !diagnosis.findings.is_empty() {
        return None;
    }
    // The launcher is a consumer, too: it is fine as soon as it has a node.
    if decision.reason == Reason::LauncherPresent && observed.needs() {
        return Some((
            format!("{message}, and a disk waits for the node that it gets"),
            format!("wait; if nothing comes: kubectl describe pods -l vm.kubevirt.io/name={name} -n {namespace}"),
        ));
    }
    if *unasked && decision.reason == Reason::FirstConsumerNeeded {
        let next = if scene.forbidden.contains(subject) {
            cause.next.clone()
        } else {
            format!("let virt-api tell it: kubectl first-consumer explain {kind}/{name} -n {namespace}")
        };
        let message = format!("{message}; what its instancetype or preference adds is not known here");
        return Some((message, next));
    }
    let runs = scene
        .index
        .vmi(subject)
        .is_some_and(|vmi| vmi.phase() == VmiPhase::Running);
    let disk = filling::unfinished(observed).filter(|_| !runs)?;
    match decision.reason {
        Reason::LauncherPresent | Reason::Served | Reason::NothingWaiting => {}
        // That CDI makes no pod is no wonder then.
        Reason::SiblingImporting if disk.data_volume == Some(DataVolumePhase::Paused) => {}
        _ => return None,
    }
    let words = filling::waits_for(&scene.index, observed, disk);
    let message = format!("{message}, but {} {words}", disk.name);
    Some((message, filling::next(disk, observed.state, whom)))
}

/// An opt-in annotation that counts as absent.
fn unreadable(scene: &Scene, subject: &Key) -> Option<String> {
    let vm = scene.index.vm(subject).map(|vm| vm.meta());
    let namespace = scene
        .index
        .namespace(&subject.namespace)
        .map(|namespace| namespace.meta());
    let value = vm.into_iter().chain(namespace).find_map(policy::unreadable)?;
    Some(format!(
        "the annotation says {value:?}, which is neither \"true\" nor \"false\""
    ))
}

/// What to do about an instancetype or preference that does not exist: virt-api then has Kubernetes' words.
fn unknown_source(scene: &Scene, subject: &Key, decision: &Decision) -> Option<String> {
    let vm = scene
        .index
        .vm(subject)
        .filter(|_| decision.reason == Reason::ExpansionPending)?;
    let unknown = |(resource, name): &(String, String)| {
        let words = format!("{resource}s.instancetype.kubevirt.io \"{name}\" not found");
        decision.about.contains(&words)
    };
    let (resource, name) = vm.expansion_sources().into_iter().find(unknown)?;
    Some(format!(
        "create {resource}/{name}, or name another: kubectl edit vm/{} -n {}",
        subject.name, subject.namespace
    ))
}

/// What keeps a Namespace that is being deleted.
fn held(scene: &Scene, subject: &Key) -> Option<String> {
    let namespace = scene.index.namespace(&subject.namespace)?;
    namespace.held_by().map(str::to_owned)
}

//! The first-consumer pod: placement, claims and settings in, a pod out; and what a pod says of itself (design section 6).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::api::{Meta, Strings, View as _, VirtualMachine};
use crate::claim::Claim;
use crate::name::{DOMAIN, Key, Uid, hex_digest, pod_name};
use crate::placement::{Domains, HASH_VERSION, Placement};
use crate::policy::MadeFor;
use crate::quantity::Quantity;
use crate::reason::Reason;

/// What the controller's flags say about pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `--pod-image`.
    pub image: String,
    /// `--pod-command`, split into words.
    pub command: Vec<String>,
    /// `--halted-priority-class`: replaces the VM's priority class in pods for halted VMs.
    pub halted_priority_class: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            image: "registry.k8s.io/pause:3.10".into(),
            command: vec!["/pause".into(), "-v".into()],
            halted_priority_class: None,
        }
    }
}

/// The VM or, without one, the VMI that owns a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `VirtualMachine` or `VirtualMachineInstance`.
    pub kind: &'static str,
    /// Its UID.
    pub uid: Uid,
}

impl Owner {
    /// `vm` or `vmi`, as in `kubectl get`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.kind == VirtualMachine::KIND { "vm" } else { "vmi" }
    }
}

/// The most pods in a row that may end without result before we give up.
pub const MOST_ATTEMPTS: u32 = 10;

/// A claim as the pod's annotation lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedClaim {
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Uid,
    /// The DataVolume that controls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_volume: Option<Arc<str>>,
    /// The phase of that DataVolume when the pod was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}

impl From<&Claim> for ListedClaim {
    fn from(claim: &Claim) -> Self {
        let controller = claim.data_volume.as_ref();
        Self {
            name: Arc::clone(&claim.name),
            uid: claim.uid.clone(),
            data_volume: controller.map(|controller| Arc::clone(&controller.name)),
            phase: controller.map(|controller| format!("{:?}", controller.phase)),
        }
    }
}

/// What a pod says of itself in its annotations: why it was made and for what. Nothing else of it is compared later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The owner's UID.
    pub owner_uid: Uid,
    /// Halted or started.
    pub made_for: MadeFor,
    /// The claims that it lists; `None` if the annotation can't be read.
    pub claims: Option<Vec<ListedClaim>>,
    /// The hash of its placement; empty if the annotation is missing.
    pub placement_hash: Arc<str>,
    /// How many pods in a row have ended without result, this one included; from 1.
    pub attempt: u32,
    /// Whether it stays until its legacy claims are bound.
    pub hold: bool,
    /// Where its placement keeps out of because of halted peers.
    pub domains: Domains,
}

impl Marks {
    /// Reads the annotations of an own pod.
    #[must_use]
    pub fn read(meta: &Meta) -> Self {
        let get = |key: &str| meta.annotation(&own(key));
        Self {
            owner_uid: get("owner-uid").unwrap_or_default().into(),
            made_for: if get("made-for") == Some("started") {
                MadeFor::Started
            } else {
                MadeFor::Halted
            },
            claims: get("claims").and_then(|text| serde_json::from_str(text).ok()),
            placement_hash: get("placement-hash").unwrap_or_default().into(),
            attempt: get("attempt").and_then(|text| text.parse().ok()).unwrap_or(1),
            hold: get("hold") == Some("true"),
            domains: get("peers")
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default(),
        }
    }
}

/// Everything that a pod is made from.
#[derive(Clone, Copy, Debug)]
pub struct Blueprint<'a> {
    /// The subject.
    pub subject: &'a Key,
    /// Its owner.
    pub owner: &'a Owner,
    /// Halted or started.
    pub made_for: MadeFor,
    /// Labels of the template.
    pub labels: &'a Strings,
    /// Where it may run and what it asks for.
    pub placement: &'a Placement,
    /// Where this keeps out of because of halted peers.
    pub domains: &'a Domains,
    /// The claims that it lists.
    pub claims: &'a [&'a Claim],
    /// Why it is made.
    pub reason: Reason,
    /// See [`Marks::attempt`].
    pub attempt: u32,
    /// The controller's flags.
    pub settings: &'a Settings,
}

/// Labels that would make somebody take the pod for a launcher, or inject a sidecar (KubeVirt reference E.2).
const DROPPED_LABELS: [&str; 5] = [
    "kubevirt.io",
    "kubevirt.io/created-by",
    "vm.kubevirt.io/name",
    "vmi.kubevirt.io/id",
    "sidecar.istio.io/inject",
];

/// The pod as JSON, ready to be created.
#[must_use]
pub fn build(blueprint: &Blueprint<'_>) -> Value {
    let Blueprint {
        subject,
        owner,
        made_for,
        placement,
        claims,
        settings,
        ..
    } = *blueprint;
    let vm_backed = owner.kind == "VirtualMachine";
    let mut spec = Map::new();
    let mut set = |field: &str, value: Value| spec.insert(field.into(), value);
    // What is about placement comes from it; what follows must not be changed by it.
    if let Value::Object(wishes) = json!(placement) {
        for (field, value) in wishes {
            set(&field, value);
        }
    }
    if let (MadeFor::Halted, Some(class)) = (made_for, &settings.halted_priority_class) {
        set("priorityClassName", json!(class));
    }
    set("restartPolicy", json!("Never"));
    set("terminationGracePeriodSeconds", json!(0));
    set("enableServiceLinks", json!(false));
    set("automountServiceAccountToken", json!(false));
    // Nobody ever sets this condition, so the pod is never a ready endpoint of a Service that selects the VM.
    set(
        "readinessGates",
        json!([{"conditionType": "kubevirt.io/virtual-machine-unpaused"}]),
    );
    set(
        "securityContext",
        json!({"runAsNonRoot": true, "runAsUser": 65535, "runAsGroup": 65535, "seccompProfile": {"type": "RuntimeDefault"}}),
    );
    set("containers", json!([container(placement, settings)]));
    // Listed, not mounted: the scheduler needs no mount, and a mount is one more way to hang.
    let volumes = claims.iter().enumerate().map(|(position, claim)| {
        json!({"name": format!("claim-{position}"), "persistentVolumeClaim": {"claimName": claim.name}})
    });
    set("volumes", volumes.collect());
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(subject),
            "namespace": subject.namespace,
            "labels": labels(blueprint.labels),
            "annotations": annotations(blueprint),
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1",
                "kind": owner.kind,
                "name": subject.name,
                "uid": owner.uid,
                // Virt-controller takes any pod that a VMI controls for its launcher.
                "controller": vm_backed,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": spec,
    })
}

impl Placement {
    /// `v1:<hex>` over what is asked for, not over what it was made from: a cluster setting that changes nothing replaces
    /// no pod. A pod of another hash was made for other wishes.
    #[must_use]
    pub fn hash(&self) -> String {
        // Maps serialise sorted, so equal placements have equal text. Writing a tree of JSON values can't fail.
        let text = serde_json::to_string(&(self, &self.requests, &self.limits)).unwrap_or_default();
        format!("{HASH_VERSION}{}", hex_digest(text.as_bytes(), 8))
    }
}

fn container(placement: &Placement, settings: &Settings) -> Value {
    // The API server refuses a limit below the request, which a launcher of several containers can have. Without limits
    // on all of them it is in no Namespace whose quota counts limits.
    let fits =
        |(name, limit): &(&String, &Quantity)| placement.requests.get(*name).is_none_or(|request| request <= *limit);
    let limits: BTreeMap<_, _> = placement.limits.iter().filter(fits).collect();
    json!({
        "name": "first-consumer",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": settings.command,
        "resources": {"requests": placement.requests, "limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        },
    })
}

/// The template's labels, which spread and anti-affinity select on, without those that would mislead others.
fn labels(template: &Strings) -> BTreeMap<String, String> {
    let misleading =
        |key: &str| DROPPED_LABELS.contains(&key) || key.starts_with("pr.kubevirt.io/") || key.starts_with(&own(""));
    let kept = template.iter().filter(|(key, _)| !misleading(key));
    let mut labels: BTreeMap<_, _> = kept.map(|(key, value)| (key.to_string(), value.to_string())).collect();
    labels.insert(own("managed"), "true".into());
    labels
}

fn annotations(blueprint: &Blueprint<'_>) -> BTreeMap<String, String> {
    let Blueprint {
        subject,
        owner,
        made_for,
        placement,
        claims,
        reason,
        attempt,
        ..
    } = *blueprint;
    let listed: Vec<ListedClaim> = claims.iter().copied().map(ListedClaim::from).collect();
    // Strings only: writing them can't fail.
    let listed = serde_json::to_string(&listed).unwrap_or_default();
    let made_for = match made_for {
        MadeFor::Halted => "halted",
        MadeFor::Started => "started",
    };
    let mut annotations = BTreeMap::from([
        ("kubevirt.io/ephemeral-provisioning".into(), "true".into()),
        ("sidecar.istio.io/inject".into(), "false".into()),
        ("linkerd.io/inject".into(), "disabled".into()),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict".into(), "true".into()),
        (own("subject"), format!("{}/{}", owner.kind, subject.name)),
        (own("owner-uid"), owner.uid.to_string()),
        (own("made-for"), made_for.into()),
        (own("claims"), listed),
        (own("reason"), reason.name()),
        (own("placement-hash"), placement.hash()),
        (own("attempt"), attempt.to_string()),
        (own("version"), env!("CARGO_PKG_VERSION").into()),
    ]);
    if !blueprint.domains.is_empty() {
        // Strings only: writing them can't fail.
        let domains = serde_json::to_string(blueprint.domains).unwrap_or_default();
        annotations.insert(own("peers"), domains);
    }
    if claims.iter().any(|claim| claim.stripped) {
        annotations.insert(own("hold"), "true".into());
    }
    annotations
}

/// A key of ours.
fn own(key: &str) -> String {
    format!("{DOMAIN}/{key}")
}

//! What the launcher takes from the VMI or the cluster as it is.

use serde_json::{Map, Value};

use super::spec::filled;
use super::{Refusal, Vmi};

/// A list that is not empty; Go leaves empty ones out.
fn full(list: Option<&Value>) -> Option<Value> {
    list.filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
        .cloned()
}

/// Taints that the VM bears.
///
/// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
pub(super) fn tolerations(vmi: &Vmi<'_>) -> Option<Value> {
    full(vmi.spec.tolerations.as_ref())
}

/// How VMs of a kind are spread.
///
/// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
pub(super) fn topology_spread_constraints(vmi: &Vmi<'_>) -> Option<Value> {
    full(vmi.spec.topology_spread_constraints.as_ref())
}

/// The scheduler.
///
/// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
pub(super) fn scheduler_name(vmi: &Vmi<'_>) -> Option<String> {
    filled(vmi.spec.scheduler_name.as_ref()).map(str::to_owned)
}

/// The priority class.
///
/// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
pub(super) fn priority_class_name(vmi: &Vmi<'_>) -> Option<String> {
    filled(vmi.spec.priority_class_name.as_ref()).map(str::to_owned)
}

/// The cluster's runtime class.
///
/// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
pub(super) fn runtime_class_name(vmi: &Vmi<'_>) -> Option<String> {
    vmi.config.runtime_class().map(str::to_owned)
}

/// Resource claims: what a pod has of each, not what only a VMI has.
///
/// Mirrors: pkg/dra/claims.go::ToPodResourceClaims
pub(super) fn resource_claims(vmi: &Vmi<'_>) -> Option<Value> {
    let claims = full(vmi.spec.resource_claims.as_ref())?;
    let of_pod = |claim: &Value| {
        let fields = ["name", "resourceClaimName", "resourceClaimTemplateName"];
        let kept = fields
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), claim.get(field)?.clone())));
        Value::Object(kept.collect::<Map<_, _>>())
    };
    Some(claims.as_array()?.iter().map(of_pod).collect())
}

/// Refuses a verbosity that is no number; it changes nothing else here.
///
/// Mirrors: pkg/virt-controller/services/template.go::renderLaunchManifest
pub(super) fn check(vmi: &Vmi<'_>) -> Result<(), Refusal> {
    match vmi.inputs.template.metadata.labels.get("logVerbosity") {
        Some(verbosity) if verbosity.parse::<i64>().is_err() => Err(Refusal::LogVerbosity(verbosity.to_string())),
        _ => Ok(()),
    }
}

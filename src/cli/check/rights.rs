//! What the controller's account, and whoever installs first-consumer, has to be allowed.

use std::fmt;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde_json::Value;

use crate::yaml;

/// What is shipped is what is needed: a scenario shows that the controller gets along with it.
const RBAC: &str = include_str!("../../../manifests/base/rbac.yaml");

/// What `kubectl apply` does, at first or to update.
const APPLIED: [&str; 3] = ["get", "create", "patch"];

/// The kinds of `manifests/base`: group, resource, and whether its objects live in the controller's Namespace.
const INSTALLED: [(&str, &str, bool); 10] = [
    ("", "namespaces", false),
    ("", "serviceaccounts", true),
    ("rbac.authorization.k8s.io", "clusterroles", false),
    ("rbac.authorization.k8s.io", "clusterrolebindings", false),
    ("rbac.authorization.k8s.io", "roles", true),
    ("rbac.authorization.k8s.io", "rolebindings", true),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", false),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        false,
    ),
    ("scheduling.k8s.io", "priorityclasses", false),
    ("apps", "deployments", true),
];

/// One verb on one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Right {
    /// `list`, `create`, ...
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The resource, with its subresource behind a slash.
    pub resource: String,
    /// Only in this Namespace; else everywhere.
    pub namespace: Option<String>,
    /// Only the object of this name.
    pub name: Option<String>,
}

impl fmt::Display for Right {
    /// As for `kubectl auth can-i`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl Right {
    /// As the API server is asked for it.
    pub fn attributes(&self) -> ResourceAttributes {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (&*self.resource, None),
        };
        ResourceAttributes {
            verb: Some(self.verb.clone()),
            group: Some(self.group.clone()),
            resource: Some(resource.to_owned()),
            subresource,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        }
    }
}

/// A right that is needed, or instead of it some others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// What is asked for first.
    pub right: Right,
    /// Whoever has all of these needs no more; empty if nothing replaces it.
    pub instead: Vec<Right>,
}

impl From<Right> for Need {
    fn from(right: Right) -> Self {
        let instead = Vec::new();
        Self { right, instead }
    }
}

/// What the controller has to be allowed, as `manifests/base/rbac.yaml` has it.
pub(super) fn of_controller(namespace: &str) -> Vec<Right> {
    let objects = yaml::documents(RBAC).unwrap_or_default();
    objects
        .iter()
        .flat_map(|(_, object)| of_role(object, namespace))
        .collect()
}

/// All that a Role of the Namespace, or a ClusterRole, allows.
fn of_role(role: &Value, namespace: &str) -> Vec<Right> {
    let namespace = (role["kind"] == "Role").then(|| namespace.to_owned());
    let mut rights = Vec::new();
    for rule in items(&role["rules"]) {
        let names: Vec<Option<String>> = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec![None],
            names => names.into_iter().map(Some).collect(),
        };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    rights.extend(names.iter().map(|name| Right {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        namespace: namespace.clone(),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    rights
}

/// What whoever installs first-consumer has to be allowed.
pub(super) fn of_installer(namespace: &str) -> Vec<Need> {
    let applied = INSTALLED.iter().flat_map(|&(group, resource, namespaced)| {
        APPLIED.map(|verb| {
            Need::from(Right {
                verb: verb.to_owned(),
                group: group.to_owned(),
                resource: resource.to_owned(),
                namespace: namespaced.then(|| namespace.to_owned()),
                name: None,
            })
        })
    });
    let objects = yaml::documents(RBAC).unwrap_or_default();
    let objects: Vec<&Value> = objects.iter().map(|(_, object)| object).collect();
    let given = objects.iter().filter_map(|object| giving(object, &objects, namespace));
    applied.chain(given).collect()
}

/// Nobody gives rights that they do not have, unless they may `escalate` the role that holds them, or `bind` it
/// (Kubernetes `pkg/registry/rbac/escalation_check.go`).
fn giving(object: &Value, all: &[&Value], namespace: &str) -> Option<Need> {
    let reference = &object["roleRef"];
    let (verb, role, name) = if reference.is_null() {
        ("escalate", object, None)
    } else {
        let is_meant =
            |role: &&&Value| role["kind"] == reference["kind"] && role["metadata"]["name"] == reference["name"];
        let name = reference["name"].as_str().map(str::to_owned);
        ("bind", *all.iter().find(is_meant)?, name)
    };
    let right = Right {
        verb: verb.to_owned(),
        group: "rbac.authorization.k8s.io".to_owned(),
        resource: format!("{}s", role["kind"].as_str()?.to_lowercase()),
        namespace: object["metadata"]["namespace"]
            .is_string()
            .then(|| namespace.to_owned()),
        name,
    };
    let instead = of_role(role, namespace);
    Some(Need { right, instead })
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    items(value)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_controllers_rights_are_those_of_the_manifest() {
        let rights = of_controller("ns");
        let shown: Vec<String> = rights.iter().map(Right::to_string).collect();
        for right in [
            "list virtualmachines.kubevirt.io",
            "get virtualmachines/expand-spec.subresources.kubevirt.io",
            "create pods",
            "patch leases.coordination.k8s.io",
        ] {
            assert!(shown.iter().any(|shown| shown == right), "{right} is not in {shown:?}");
        }
        let lease = |right: &&Right| right.resource == "leases" && right.verb != "create";
        let lease = rights.iter().find(lease).expect("the Lease");
        assert_eq!(
            [lease.namespace.as_deref(), lease.name.as_deref()],
            [Some("ns"), Some("first-consumer")]
        );
        assert!(
            rights
                .iter()
                .all(|right| right.resource != "pods" || right.namespace.is_none())
        );
        let expand = rights.iter().find(|right| right.verb == "get").expect("expand-spec");
        assert_eq!(expand.attributes().subresource.as_deref(), Some("expand-spec"));
    }

    /// Whoever installs it gives the controller its rights.
    #[test]
    fn an_installer_may_escalate_and_bind_or_has_the_rights_of_the_controller() {
        let needs = of_installer("ns");
        let giving: Vec<&Need> = needs.iter().filter(|need| !need.instead.is_empty()).collect();
        let shown: Vec<_> = giving
            .iter()
            .map(|Need { right, .. }| (right.to_string(), right.namespace.as_deref(), right.name.as_deref()))
            .collect();
        let [cluster, own] = ["clusterroles", "roles"].map(|kind| format!("{kind}.rbac.authorization.k8s.io"));
        let expected = [
            (format!("escalate {cluster}"), None, None),
            (format!("bind {cluster}"), None, Some("first-consumer")),
            (format!("escalate {own}"), Some("ns"), None),
            (format!("bind {own}"), Some("ns"), Some("first-consumer-lease")),
        ];
        assert_eq!(shown, expected);
        let [cluster, bind_cluster, own, bind_own] = &*giving else {
            panic!("{giving:?}");
        };
        let both = [&*cluster.instead, &*own.instead].concat();
        assert_eq!(both, of_controller("ns"));
        assert_eq!(
            [&cluster.instead, &own.instead],
            [&bind_cluster.instead, &bind_own.instead]
        );
        let applied = needs.iter().map(|need| need.right.to_string());
        assert_eq!(applied.filter(|right| right.ends_with(" namespaces")).count(), 3);
    }

    #[test]
    fn an_installer_creates_every_kind_of_the_manifests() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/base");
        let mut kinds = BTreeSet::new();
        for entry in std::fs::read_dir(folder).expect("the folder") {
            let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("readable");
            for (_, object) in yaml::documents(&text).expect("YAML") {
                let kind = object["kind"].as_str().expect("a kind").to_lowercase();
                kinds.insert(match (kind.strip_suffix('y'), kind.ends_with('s')) {
                    (Some(stem), _) => format!("{stem}ies"),
                    (None, true) => format!("{kind}es"),
                    (None, false) => format!("{kind}s"),
                });
            }
        }
        kinds.remove("kustomizations");
        let installed = INSTALLED.map(|(_, resource, _)| resource.to_owned());
        assert_eq!(kinds, BTreeSet::from(installed));
    }
}

//! What the controller's account, and whoever installs first-consumer, has to be allowed.

use std::fmt;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use serde_json::Value;

use crate::yaml;

/// What is shipped is what is needed: a scenario shows that the controller gets along with it.
const RBAC: &str = include_str!("../../../manifests/base/rbac.yaml");

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

/// What the controller has to be allowed, as `manifests/base/rbac.yaml` has it.
pub(super) fn of_controller(namespace: &str) -> Vec<Right> {
    let mut rights = Vec::new();
    for (_, object) in yaml::documents(RBAC).unwrap_or_default() {
        let namespace = (object["kind"] == "Role").then(|| namespace.to_owned());
        for rule in items(&object["rules"]) {
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
    }
    rights
}

/// What whoever installs first-consumer has to be allowed.
pub(super) fn of_installer(namespace: &str) -> Vec<Right> {
    let right = |&(group, resource, namespaced): &(&str, &str, bool)| Right {
        verb: "create".to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespaced.then(|| namespace.to_owned()),
        name: None,
    };
    INSTALLED.iter().map(right).collect()
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

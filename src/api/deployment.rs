//! Deployments, of which `check` reads those that run first-consumer.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// The label of those that run first-consumer, as they are shipped.
pub const OUR_LABEL: (&str, &str) = ("app.kubernetes.io/name", "first-consumer");

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    ready_replicas: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Spec {
    replicas: Option<i32>,
    template: Template,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Template {
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    service_account_name: Option<Arc<str>>,
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Container {
    args: Vec<Arc<str>>,
    env: Vec<Variable>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Variable {
    name: Arc<str>,
    value: Option<Arc<str>>,
}

view!(Deployment, "apps", "v1", "Deployment", "deployments", namespaced: true);

impl Deployment {
    /// How many replicas there should be.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// How many are ready.
    #[must_use]
    pub fn ready_replicas(&self) -> i32 {
        self.status.ready_replicas.unwrap_or_default()
    }

    /// The account of its pods.
    #[must_use]
    pub fn service_account(&self) -> &str {
        self.spec
            .template
            .spec
            .service_account_name
            .as_deref()
            .unwrap_or("default")
    }

    /// The value of a flag such as `watch-namespace`, from the arguments or, as first-consumer reads it, the environment.
    #[must_use]
    pub fn flag(&self, name: &str) -> Option<&str> {
        let variable = format!("FIRST_CONSUMER_{}", name.replace('-', "_").to_uppercase());
        self.spec.template.spec.containers.iter().find_map(|container| {
            let mut args = container.args.iter();
            let given = args.find_map(|arg| arg.strip_prefix("--")?.strip_prefix(name));
            let argument = match given {
                Some("") => args.next().map(|next| &**next),
                Some(value) => value.strip_prefix('='),
                None => None,
            };
            let mut variables = container.env.iter().filter(|candidate| *candidate.name == *variable);
            argument.or_else(|| variables.find_map(|variable| variable.value.as_deref()))
        })
    }

    /// Whether a flag such as `leader-elect` is on, which is also without a value.
    #[must_use]
    pub fn switch(&self, name: &str) -> bool {
        let containers = &self.spec.template.spec.containers;
        let mut args = containers.iter().flat_map(|container| &container.args);
        args.any(|arg| arg.strip_prefix("--") == Some(name)) || self.flag(name) == Some("true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_read_wherever_it_is_given() {
        let deployment = |args: &str, env: &str| -> Deployment {
            let text =
                format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"args":[{args}],"env":[{env}]}}]}}}}}}}}"#);
            serde_json::from_str(&text).expect("a Deployment")
        };
        let variable = r#"{"name":"FIRST_CONSUMER_WATCH_NAMESPACE","value":"b"}"#;
        for (args, env, value) in [
            (r#""run""#, "", None),
            (r#""run","--watch-namespace","a""#, variable, Some("a")),
            (r#""run","--watch-namespace=a""#, "", Some("a")),
            (r#""run""#, variable, Some("b")),
        ] {
            assert_eq!(deployment(args, env).flag("watch-namespace"), value, "{args} {env}");
        }
        let variable = r#"{"name":"FIRST_CONSUMER_LEADER_ELECT","value":"true"}"#;
        for (args, env, on) in [
            (r#""run""#, "", false),
            (r#""run""#, variable, true),
            (r#""run","--leader-elect""#, "", true),
            (r#""run","--leader-elect","--create-rate=9""#, "", true),
            (r#""run","--leader-elect=false""#, variable, false),
        ] {
            assert_eq!(deployment(args, env).switch("leader-elect"), on, "{args} {env}");
        }
    }
}

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
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Spec {
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
    }
}

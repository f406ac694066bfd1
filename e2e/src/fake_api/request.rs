//! What a request asks for, read from its method and its address.

use std::collections::BTreeMap;

use hyper::{Method, Uri};
use serde_json::Value;

use super::failure::Failure;
use crate::stand_in::kind::Kind;

/// A request for one of the known kinds.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The API server's word: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: &'static str,
    /// The kind.
    pub kind: Kind,
    /// Empty for kinds without namespaces and for requests over all of them.
    pub namespace: String,
    /// Empty for lists, watches and creates.
    pub name: String,
    /// `status`, or empty.
    pub subresource: String,
    query: BTreeMap<String, String>,
}

impl Asked {
    /// Reads it. A kind that is not known is not found, as a kind without CRD.
    pub fn read(method: &Method, uri: &Uri) -> Result<Self, Failure> {
        let query: BTreeMap<String, String> = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
        let unknown = || Failure::new(404, "the server could not find the requested resource");
        let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match &parts[..] {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(unknown()),
        };
        let (namespace, plural, rest) = match rest {
            ["namespaces", namespace, plural, rest @ ..] if *plural != "status" => (*namespace, *plural, rest),
            [plural, rest @ ..] => ("", *plural, rest),
            [] => return Err(unknown()),
        };
        let kind = Kind::of_path(group, version, plural).ok_or_else(unknown)?;
        let (name, subresource) = match rest {
            [] => ("", ""),
            [name] => (*name, ""),
            [name, subresource] => (*name, *subresource),
            _ => return Err(unknown()),
        };
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            Method::GET if query.get("watch").is_some_and(|watch| watch == "true") => "watch",
            Method::GET if name.is_empty() => "list",
            Method::GET => "get",
            _ => {
                return Err(Failure::new(
                    405,
                    "the server does not allow this method on the requested resource",
                ));
            }
        };
        let named = matches!(verb, "get" | "update" | "patch" | "delete") || !subresource.is_empty();
        if name.is_empty() == named {
            return Err(Failure::new(
                405,
                "the server does not allow this method on the requested resource",
            ));
        }
        Ok(Self {
            verb,
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
            query,
        })
    }

    /// A parameter of the query that is not empty.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// A parameter that is a number.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let number = |text: &str| {
            let invalid = |_| Failure::new(400, format!("{name}: Invalid value: \"{text}\""));
            text.parse().map_err(invalid)
        };
        self.parameter(name).map(number).transpose()
    }

    /// The labels and fields that are asked for.
    #[must_use]
    pub fn selector(&self) -> Selector {
        let terms = |name| self.parameter(name).into_iter().flat_map(|text| text.split(','));
        Selector {
            labels: terms("labelSelector").map(Term::read).collect(),
            fields: terms("fieldSelector").map(Term::read).collect(),
        }
    }
}

/// Which objects a list or watch is about.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    labels: Vec<Term>,
    fields: Vec<Term>,
}

/// `key=value`, `key==value`, `key!=value`, `key` or `!key`; sets are not understood.
#[derive(Clone, Debug)]
struct Term {
    key: String,
    /// Without a value the key's existence counts.
    value: Option<String>,
    equal: bool,
}

impl Term {
    fn read(text: &str) -> Self {
        let (key, value, equal) = if let Some((key, value)) = text.split_once("!=") {
            (key, Some(value), false)
        } else if let Some((key, value)) = text.split_once('=') {
            (key, Some(value.trim_start_matches('=')), true)
        } else {
            (text.trim_start_matches('!'), None, !text.starts_with('!'))
        };
        Self {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            equal,
        }
    }

    fn holds(&self, found: Option<&str>) -> bool {
        let same = match &self.value {
            Some(value) => found == Some(value),
            None => found.is_some(),
        };
        same == self.equal
    }
}

impl Selector {
    /// Whether an object is meant.
    #[must_use]
    pub fn takes(&self, object: &Value) -> bool {
        let label = |term: &Term| term.holds(object["metadata"]["labels"][&term.key].as_str());
        let field = |term: &Term| {
            let pointer = format!("/{}", term.key.replace('.', "/"));
            term.holds(Some(
                object.pointer(&pointer).and_then(Value::as_str).unwrap_or_default(),
            ))
        };
        self.labels.iter().all(label) && self.fields.iter().all(field)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(method: &Method, uri: &str) -> Result<Asked, u16> {
        Asked::read(method, &uri.parse().unwrap()).map_err(|failure| failure.code)
    }

    #[test]
    fn a_request_is_read_as_the_api_server_does() {
        let asked = read(&Method::GET, "/api/v1/pods?limit=250&watch=true&labelSelector=a%3Db").unwrap();
        assert_eq!((asked.verb, asked.kind, &*asked.namespace), ("watch", Kind::Pod, ""));
        assert_eq!(asked.number("limit"), Ok(Some(250)));
        let asked = read(
            &Method::PATCH,
            "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/db/status",
        )
        .unwrap();
        assert_eq!(
            (
                asked.verb,
                asked.kind,
                &*asked.namespace,
                &*asked.name,
                &*asked.subresource
            ),
            ("patch", Kind::VirtualMachine, "ns", "db", "status")
        );
        let namespace = read(&Method::GET, "/api/v1/namespaces/ns").unwrap();
        assert_eq!((namespace.kind, &*namespace.name), (Kind::Namespace, "ns"));
        assert_eq!(
            read(&Method::GET, "/apis/kubevirt.io/v2/virtualmachines").unwrap_err(),
            404
        );
        assert_eq!(read(&Method::DELETE, "/api/v1/namespaces/ns/pods").unwrap_err(), 405);
    }

    #[test]
    fn labels_and_fields_select() {
        let object = json!({"metadata": {"name": "db", "labels": {"a": "b"}}});
        let takes = |query: &str| {
            let asked = read(&Method::GET, &format!("/api/v1/pods?{query}")).unwrap();
            asked.selector().takes(&object)
        };
        assert!(
            takes("labelSelector=a") && takes("labelSelector=a%3D%3Db,!c") && takes("fieldSelector=metadata.name%3Ddb")
        );
        assert!(
            !takes("labelSelector=a!%3Db") && !takes("labelSelector=c") && !takes("fieldSelector=metadata.name%3Dx")
        );
    }
}

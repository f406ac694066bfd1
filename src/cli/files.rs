//! Files (and stdin) into the index: what a cluster would tell, from texts.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Failure;
use crate::api::{Beside, CustomResourceDefinition, Event, Lease, View, VirtualMachine, VirtualMachineInstance};
use crate::index::{Index, Indexed, Kinds, kinds};
use crate::placement::{self, Refusal};
use crate::yaml::{self, SyntaxError};

/// Something that can't be read, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which document of the text, from 1.
    pub document: usize,
    /// The object, such as `VirtualMachine web`, if it is known.
    pub object: Option<String>,
    /// The field, such as `spec.template.spec.domain.cpu.cores`, if it is one.
    pub path: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {}", self.document)?;
        if let Some(object) = &self.object {
            write!(f, " ({object})")?;
        }
        if let Some(path) = &self.path {
            write!(f, ": {path}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Reads files into a new index; `-` is stdin. An object without a Namespace is in `namespace`. Nothing is returned if
/// anything can't be read.
pub fn load(files: &[PathBuf], namespace: &str) -> Result<(Index, Beside), Failure> {
    let (mut index, mut beside) = (Index::default(), Beside::default());
    for file in files {
        let name = if file == Path::new("-") {
            "stdin".into()
        } else {
            file.to_string_lossy()
        };
        let unreadable = |error: &dyn fmt::Display| Failure::unusable(format!("{name}: {error}"));
        let mut text = String::new();
        if file == Path::new("-") {
            std::io::stdin().read_to_string(&mut text).map(drop)
        } else {
            std::fs::read_to_string(file).map(|read| text = read)
        }
        .map_err(|error| unreadable(&error))?;
        read_all(&mut index, &mut beside, &text, namespace).map_err(|error| unreadable(&error))?;
    }
    if !beside.definitions.is_empty() {
        kinds(&mut Defined {
            index: &mut index,
            definitions: &beside.definitions,
        });
    }
    Ok((index, beside))
}

/// Files that hold CustomResourceDefinitions say which kinds there are.
struct Defined<'a> {
    index: &'a mut Index,
    definitions: &'a [CustomResourceDefinition],
}

impl Kinds for Defined<'_> {
    fn visit<V: Indexed>(&mut self) {
        let name = format!("{}.{}", V::PLURAL, V::GROUP);
        let built_in = V::GROUP.is_empty() || V::GROUP.ends_with(".k8s.io");
        let mut definitions = self.definitions.iter();
        let exists = built_in || definitions.any(|definition| *definition.meta().name == *name);
        self.index.note_kind::<V>(exists);
    }
}

/// Reads a text into an index. Kinds that are not watched are ignored, and so are unknown fields.
pub fn read(index: &mut Index, text: &str, namespace: &str) -> Result<(), Unreadable> {
    read_all(index, &mut Beside::default(), text, namespace)
}

/// As [`read`], and what `explain` reads beside.
pub fn read_all(index: &mut Index, beside: &mut Beside, text: &str, namespace: &str) -> Result<(), Unreadable> {
    let documents = yaml::documents(text).map_err(|SyntaxError { document, message }| Unreadable {
        document,
        object: None,
        path: None,
        message,
    })?;
    let known = (
        beside.events.iter().flatten().count(),
        beside.leases.iter().flatten().count(),
    );
    for (document, value) in documents {
        Reader {
            index: &mut *index,
            beside: &mut *beside,
            namespace,
            document,
        }
        .object(value, "", None)?;
    }
    date(beside, known);
    Ok(())
}

/// Tells the Leases of a text when they were read: not before anything that the same text has seen. `known` is how many
/// Events and Leases are from other texts, which may be of another time.
fn date(beside: &mut Beside, (events, leases): (usize, usize)) {
    let seen = beside.events.iter().flatten().skip(events).filter_map(Event::last);
    let renewed = beside.leases.iter().flatten().skip(leases).filter_map(Lease::renewed);
    let read_at = seen.chain(renewed).max();
    for lease in beside.leases.iter_mut().flatten().skip(leases) {
        lease.read_at = read_at;
    }
}

struct Reader<'a> {
    index: &'a mut Index,
    beside: &'a mut Beside,
    namespace: &'a str,
    document: usize,
}

impl Reader<'_> {
    /// One object, or the items of a list. `prefix` is the path to it; `listed` the version and kind that an item of a
    /// typed list leaves out.
    fn object(&mut self, mut object: Value, prefix: &str, listed: Option<(&str, &str)>) -> Result<(), Unreadable> {
        let fault = |path: &str, message: &str| Unreadable {
            document: self.document,
            object: None,
            path: (!path.is_empty()).then(|| path.to_owned()),
            message: message.to_owned(),
        };
        if !object.is_object() {
            return Err(fault(prefix.trim_end_matches('.'), "not a Kubernetes object"));
        }
        let text = |field: &str| object.get(field).and_then(Value::as_str).map(str::to_owned);
        let kind = text("kind").or_else(|| Some(listed?.1.to_owned()));
        let version = text("apiVersion").or_else(|| Some(listed?.0.to_owned()));
        let kind = kind.ok_or_else(|| fault(&format!("{prefix}kind"), "missing"))?;
        let version = version.ok_or_else(|| fault(&format!("{prefix}apiVersion"), "missing"))?;
        if let Some(item) = kind.strip_suffix("List")
            && let Some(Value::Array(items)) = object.get_mut("items").map(Value::take)
        {
            let listed = (!item.is_empty()).then_some((&*version, item));
            for (position, object) in items.into_iter().enumerate() {
                self.object(object, &format!("{prefix}items[{position}]."), listed)?;
            }
            return Ok(());
        }
        let mut one = One {
            index: &mut *self.index,
            beside: &mut *self.beside,
            namespace: self.namespace,
            group: version.split_once('/').map_or("", |(group, _)| group),
            kind: &kind,
            object,
            fault: None,
        };
        kinds(&mut one);
        one.look_beside();
        one.fault.map_or(Ok(()), |Fault { name, path, message }| {
            Err(Unreadable {
                document: self.document,
                object: Some(format!("{kind} {name}")),
                path: Some(format!("{prefix}{path}")),
                // Line and column are those of our own JSON, not of the file.
                message: message.split(" at line ").next().unwrap_or_default().to_owned(),
            })
        })
    }
}

/// One object that is offered to each kind.
struct One<'a> {
    index: &'a mut Index,
    beside: &'a mut Beside,
    namespace: &'a str,
    group: &'a str,
    kind: &'a str,
    object: Value,
    fault: Option<Fault>,
}

struct Fault {
    name: String,
    path: String,
    message: String,
}

impl Kinds for One<'_> {
    fn visit<V: Indexed>(&mut self) {
        if let Some(view) = self.view::<V>() {
            match self.check_spec() {
                Ok(()) => drop(self.index.apply(view)),
                Err(found) => self.blame(found),
            }
        }
    }
}

impl One<'_> {
    fn look_beside(&mut self) {
        if let Some(event) = self.view() {
            self.beside.events.get_or_insert_default().push(event);
        }
        if let Some(config) = self.view() {
            self.beside.cdi_configs.get_or_insert_default().push(config);
        }
        let lease = self.view();
        self.beside.leases.get_or_insert_default().extend(lease);
        let definition = self.view();
        self.beside.definitions.extend(definition);
    }

    /// The object as one of this kind, if it is one and can be read.
    fn view<V: View>(&mut self) -> Option<V> {
        if (self.group, self.kind) != (V::GROUP, V::KIND) {
            return None;
        }
        match self.decode() {
            Ok(view) => Some(view),
            Err(found) => {
                self.blame(found);
                None
            }
        }
    }

    fn blame(&mut self, (path, message): (String, String)) {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.fault = Some(Fault { name, path, message });
    }

    fn decode<V: View>(&mut self) -> Result<V, (String, String)> {
        if let (true, Some(Value::Object(metadata))) = (V::NAMESPACED, self.object.get_mut("metadata")) {
            metadata.entry("namespace").or_insert_with(|| json!(self.namespace));
        }
        // From text: a view may keep raw text, which no value can give.
        let text = self.object.to_string();
        let view: V = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(&text))
            .map_err(|error| (error.path().to_string(), error.into_inner().to_string()))?;
        if view.meta().name.is_empty() {
            return Err(("metadata.name".to_owned(), "missing".to_owned()));
        }
        Ok(view)
    }

    /// The spec of a VM or VMI stays text in its view, so it is read here.
    fn check_spec(&self) -> Result<(), (String, String)> {
        let (spec, prefix) = match self.kind {
            VirtualMachine::KIND => (self.object.pointer("/spec/template"), "spec.template.spec"),
            VirtualMachineInstance::KIND => (Some(&self.object), "spec"),
            _ => return Ok(()),
        };
        let spec = spec.and_then(|of| of.get("spec")).unwrap_or(&Value::Null);
        match placement::check(&spec.to_string()) {
            Err(Refusal::Unreadable { path, message }) => Err((format!("{prefix}.{path}"), message)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

//! One vector: a situation, and what KubeVirt made of it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use first_consumer::cli::{files, render};
use first_consumer::index::Index;
use first_consumer::pod::Settings;
use serde::Deserialize as _;
use serde_json::{Map, Value};

/// What is rendered: the VM of the file, or the VMI that KubeVirt makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file as it is.
    Vm,
    /// The VMI of the expected file, and what else is in the file.
    Vmi,
}

impl Source {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vm => "VM",
            Self::Vmi => "VMI",
        }
    }
}

/// A pair of files.
pub struct Vector {
    /// The file's name without its ending.
    pub name: String,
    /// The situation as text.
    text: String,
    /// Its objects.
    pub objects: Vec<Value>,
    expected: Value,
}

impl Vector {
    /// The vectors of a folder, by name.
    pub fn all(folder: &Path) -> Result<Vec<Arc<Self>>> {
        let mut names = Vec::new();
        for file in fs::read_dir(folder)? {
            let name = file?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".expected.json").map(str::to_owned));
        }
        ensure!(!names.is_empty(), "there is no vector");
        names.sort_unstable();
        names
            .iter()
            .map(|name| Ok(Arc::new(Self::read(folder, name)?)))
            .collect()
    }

    /// The vector of a name.
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        let text = |ending: &str| {
            let file = folder.join(format!("{name}.{ending}"));
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
        };
        let situation = text("yaml")?;
        let objects = serde_yaml::Deserializer::from_str(&situation).map(Value::deserialize);
        Ok(Self {
            objects: objects.collect::<Result<_, _>>()?,
            text: situation.clone(),
            expected: serde_json::from_str(&text("expected.json")?)?,
            name: name.to_owned(),
        })
    }

    /// Whether it can be rendered from there. A VM with an instancetype has to be expanded by virt-api first.
    pub fn has(&self, source: Source) -> bool {
        match source {
            Source::Vm => {
                let needs = |vm: &Value| {
                    vm["spec"]
                        .get("instancetype")
                        .or(vm["spec"].get("preference"))
                        .is_some()
                };
                !self.objects.iter().any(needs)
            }
            Source::Vmi => self.expected.get("virtualMachineInstance").is_some(),
        }
    }

    /// Renders it and compares.
    pub fn check(&self, source: Source) -> Result<()> {
        let text = match source {
            Source::Vm => self.text.clone(),
            Source::Vmi => {
                let others = self.objects.iter().filter(|object| !subject(object));
                join(others.chain([&self.expected["virtualMachineInstance"]]))
            }
        };
        match (placement(&text), self.expected.get("placement")) {
            (Ok(rendered), Some(expected)) => compare(&rendered, expected),
            (Err(_), None) => Ok(()),
            (Ok(_), None) => anyhow::bail!("KubeVirt refuses this: {}", self.expected["error"]),
            (Err(refused), Some(_)) => Err(refused),
        }
    }
}

/// Whether an object is what is rendered.
pub fn subject(object: &Value) -> bool {
    matches!(
        object["kind"].as_str(),
        Some("VirtualMachine" | "VirtualMachineInstance")
    )
}

/// Objects as one text.
pub fn join<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    objects.map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// What `render -o placement` prints for the only subject in a text.
pub fn placement(text: &str) -> Result<Value> {
    let mut index = Index::default();
    files::read(&mut index, text, "default").map_err(|error| anyhow::anyhow!("{error}"))?;
    let rendered = render::render(
        &index,
        &render::subjects(&index),
        &render::Expansions::new(),
        &Settings::default(),
        render::Output::Placement,
    );
    ensure!(rendered.refused.is_empty(), "{}", rendered.refused.join("; "));
    Ok(serde_json::from_str(&rendered.text)?)
}

/// All keys but labels and annotations: amounts as numbers, claims as a set, everything else as it is.
fn compare(rendered: &Value, expected: &Value) -> Result<()> {
    let fields = |value: &Value| {
        let mut fields = value.as_object().cloned().unwrap_or_default();
        fields.retain(|name, _| !matches!(name.as_str(), "labels" | "annotations"));
        fields
    };
    let (mut rendered, mut expected) = (fields(rendered), fields(expected));
    for list in ["requests", "limits"] {
        let amounts = |of: &mut Map<String, Value>| -> Result<BTreeMap<String, i64>> {
            let list = of.remove(list).unwrap_or_default();
            let list = list.as_object().cloned().unwrap_or_default();
            list.iter()
                .map(|(name, amount)| Ok((name.clone(), number(amount)?)))
                .collect()
        };
        let (rendered, expected) = (amounts(&mut rendered)?, amounts(&mut expected)?);
        ensure!(rendered == expected, "{list}: {rendered:?} instead of {expected:?}");
    }
    for fields in [&mut rendered, &mut expected] {
        if let Some(Value::Array(claims)) = fields.get_mut("claims") {
            claims.sort_by_key(Value::to_string);
            claims.dedup();
        }
    }
    ensure!(
        rendered == expected,
        "{} instead of {}",
        Value::Object(rendered.clone()),
        Value::Object(expected)
    );
    Ok(())
}

/// `105m` or `1410731712`; both files use these two forms only.
fn number(amount: &Value) -> Result<i64> {
    let text = amount.as_str().context("an amount that is no text")?;
    Ok(text.trim_end_matches('m').parse()?)
}

/// How many of how many came out equal.
#[derive(Default)]
pub struct Tally {
    equal: AtomicUsize,
    all: AtomicUsize,
}

impl Tally {
    /// Counts one.
    pub fn count<E>(&self, check: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        self.all.fetch_add(1, Ordering::Relaxed);
        check()?;
        self.equal.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        write!(f, "{}/{}", count(&self.equal), count(&self.all))
    }
}

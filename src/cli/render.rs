//! `first-consumer render`: the first-consumer pod of a VM, from files or from a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::connection::Connection;
use super::{Failure, PodFlags, files, names};
use crate::cluster::expand::expand_for;
use crate::cluster::snapshot::{Skipped, Snapshot};
use crate::index::Index;
use crate::lifecycle::State;
use crate::memory::Expanding;
use crate::name::Key;
use crate::observe::{self, Expanded, observe};
use crate::peers::Peers;
use crate::placement::Placement;
use crate::pod::{Blueprint, Settings, build};
use crate::policy::{MadeFor, Policy};
use crate::quantity::Quantity;
use crate::reason::Reason;
use crate::yaml;

/// Flags of `render`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  first-consumer render vm/db                   # the pod that the controller would make for this VM
  first-consumer render -f vm.yaml              # of a manifest, without a cluster
  first-consumer render -f vm.yaml -o placement # only where it may run and what it asks for

How pods look is said by flags of the controller. Give the same ones here: the shipped
Deployment has --halted-priority-class=first-consumer-halted.

Exit code: 0 printed; 1 KubeVirt would refuse one of the VMs.")]
pub struct Render {
    /// VMs or VMIs of the cluster: vm/NAME, vmi/NAME, or vm NAME.
    #[arg(value_name = "SUBJECT", required_unless_present = "file", conflicts_with = "file")]
    pub subjects: Vec<String>,
    /// Files with VMs or VMIs and what is around them (KubeVirt object, claims, quotas, ...), YAML or JSON; - is stdin.
    #[arg(short = 'f', long = "filename", id = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What to print: the pod as YAML or JSON, or only what it asks the scheduler for.
    #[arg(short, long, default_value = "yaml")]
    pub output: Output,
    /// How the pods look.
    #[command(flatten)]
    pub pod: PodFlags,
    /// The cluster.
    #[command(flatten)]
    pub connection: Connection,
}

/// What `render` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Pods as YAML documents.
    Yaml,
    /// A pod as JSON; several as a List.
    Json,
    /// Placements as JSON: CPU in millicores, the rest in plain units.
    Placement,
}

/// What `render` has to say: the text for stdout, and why some subjects are not in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// For stdout.
    pub text: String,
    /// One line a subject that can't be rendered.
    pub refused: Vec<String>,
    /// One line an object of the cluster that can't be read.
    pub unreadable: Vec<String>,
}

/// Runs `render`.
pub async fn run(flags: &Render) -> Result<Rendered, Failure> {
    let settings = flags.pod.settings();
    if flags.files.is_empty() {
        let (Snapshot { index, unreadable }, subjects, expanded) = from_cluster(flags).await?;
        return Ok(Rendered {
            unreadable: unreadable.iter().map(Skipped::to_string).collect(),
            ..render(&index, &subjects, &expanded, &settings, flags.output)
        });
    }
    let (index, _) = files::load(&flags.files, flags.connection.file_namespace())?;
    let subjects = subjects(&index);
    if subjects.is_empty() {
        return Err(Failure::unusable(
            "there is no VirtualMachine and no VirtualMachineInstance in the input",
        ));
    }
    Ok(render(&index, &subjects, &Expansions::new(), &settings, flags.output))
}

/// Every VM and VMI of an index.
#[must_use]
pub fn subjects(index: &Index) -> BTreeSet<Key> {
    let all = index.subjects().into_iter();
    all.filter(|subject| index.vm(subject).is_some() || index.vmi(subject).is_some())
        .collect()
}

/// What virt-api has made of the templates that name an instancetype or preference.
pub type Expansions = BTreeMap<Key, Expanded>;

async fn from_cluster(flags: &Render) -> Result<(Snapshot, BTreeSet<Key>, Expansions), Failure> {
    let named = names::parse(&flags.subjects, names::SUBJECTS)?;
    let (client, namespace, limit) = flags.connection.open().await?;
    let snapshot = flags
        .connection
        .snapshot(&client, Some(&namespace), limit, |_| true)
        .await?;
    names::readable(&snapshot.unreadable, &namespace, &named)?;
    let index = &snapshot.index;
    let subjects = names::find(index, &namespace, &named)?;
    let mut expanded = Expansions::new();
    for subject in &subjects {
        let Some((vm, inputs)) = observe::unexpanded(index, subject) else {
            continue;
        };
        let forbidden = |error| Failure::cluster(format!("{subject}: no expand-spec: {error}"));
        let template = match expand_for(&client, vm, limit).await.map_err(forbidden)? {
            Expanding::Expanded(template) => *template,
            Expanding::Refused(text) => return Err(Failure::refused(format!("{subject} cannot be expanded: {text}"))),
            Expanding::Unanswered(text) => return Err(Failure::cluster(format!("{subject}: no expand-spec: {text}"))),
        };
        expanded.insert(subject.clone(), Expanded { inputs, template });
    }
    Ok((snapshot, subjects, expanded))
}

/// Renders subjects of an index, in their order. `settings` say how the pods look.
#[must_use]
pub fn render(
    index: &Index,
    subjects: &BTreeSet<Key>,
    expanded: &Expansions,
    settings: &Settings,
    output: Output,
) -> Rendered {
    let mut values = Vec::new();
    let mut refused = Vec::new();
    for subject in subjects {
        let expanded = expanded.get(subject);
        let value = observe::placement(index, subject, expanded).map(|placement| match output {
            Output::Placement => shown(&placement),
            Output::Yaml | Output::Json => pod(index, subject, expanded, &placement, settings),
        });
        match value {
            Ok(value) => values.push(value),
            Err(refusal) => refused.push(format!("{subject} cannot be rendered: {refusal}")),
        }
    }
    let text = match (output, &*values) {
        (_, []) => String::new(),
        (Output::Yaml, values) => yaml::text(values),
        (Output::Json | Output::Placement, [value]) => format!("{value:#}\n"),
        (Output::Json | Output::Placement, values) => {
            format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "items": values}))
        }
    };
    Rendered {
        text,
        refused,
        unreadable: Vec::new(),
    }
}

fn pod(index: &Index, subject: &Key, expanded: Option<&Expanded>, placement: &Placement, settings: &Settings) -> Value {
    let observed = observe(index, subject, Policy::default(), expanded);
    let Some(owner) = &observed.owner else {
        return Value::Null;
    };
    build(&Blueprint {
        subject,
        owner,
        made_for: if observed.state == State::Halted {
            MadeFor::Halted
        } else {
            MadeFor::Started
        },
        labels: &observed.labels,
        placement,
        domains: &Peers::of(index, subject, true).domains,
        claims: &observed.listed(),
        reason: Reason::FirstConsumerNeeded,
        attempt: 1,
        settings,
    })
}

/// A placement as `-o placement` prints it: pod fields, then requests, limits and claims.
#[must_use]
pub fn shown(placement: &Placement) -> Value {
    let amount = |(name, amount): (&String, &Quantity)| {
        let text = if name == "cpu" {
            format!("{}m", amount.milli_value())
        } else {
            amount.value().to_string()
        };
        (name.clone(), Value::String(text))
    };
    let amounts = |list: &std::collections::BTreeMap<String, Quantity>| list.iter().map(amount).collect::<Map<_, _>>();
    let mut shown = json!(placement);
    shown["requests"] = Value::Object(amounts(&placement.requests));
    shown["limits"] = Value::Object(amounts(&placement.limits));
    shown["claims"] = json!(placement.claims);
    shown
}

#[cfg(test)]
mod tests;

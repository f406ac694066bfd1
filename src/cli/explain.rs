//! `first-consumer explain`: what a VM's disks wait for, from a cluster or from files; one cause and one next step.

mod account;
mod cause;
mod controller;
mod decided;
mod filling;
mod scheduler;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::connection::Connection;
use super::names::{self, SUBJECTS_AND_DISKS};
use super::{Failure, files, layout};
use crate::api::{
    Beside, CdiConfig, ClaimPhase, DataVolume, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    StorageClass, View as _, VirtualMachine, VirtualMachineInstance,
};
use crate::cluster::expand::expand_for;
use crate::cluster::snapshot::{self, Skipped, Snapshot};
use crate::diagnose::Evidence;
use crate::index::{Index, Indexed, Kinds, kinds};
use crate::memory::Memory;
use crate::name::Key;
use crate::observe;
use crate::yaml;

use controller::Controller;

pub use account::Account;

/// How long what an Event says counts.
const SPOKEN_FOR: Duration = Duration::from_hours(1);

/// Flags of `explain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  first-consumer explain vm/db                  # one VM: its disks, one cause, one next step
  first-consumer explain dv/db-root             # the VM that uses this DataVolume
  first-consumer explain -A                     # all VMs that wait, in all Namespaces
  kubectl get vm,vmi,dv,pvc,pods,events,quota -n prod -o yaml > prod.yaml
  kubectl get ns,nodes,sc,pv,kubevirt,cdiconfig,lease -A -o yaml > around.yaml
  first-consumer explain vm/db -f prod.yaml -f around.yaml    # the same of what was saved

Exit code: 0 nothing waits, or a table; 1 a VM that was named waits, or something fails for it.")]
pub struct Explain {
    /// Whom to explain: vm/NAME, vmi/NAME, or whoever uses dv/NAME or pvc/NAME; vm NAME, too. Without a name: a table of
    /// all that wait.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Files to read instead of a cluster, as `kubectl get ... -o yaml` writes them; - is stdin.
    #[arg(short = 'f', long = "filename", id = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// All Namespaces.
    #[arg(short = 'A', long, conflicts_with = "names")]
    pub all_namespaces: bool,
    /// No heading above the table.
    #[arg(long)]
    pub no_headers: bool,
    /// For programs: one object a VM; a list without a name.
    #[arg(short, long)]
    pub output: Option<Output>,
    /// Namespace of the controller, whose Lease tells its flags.
    #[arg(long, value_name = "NAME", default_value = "first-consumer")]
    pub controller_namespace: String,
    /// The cluster.
    #[command(flatten)]
    pub connection: Connection,
}

/// What `explain` prints for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What `explain` has to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// For stdout.
    pub text: String,
    /// For stderr, one line each.
    pub remarks: Vec<String>,
    /// 1 if somebody was named who waits or for whom something fails.
    pub code: u8,
}

/// All that is known.
#[derive(Debug, Default)]
struct Scene {
    index: Index,
    evidence: Evidence,
    controller: Controller,
    /// Namespace of the controller.
    home: String,
    /// What virt-api has made of templates, in the memories of their subjects.
    memories: BTreeMap<Key, Memory>,
    /// Whose templates whoever asks may not have expanded.
    forbidden: BTreeSet<Key>,
    /// What could not be read beside what is watched, by its plural.
    unread: Vec<&'static str>,
    /// What else has to be said of what is not known.
    remarks: Vec<String>,
}

/// Runs `explain` for whoever looks at stdout now.
pub async fn run(flags: &Explain) -> Result<Explained, Failure> {
    run_at(flags, layout::wants_colour(), Timestamp::now()).await
}

/// Runs `explain` as if it were `now`: what has lasted for how long is counted from there.
pub async fn run_at(flags: &Explain, colour: bool, now: Timestamp) -> Result<Explained, Failure> {
    let names = match &*flags.names {
        [] => Vec::new(),
        words => names::parse(words, SUBJECTS_AND_DISKS)?,
    };
    let (scene, subjects) = if flags.files.is_empty() {
        from_cluster(flags, &names, now).await?
    } else {
        from_files(flags, &names)?
    };
    Ok(explain(&scene, &subjects, flags, colour, now))
}

fn from_files(flags: &Explain, names: &[(names::Kind, String)]) -> Result<(Scene, BTreeSet<Key>), Failure> {
    let (mut index, beside) = files::load(&flags.files, flags.connection.file_namespace())?;
    kinds(&mut LeftOut(&mut index));
    let scene = Scene::new(index, beside, flags, None);
    let all = scene.subjects();
    if all.is_empty() {
        return Err(Failure::unusable(
            "there is no VirtualMachine and no VirtualMachineInstance in the input",
        ));
    }
    let wanted = flags.connection.namespace.as_deref().filter(|_| !flags.all_namespaces);
    let subjects = match (names, wanted) {
        ([], None) => all,
        ([], Some(namespace)) => all.into_iter().filter(|key| *key.namespace == *namespace).collect(),
        (names, Some(namespace)) => names::find(&scene.index, namespace, names)?,
        // In a file the Namespace goes without saying, as long as there is one.
        (names, None) => {
            let namespaces: BTreeSet<_> = all.iter().map(|subject| &subject.namespace).collect();
            let [namespace] = namespaces.into_iter().collect::<Vec<_>>()[..] else {
                let text = "the input has VMs of several Namespaces: name one with --namespace";
                return Err(Failure::unusable(text));
            };
            names::find(&scene.index, namespace, names)?
        }
    };
    Ok((scene, subjects))
}

async fn from_cluster(
    flags: &Explain,
    names: &[(names::Kind, String)],
    now: Timestamp,
) -> Result<(Scene, BTreeSet<Key>), Failure> {
    let (client, namespace, limit) = flags.connection.open().await?;
    let scope = (!flags.all_namespaces).then_some(&*namespace);
    let (snapshot, beside) = tokio::join!(
        flags.connection.snapshot(&client, scope, limit, needed),
        snapshot::beside(&client, scope, &flags.controller_namespace, limit)
    );
    let Snapshot { index, unreadable } = snapshot?;
    let mut scene = Scene {
        remarks: unreadable.iter().map(Skipped::to_string).collect(),
        ..Scene::new(index, beside, flags, Some(now))
    };
    if names.is_empty() {
        let subjects = scene.subjects();
        return Ok((scene, subjects));
    }
    names::readable(&unreadable, &namespace, names)?;
    let subjects = names::find(&scene.index, &namespace, names)?;
    for subject in &subjects {
        let Some((vm, inputs)) = observe::unexpanded(&scene.index, subject) else {
            continue;
        };
        match expand_for(&client, vm, limit).await {
            Ok(outcome) => {
                let memory = scene.memories.entry(subject.clone()).or_default();
                memory.expansion.begin(inputs);
                memory.expansion.end(outcome, now);
            }
            Err(error) => {
                scene.forbidden.insert(subject.clone());
                scene.remarks.push(format!("{subject} is not expanded: {error}"));
            }
        }
    }
    Ok((scene, subjects))
}

/// Notes the kinds that the input has left out: every cluster with VMs that wait has some of them.
struct LeftOut<'a>(&'a mut Index);

impl Kinds for LeftOut<'_> {
    fn visit<V: Indexed>(&mut self) {
        let everywhere = [Namespace::PLURAL, StorageClass::PLURAL, Node::PLURAL].contains(&V::PLURAL);
        let bound = |claim: &Arc<PersistentVolumeClaim>| claim.phase() == ClaimPhase::Bound;
        let volumes = V::PLURAL == PersistentVolume::PLURAL && PersistentVolumeClaim::table(self.0).values().any(bound);
        if (everywhere || volumes) && V::table(self.0).is_empty() {
            self.0.note_unseen::<V>();
        }
    }
}

/// The Events of the last hour, as far as that is known: an API server may keep them longer than the controller says
/// again what lasts. Files are of the time of their last Event at the earliest.
fn latest(mut events: Vec<Event>, now: Option<Timestamp>) -> Vec<Event> {
    let newest = now.or_else(|| events.iter().filter_map(Event::last).max());
    let from = newest.and_then(|newest| newest.checked_sub(SPOKEN_FOR).ok());
    events.retain(|event| event.last().zip(from).is_none_or(|(last, from)| from <= last));
    events
}

/// Whether nothing can be said without a kind. The others live outside the VM's Namespace, where whoever has a VM may
/// not look as a rule.
fn needed(plural: &str) -> bool {
    [
        VirtualMachine::PLURAL,
        VirtualMachineInstance::PLURAL,
        DataVolume::PLURAL,
        PersistentVolumeClaim::PLURAL,
        Pod::PLURAL,
    ]
    .contains(&plural)
}

impl Scene {
    /// `now` is the time if this is of a cluster; what is of files has its own.
    fn new(index: Index, mut beside: Beside, flags: &Explain, now: Option<Timestamp>) -> Self {
        if let Some(now) = now {
            for lease in beside.leases.iter_mut().flatten() {
                lease.read_at = Some(now);
            }
        }
        let unread = [
            (Event::PLURAL, beside.events.is_none()),
            (CdiConfig::PLURAL, beside.cdi_configs.is_none()),
        ];
        let configs = beside.cdi_configs.iter().flatten();
        let config = configs.into_iter().find(|config| &*config.meta().name == "config");
        Self {
            unread: unread
                .into_iter()
                .filter_map(|(plural, unread)| unread.then_some(plural))
                .collect(),
            controller: Controller::read(beside.leases.as_deref(), &flags.controller_namespace),
            home: flags.controller_namespace.clone(),
            evidence: Evidence {
                gate: config.map(CdiConfig::honours_wait_for_first_consumer),
                events: latest(beside.events.unwrap_or_default(), now),
            },
            index,
            memories: BTreeMap::new(),
            forbidden: BTreeSet::new(),
            remarks: Vec::new(),
        }
    }

    fn subjects(&self) -> BTreeSet<Key> {
        super::render::subjects(&self.index)
    }
}

/// Explains subjects: those that are named all, else those that wait.
fn explain(scene: &Scene, subjects: &BTreeSet<Key>, flags: &Explain, colour: bool, now: Timestamp) -> Explained {
    let named = !flags.names.is_empty();
    let mut accounts: Vec<Account> = subjects
        .iter()
        .map(|subject| Account::of(scene, subject, now))
        .collect();
    if !named {
        accounts.retain(|account| !account.fine);
    }
    let text = match flags.output {
        Some(output) => data(&accounts, output, named),
        None if named => text::trees(&accounts, colour),
        None => {
            let namespaces = flags.all_namespaces || flags.connection.namespace.is_none();
            text::table(&accounts, namespaces, !flags.no_headers)
        }
    };
    let nobody = !named && accounts.is_empty() && flags.output.is_none();
    let nobody = nobody.then(|| "no VM waits for its disks".to_owned());
    let needed = |plural: &&&str| accounts.iter().any(|account| account.needs(plural));
    let unread = scene.unread.iter().filter(needed);
    let unseen: Vec<&str> = scene.index.unseen().iter().chain(unread).copied().collect();
    let unseen = (!unseen.is_empty()).then(|| {
        let who = if flags.files.is_empty() {
            "you cannot read"
        } else {
            "the input has no"
        };
        format!("{who} {}: what only they tell is left out", unseen.join(", "))
    });
    // The flags say nothing about whom nothing waits for.
    let waiting = accounts.iter().any(|account| !account.fine);
    let doubt = scene.controller.doubt.as_ref().filter(|_| waiting);
    Explained {
        text,
        remarks: [nobody, unseen, doubt.cloned()]
            .into_iter()
            .flatten()
            .chain(scene.remarks.iter().cloned())
            .collect(),
        code: u8::from(named && waiting),
    }
}

fn data(accounts: &[Account], output: Output, named: bool) -> String {
    let value = match accounts {
        [account] if named => json!(account),
        accounts => json!(accounts),
    };
    match output {
        Output::Json => format!("{value:#}\n"),
        Output::Yaml => yaml::text(&[value]),
    }
}

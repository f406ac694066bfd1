//! What is compared: per object the sequence of its distinct states.

use super::skippable::is_skippable;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

/// One watch event, as a recording holds it.
#[derive(Clone, Debug, Deserialize)]
pub struct Line {
    /// ADDED, MODIFIED or DELETED.
    #[serde(rename = "type")]
    pub what: String,
    /// The object.
    pub object: Value,
}

impl Line {
    /// The object's kind.
    pub fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Terminating, or gone.
    pub fn is_dying(&self) -> bool {
        self.what == "DELETED" || self.object["metadata"]["deletionTimestamp"].is_string()
    }

    /// Name of the controller owner.
    pub fn owner(&self) -> Option<&str> {
        let owners = self.object["metadata"]["ownerReferences"].as_array()?;
        owners.iter().find(|owner| owner["controller"] == true)?["name"].as_str()
    }
}

/// States by object, in order, without those that may be skipped.
pub type States = BTreeMap<String, Vec<String>>;

/// Collects states from lines.
#[derive(Default)]
pub struct Collector {
    /// Claims by UID.
    claims: HashMap<String, String>,
    /// Launchers in the order of their appearance.
    launchers: HashMap<String, usize>,
    states: States,
}

impl Collector {
    /// All states of these lines.
    pub fn of<'a>(path: &str, lines: impl IntoIterator<Item = &'a Line>) -> States {
        let mut collector = Self::default();
        for line in lines {
            collector.add(path, line);
        }
        collector.states
    }

    /// Takes one line in.
    pub fn add(&mut self, path: &str, line: &Line) {
        let Some((object, state)) = self.state(line) else {
            return;
        };
        if is_skippable(path, &object, &state) {
            return;
        }
        let event = object.starts_with("Event ");
        let states = self.states.entry(object).or_default();
        // Of events only the first of each reason counts: how often one comes again depends on time.
        let known = if event {
            states.contains(&state)
        } else {
            states.last() == Some(&state)
        };
        if !known {
            states.push(state);
        }
    }

    /// The states so far.
    pub fn states(&self) -> &States {
        &self.states
    }

    fn state(&mut self, line: &Line) -> Option<(String, String)> {
        let (object, name) = (&line.object, line.name().to_owned());
        let phase = || object["status"]["phase"].as_str().unwrap_or("none").to_owned();
        let gone = line.what == "DELETED";
        let unless_gone = |state: String| if gone { "gone".to_owned() } else { state };
        match line.kind() {
            "DataVolume" => Some((format!("DataVolume {name}"), unless_gone(phase()))),
            "PersistentVolumeClaim" => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                self.claims.insert(uid.to_owned(), name.clone());
                let node = object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string();
                let state = format!("{}{}", phase(), if node { " on a node" } else { "" });
                Some((format!("Claim {}", self.called(&name)), unless_gone(state)))
            }
            "Pod" => Some((format!("Pod {}", self.called(&name)), unless_gone(phase()))),
            "Event" if !gone => {
                let about = &object["involvedObject"];
                let called = self.called(about["name"].as_str()?);
                let kind = match about["kind"].as_str()? {
                    "PersistentVolumeClaim" => "Claim",
                    kind => kind,
                };
                let by = object["source"]["component"]
                    .as_str()
                    .or(object["reportingComponent"].as_str())?;
                // External provisioners add the machine's name and a UID.
                let by = by.split("_vm_").next().unwrap_or(by).split('_').next().unwrap_or(by);
                Some((
                    format!("Event {kind} {called} by {by}"),
                    object["reason"].as_str()?.to_owned(),
                ))
            }
            _ => None,
        }
    }

    /// A name without what is random in it: launchers are numbered, primes and their workers have their target's name.
    fn called(&mut self, name: &str) -> String {
        if let Some((before, uid)) = name.split_once("prime-") {
            let (uid, after) = uid.split_at(uid.len().min(36));
            let target = self.claims.get(uid).map_or("somebody", String::as_str);
            return format!("{before}prime-of-{target}{after}");
        }
        if !name.starts_with("virt-launcher-") {
            return name.to_owned();
        }
        let number = self.launchers.len() + 1;
        let number = *self.launchers.entry(name.to_owned()).or_insert(number);
        format!("launcher-{number}")
    }
}

/// Whether each object has come at least as far as in `until`.
pub fn reached(now: &States, until: &States) -> bool {
    until
        .iter()
        .all(|(object, states)| now.get(object).is_some_and(|now| now.starts_with(states)))
}

/// Whether an object has gone a way on which it can no longer come to `until`.
pub fn strayed(now: &States, until: &States) -> bool {
    let strays = |now: &[String], until: &[String]| !now.starts_with(until) && !until.starts_with(now);
    until
        .iter()
        .any(|(object, states)| now.get(object).is_some_and(|now| strays(now, states)))
}

/// How two sets of states differ, object by object; empty if they do not.
pub fn difference(recorded: &States, replayed: &States) -> String {
    let mut text = String::new();
    let objects: std::collections::BTreeSet<_> = recorded.keys().chain(replayed.keys()).collect();
    for object in objects {
        let (recorded, replayed) = (recorded.get(object), replayed.get(object));
        if recorded != replayed {
            let show =
                |states: Option<&Vec<String>>| states.map_or("never seen".to_owned(), |states| states.join(", "));
            let _ = writeln!(
                text,
                "{object}\n  recorded: {}\n  replayed: {}",
                show(recorded),
                show(replayed)
            );
        }
    }
    text
}

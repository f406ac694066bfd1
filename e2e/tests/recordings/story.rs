//! What the user did in a recording, and when: each act with the states that had been reached by then.

use super::states::{Collector, Line, States};
use serde_json::{Map, Value, json};

/// One thing that the user did.
#[derive(Clone, Debug)]
pub enum Act {
    /// Made this object (its namespace, UIDs and status are the recording's).
    Create(Value),
    /// Changed the VM's spec: a merge patch.
    Patch { name: String, spec: Value },
    /// Deleted an object without grace.
    Delete { kind: String, name: String },
    /// Uploaded a disk, whole.
    Upload,
}

/// An act and its moment.
#[derive(Clone, Debug)]
pub struct Step {
    /// States that had been reached.
    pub after: States,
    /// The act.
    pub act: Act,
}

/// Parts of a VM's spec that only the user writes (virt-controller adds others).
fn own_spec(vm: &Value) -> Map<String, Value> {
    let spec = &vm["spec"];
    let template = &spec["template"]["spec"];
    let mut own = Map::new();
    own.insert("runStrategy".to_owned(), spec["runStrategy"].clone());
    own.insert("dataVolumeTemplates".to_owned(), spec["dataVolumeTemplates"].clone());
    own.insert(
        "template".to_owned(),
        json!({ "spec": {
            "nodeSelector": template["nodeSelector"], "volumes": template["volumes"],
            "domain": { "devices": { "disks": template["domain"]["devices"]["disks"] } },
        }}),
    );
    own
}

/// What an act waits for: the objects' states, and the events that are there by then and would not come later: that the
/// scheduler has failed, that the PV controller has seen the claim wait.
fn moment(states: &States) -> States {
    let mut moment = States::new();
    for (object, states) in states {
        let early = match object.rsplit_once(" by ").map(|(_, by)| by) {
            None | Some("default-scheduler") => states.clone(),
            Some("persistentvolume-controller") => states
                .iter()
                .filter(|state| *state == "WaitForFirstConsumer")
                .cloned()
                .collect(),
            Some(_) => Vec::new(),
        };
        if !early.is_empty() {
            moment.insert(object.clone(), early);
        }
    }
    moment
}

/// The story of a recording.
pub fn of(path: &str, lines: &[Line]) -> Vec<Step> {
    let mut states = Collector::default();
    let mut steps = Vec::new();
    let (mut spec, mut vm_gone, mut pod_dying) = (Map::new(), false, false);
    let is_upload = |line: &Line| line.kind() == "DataVolume" && line.object["spec"]["source"].get("upload").is_some();
    let mut uploads = lines.iter().any(is_upload);
    for line in lines {
        let mut acts = Vec::new();
        let hand_made = line.name().starts_with("first-consumer-");
        let made = || Act::Create(line.object.clone());
        match (line.kind(), line.what.as_str()) {
            ("VirtualMachine", "ADDED") => {
                spec = own_spec(&line.object);
                acts.push(made());
            }
            ("VirtualMachine", "MODIFIED") => {
                let new = own_spec(&line.object);
                if new != spec {
                    acts.push(Act::Patch {
                        name: line.name().to_owned(),
                        spec: Value::Object(new.clone()),
                    });
                    spec = new;
                }
            }
            ("VirtualMachine", "DELETED") => {
                vm_gone = true;
                acts.push(Act::Delete {
                    kind: line.kind().to_owned(),
                    name: line.name().to_owned(),
                });
            }
            ("VirtualMachineInstance" | "DataVolume" | "PersistentVolumeClaim", "ADDED") if line.owner().is_none() => {
                acts.push(made());
            }
            ("Pod", "ADDED") if hand_made => {
                pod_dying = false;
                acts.push(made());
            }
            // A pod that follows its VM is the garbage collector's business.
            ("Pod", "MODIFIED" | "DELETED") if hand_made && !vm_gone && !pod_dying && line.is_dying() => {
                pod_dying = true;
                acts.push(Act::Delete {
                    kind: "Pod".to_owned(),
                    name: line.name().to_owned(),
                });
            }
            ("Pod", _)
                if uploads
                    && line.name().starts_with("cdi-upload-")
                    && line.object["status"]["phase"] == "Succeeded" =>
            {
                uploads = false;
                acts.push(Act::Upload);
            }
            _ => {}
        }
        steps.extend(acts.into_iter().map(|act| Step {
            after: moment(states.states()),
            act,
        }));
        states.add(path, line);
    }
    steps
}

//! Replays the user's side of every recording on a real control plane with the stand-ins, and compares what happens
//! with what happened on the real stack: per object the same states in the same order, save those of `skippable.rs`.

mod skippable;
mod states;
mod story;

use anyhow::{Context as _, Result, bail, ensure};
use first_consumer_e2e::{
    cluster::Cluster,
    control_plane::{NodeSpec, Options},
    stand_in::{self, RUNS_FOR, WAITS_FOR_DATA},
    suite::Suite,
};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use states::{Collector, Line, States, difference, reached, strayed};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use story::{Act, Step};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tracing_subscriber::EnvFilter;

/// A replay that has not come as far as its recording by then has failed.
const LIMIT: Duration = Duration::from_mins(3);
/// One in which nothing happens for so long stands still. local-path-provisioner may take 15 s for a claim.
const STANDSTILL: Duration = Duration::from_secs(45);
/// The real components race, and a recording is one outcome of that: on a busy machine CDI may be woken a moment later
/// and never show a phase. So a replay has more attempts to be the same; a model that is wrong fails them all.
const ATTEMPTS: usize = 4;
/// How long nothing more may happen once everything recorded has happened.
const SETTLED: Duration = Duration::from_secs(2);

const KINDS: [(&str, &str, &str, &str); 6] = [
    ("kubevirt.io", "v1", "VirtualMachine", "virtualmachines"),
    ("kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances"),
    ("cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Event", "events"),
];

/// States that follow what a recording holds, because it ended there.
const AFTER_THE_END: [(&str, &str, &str); 7] = [
    ("upload", "DataVolume db-disk0", "Succeeded"),
    (
        "upload",
        "Event DataVolume db-disk0 by datavolume-upload-controller",
        "UploadSucceeded",
    ),
    ("upload", "Pod cdi-upload-", "gone"),
    ("upload", "Claim db-disk0-scratch", "gone"),
    ("populator-upload", "Claim db-disk0", "Bound on a node"),
    (
        "populator-upload",
        "Event DataVolume db-disk0 by datavolume-upload-controller",
        "Bound",
    ),
    (
        "populator-upload",
        "Event DataVolume db-disk0 by datavolume-upload-controller",
        "UploadSucceeded",
    ),
];

fn main() -> ExitCode {
    // With RUST_LOG=first_consumer_e2e=debug the stand-ins tell what they could not write.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .init();
    let files = match recordings() {
        Ok(files) => files,
        Err(error) => {
            eprintln!("the recordings cannot be read: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let compared = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let repeated = Arc::new(Mutex::new(Vec::new()));
    let mut suite = Suite::default().side_by_side(files.len());
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (test, compared, repeated) = (name.clone(), Arc::clone(&compared), Arc::clone(&repeated));
        suite = suite.shared(&name, async move |cluster: Arc<Cluster>| {
            let mut failed = Vec::new();
            for attempt in 1..=ATTEMPTS {
                match replay(&cluster, &file, &test, attempt).await {
                    Ok(states) => {
                        compared.0.fetch_add(1, Ordering::Relaxed);
                        compared.1.fetch_add(states, Ordering::Relaxed);
                        return Ok(());
                    }
                    Err(error) => {
                        let failure = format!("attempt {attempt}: {error:#}");
                        let mut repeated = repeated.lock().unwrap_or_else(PoisonError::into_inner);
                        repeated.push(format!("{test}, {failure}"));
                        failed.push(failure);
                    }
                }
            }
            bail!(failed.join("\n"))
        });
    }
    let code = suite.run(start);
    // A model that is right only now and then shows here.
    for failure in repeated.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("not the same at first: {failure}");
    }
    println!(
        "{} recordings replayed on a control plane, {} states compared",
        compared.0.load(Ordering::Relaxed),
        compared.1.load(Ordering::Relaxed)
    );
    code
}

fn recordings() -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let files = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let files: Vec<_> = files.collect::<Result<_>>()?;
    let mut files: Vec<_> = files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    Ok(files)
}

async fn start() -> Result<Cluster> {
    let nodes = [
        ("node-a1", "zone-a"),
        ("node-a2", "zone-a"),
        ("node-b1", "zone-b"),
        ("node-b2", "zone-b"),
    ];
    let nodes = nodes.map(|(name, zone)| NodeSpec::new(name, zone)).to_vec();
    let options = Options {
        nodes,
        ..Options::default()
    };
    Cluster::start(options, stand_in::Options::default()).await
}

fn api(client: &Client, namespace: &str, kind: &str) -> Result<Api<DynamicObject>> {
    let (group, version, kind, plural) = *KINDS
        .iter()
        .find(|(_, _, known, _)| *known == kind)
        .with_context(|| format!("kind {kind}"))?;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    Ok(Api::namespaced_with(client.clone(), namespace, &resource))
}

/// Returns how many states were the same.
async fn replay(cluster: &Cluster, file: &Path, name: &str, attempt: usize) -> Result<usize> {
    let text = std::fs::read_to_string(file)?;
    let lines: Vec<Line> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let recorded = Collector::of(name, &lines);
    let namespace = format!("replay-{attempt}-{name}");
    cluster.plane.add_namespace(&namespace).await?;
    let client = cluster.plane.client();
    let watched = Recorder::start(&client, &namespace, name).await?;
    for Step { after, act } in story::of(name, &lines) {
        watched
            .wait(&after, &format!("{act:?}").chars().take(120).collect::<String>())
            .await?;
        perform(&client, &namespace, act).await?;
    }
    watched.wait(&recorded, "the end").await?;
    tokio::time::sleep(SETTLED).await;
    let mut replayed = watched.states();
    for (_, object, state) in AFTER_THE_END.iter().filter(|(part, _, _)| name.contains(part)) {
        for (_, states) in replayed.iter_mut().filter(|(known, _)| known.starts_with(object)) {
            if states.last().is_some_and(|last| last == state) {
                states.pop();
            }
        }
    }
    let difference = difference(&recorded, &replayed);
    ensure!(difference.is_empty(), "more happened than was recorded:\n{difference}");
    Ok(recorded.values().map(Vec::len).sum())
}

async fn perform(client: &Client, namespace: &str, act: Act) -> Result<()> {
    match act {
        Act::Create(recorded) => {
            let kind = recorded["kind"].as_str().unwrap_or_default();
            let body = fresh(client, namespace, &recorded).await?;
            let object: DynamicObject = serde_json::from_value(body)?;
            api(client, namespace, kind)?
                .create(&PostParams::default(), &object)
                .await?;
        }
        Act::Patch { name, spec } => {
            let patch = Patch::Merge(json!({ "spec": spec }));
            api(client, namespace, "VirtualMachine")?
                .patch(&name, &PatchParams::default(), &patch)
                .await?;
        }
        Act::Delete { kind, name } => {
            api(client, namespace, &kind)?
                .delete(&name, &DeleteParams::default().grace_period(0))
                .await?;
        }
        Act::Upload => {
            let pods = api(client, namespace, "Pod")?;
            let ends = Patch::Merge(json!({"metadata": {"annotations": {RUNS_FOR: "0s"}}}));
            for pod in pods.list(&ListParams::default()).await? {
                if pod.annotations().contains_key(WAITS_FOR_DATA) {
                    pods.patch(&pod.name_any(), &PatchParams::default(), &ends).await?;
                }
            }
        }
    }
    Ok(())
}

/// The object as the user would write it today: owners are those of this namespace.
async fn fresh(client: &Client, namespace: &str, recorded: &Value) -> Result<Value> {
    let meta = &recorded["metadata"];
    let mut owners = meta["ownerReferences"].as_array().cloned().unwrap_or_default();
    for owner in &mut owners {
        let (kind, name) = (
            owner["kind"].as_str().unwrap_or_default(),
            owner["name"].as_str().unwrap_or_default(),
        );
        let now = api(client, namespace, kind)?.get(name).await?;
        owner["uid"] = json!(now.metadata.uid);
    }
    Ok(json!({
        "apiVersion": recorded["apiVersion"], "kind": recorded["kind"], "spec": recorded["spec"],
        "metadata": {
            "name": meta["name"], "labels": meta["labels"], "annotations": meta["annotations"],
            "ownerReferences": owners,
        },
    }))
}

/// Watches a namespace the way the recordings were made.
struct Recorder {
    states: Arc<Mutex<Collector>>,
    tasks: JoinSet<()>,
}

impl Recorder {
    /// Returns when every watch has begun, so that no state is missed.
    async fn start(client: &Client, namespace: &str, path: &str) -> Result<Self> {
        let states = Arc::<Mutex<Collector>>::default();
        let (listed, mut lists) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for (_, _, kind, _) in KINDS {
            let stream = watcher(api(client, namespace, kind)?, watcher::Config::default()).default_backoff();
            let (states, path, listed) = (states.clone(), path.to_owned(), listed.clone());
            tasks.spawn(async move {
                let mut stream = stream.boxed();
                loop {
                    let (what, object) = match stream.try_next().await {
                        Ok(Some(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) => ("", object),
                        Ok(Some(watcher::Event::Delete(object))) => ("DELETED", object),
                        Ok(Some(watcher::Event::InitDone)) => {
                            // Nobody listens any more once all have begun.
                            let _ = listed.send(());
                            continue;
                        }
                        Ok(None) => return,
                        _ => continue,
                    };
                    let Ok(mut object) = serde_json::to_value(object) else {
                        continue;
                    };
                    object["kind"] = json!(kind);
                    let mut states = states.lock().unwrap_or_else(PoisonError::into_inner);
                    states.add(
                        &path,
                        &Line {
                            what: what.to_owned(),
                            object,
                        },
                    );
                }
            });
        }
        for _ in KINDS {
            lists.recv().await.context("a watch did not begin")?;
        }
        Ok(Self { states, tasks })
    }

    fn states(&self) -> States {
        self.states
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .states()
            .clone()
    }

    async fn wait(&self, until: &States, what: &str) -> Result<()> {
        let end = Instant::now() + LIMIT;
        let (mut seen, mut news) = (self.states(), Instant::now());
        while !reached(&seen, until) {
            let over = Instant::now() > end || news.elapsed() > STANDSTILL;
            if over || strayed(&seen, until) {
                bail!("not reached before: {what}\n{}", difference(until, &seen));
            }
            let now = self.states();
            if now != seen {
                (seen, news) = (now, Instant::now());
            }
            ensure!(!self.tasks.is_empty(), "nobody watches");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

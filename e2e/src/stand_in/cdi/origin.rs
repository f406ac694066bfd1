//! Where a DataVolume's data comes from, followed to what is copied.

use crate::{
    stand_in::{
        kind::Kind,
        read,
        store::{Entry, Key, Object, Store},
    },
    world::{
        cdi::Origin,
        objects::{DvPhase, Source, Strategy},
    },
};
use kube::core::DynamicObject;
use serde_json::Value;

/// Source, and what is copied if it is a clone; none while a `sourceRef` leads nowhere \[`controller-base.go`:
/// getDataVolumeOp, getSourceRefOp\].
pub fn of(store: &Store, dv: &DynamicObject) -> Option<(Source, Option<Origin>)> {
    let namespace = dv.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &dv.data["spec"];
    if let Some(source) = spec["source"].as_object().filter(|source| !source.is_empty()) {
        let (kind, value) = source.iter().next()?;
        return match kind.as_str() {
            "http" | "s3" | "gcs" | "imageio" | "vddk" => Some((Source::Http, None)),
            "registry" => Some((Source::Registry, None)),
            "blank" => Some((Source::Blank, None)),
            "upload" => Some((Source::Upload, None)),
            _ => copied(store, namespace, kind, value),
        };
    }
    if let Some(name) = spec["sourceRef"]["name"].as_str() {
        let there = spec["sourceRef"]["namespace"].as_str().unwrap_or(namespace);
        return through_data_source(store, &Key::new(there, name));
    }
    let somebody = ["pvc", "storage"].into_iter().find_map(|template| {
        let by = |field: &str| spec[template][field]["name"].as_str();
        by("dataSourceRef").or_else(|| by("dataSource"))
    })?;
    let origin = Origin {
        name: somebody.to_owned(),
        there: true,
        ..Origin::default()
    };
    Some((Source::External, Some(origin)))
}

/// A DataSource, which may name another one of its namespace \[`common/util.go`: ResolveDataSourceChain\].
fn through_data_source(store: &Store, key: &Key) -> Option<(Source, Option<Origin>)> {
    let first = store.get(Kind::DataSource, key)?;
    let next = first.data["spec"]["source"]["dataSource"]["name"].as_str();
    let last = match next {
        Some(next) => store.get(Kind::DataSource, &Key::new(&key.namespace, next))?,
        None => first.clone(),
    };
    let (kind, value) = last.data["spec"]["source"].as_object()?.iter().next()?;
    copied(store, &key.namespace, kind, value)
}

fn copied(store: &Store, namespace: &str, kind: &str, value: &Value) -> Option<(Source, Option<Origin>)> {
    let namespace = value["namespace"].as_str().unwrap_or(namespace);
    let key = Key::new(namespace, value["name"].as_str()?);
    match kind {
        "pvc" => Some((Source::Pvc, Some(claim(store, &key)))),
        "snapshot" => Some((Source::Snapshot, Some(snapshot(store, &key)))),
        _ => None,
    }
}

/// A claim that is copied. Pods that only read it do not count as users.
pub fn claim(store: &Store, key: &Key) -> Origin {
    let claim = store.get(Kind::Claim, key);
    let populated = claim.as_ref().is_some_and(|claim| {
        let owner = read::owner(claim).filter(|owner| owner.kind == Kind::DataVolume.name());
        owner.is_none_or(|owner| {
            let dv = store.get(Kind::DataVolume, &Key::new(&key.namespace, &owner.name));
            dv.is_some_and(|dv| dv.data["status"]["phase"] == DvPhase::Succeeded.as_str())
        })
    });
    let users = store.find(Kind::Pod, &Entry::Names(key.clone())).into_iter();
    Origin {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        there: claim.is_some(),
        populated,
        bound: claim.is_some_and(|claim| claim.data["status"]["phase"] == "Bound"),
        users: users
            .filter(|pod| !read::pod(pod).phase.is_final() && writes(pod, &key.name))
            .map(|pod| read::name(&pod))
            .collect(),
    }
}

fn writes(pod: &Object, claim: &str) -> bool {
    let volumes = pod.data["spec"]["volumes"].as_array().into_iter().flatten();
    volumes
        .map(|volume| &volume["persistentVolumeClaim"])
        .any(|volume| volume["claimName"] == claim && volume["readOnly"] != true)
}

fn snapshot(store: &Store, key: &Key) -> Origin {
    let snapshot = store.get(Kind::Snapshot, key);
    Origin {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        there: snapshot.is_some(),
        populated: snapshot.is_some_and(|snapshot| snapshot.data["status"]["readyToUse"] == true),
        ..Origin::default()
    }
}

/// Size of what is copied.
pub fn size(store: &Store, source: Source, origin: &Origin) -> Value {
    let key = Key::new(&origin.namespace, &origin.name);
    match source {
        Source::Snapshot => store
            .get(Kind::Snapshot, &key)
            .map(|snapshot| snapshot.data["status"]["restoreSize"].clone()),
        _ => store
            .get(Kind::Claim, &key)
            .map(|claim| claim.data["spec"]["resources"]["requests"]["storage"].clone()),
    }
    .unwrap_or_default()
}

/// Name of the class that a snapshot can be restored to. Its snapshot class has the name of the driver here
/// \[`snapshot-clone-controller.go`: getStorageClassCorrespondingToSnapClass\].
pub fn class_of_snapshot(store: &Store, origin: &Origin) -> Option<String> {
    let snapshot = store.get(Kind::Snapshot, &Key::new(&origin.namespace, &origin.name))?;
    let driver = snapshot.data["spec"]["volumeSnapshotClassName"].as_str()?.to_owned();
    let classes = store.all(Kind::StorageClass);
    let class = classes.iter().find(|class| class.data["provisioner"] == *driver)?;
    Some(read::name(class))
}

/// How a clone is copied to a class on the populator path: what the class's StorageProfile wants, or by a pod if the
/// storage of the source cannot do that \[`planner.go`: ChooseStrategy\].
pub fn strategy(store: &Store, source: Source, origin: &Origin, class: &str) -> Strategy {
    if source == Source::Snapshot {
        return Strategy::Snapshot;
    }
    let class_named = |name: &str| store.get(Kind::StorageClass, &Key::new("", name));
    let from = store.get(Kind::Claim, &Key::new(&origin.namespace, &origin.name));
    let from = from.and_then(|claim| class_named(claim.data["spec"]["storageClassName"].as_str()?));
    let (Some(from), Some(to)) = (from, class_named(class)) else {
        return Strategy::Copy;
    };
    let wanted = read::annotation(&to, &read::cdi("clone-strategy")).and_then(Strategy::parse);
    match wanted {
        Some(Strategy::CsiClone) if from.data["provisioner"] == to.data["provisioner"] => Strategy::CsiClone,
        _ => Strategy::Copy,
    }
}

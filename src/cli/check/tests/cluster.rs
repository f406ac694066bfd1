//! A cluster that has everything, and pieces to make it worse.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::facts::{Facts, NEEDED, Read};
use super::super::rights::{Right, of_controller, of_installer};
use crate::cli::supported::{CDI, KUBERNETES, KUBEVIRT, Minor, Supported};

pub fn view<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).expect("a view")
}

pub fn one<T: DeserializeOwned>(value: &Value) -> Vec<T> {
    vec![view(value)]
}

pub fn rights(rights: Vec<Right>) -> Vec<(Right, Read<bool>)> {
    rights.into_iter().map(|right| (right, Ok(true))).collect()
}

pub fn installs() -> Vec<(Right, Read<bool>)> {
    let needs = of_installer("first-consumer").into_iter();
    rights(needs.map(|need| need.right).collect())
}

/// The time, a little after the Leases were renewed.
const NOW: &str = "2026-01-01T00:00:10Z";

/// A cluster that has everything.
pub fn good() -> Facts {
    let versions = NEEDED.map(|needed| (needed.group.to_owned(), vec![needed.version.to_owned()]));
    let resources = NEEDED.map(|needed| {
        let names = needed.resources.iter().map(|name| (*name).to_owned());
        (needed.group_version(), Ok(names.collect::<BTreeSet<_>>()))
    });
    Facts {
        pre: false,
        controllers: "first-consumer".into(),
        kubernetes: newest(KUBERNETES),
        versions: BTreeMap::from(versions),
        resources: BTreeMap::from(resources),
        kubevirts: Ok(one(&json!({"status": {"observedKubeVirtVersion": newest(KUBEVIRT)}}))),
        cdis: Ok(one(
            &json!({"metadata": {"name": "cdi"}, "status": {"observedVersion": newest(CDI)}}),
        )),
        cdi_configs: Ok(one(&gates(&["DataVolumeClaimAdoption", "HonorWaitForFirstConsumer"]))),
        rights: rights(of_controller("first-consumer")),
        classes: Ok(one(&class("WaitForFirstConsumer"))),
        drivers: Ok(vec![]),
        namespaces: Ok(one(
            &json!({"metadata": {"name": "vms", "annotations": provision("true"),
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}),
        )),
        vms: Ok(one(&vm("false"))),
        vmis: Ok(vec![]),
        deployments: Ok(vec![deployment("first-consumer", "")]),
        leases: Ok(vec![lease("first-consumer", "a"), lease("old", "")]),
        now: NOW.parse().expect("a time"),
    }
}

pub fn version(minor: Minor) -> String {
    format!("v{minor}.3")
}

pub fn newest(supported: Supported) -> String {
    version(supported.to)
}

pub fn gates(gates: &[&str]) -> Value {
    json!({"metadata": {"name": "config"}, "spec": {"featureGates": gates}})
}

pub fn class(mode: &str) -> Value {
    json!({"metadata": {"name": "local"}, "provisioner": "local.example", "volumeBindingMode": mode})
}

pub fn provision(value: &str) -> Value {
    json!({"first-consumer.kubevirt.io/provision": value})
}

pub fn vm(value: &str) -> Value {
    json!({"metadata": {"name": "db", "namespace": "vms", "annotations": provision(value)}})
}

pub fn deployment<T: DeserializeOwned>(namespace: &str, watched: &str) -> T {
    view(&running(namespace, watched, 2, 2))
}

/// One that asks for so many replicas, of which so many are ready.
pub fn running(namespace: &str, watched: &str, replicas: i32, ready: i32) -> Value {
    let env = json!([{"name": "FIRST_CONSUMER_WATCH_NAMESPACE", "value": watched}]);
    let containers = json!([{"args": ["run", "--leader-elect"], "env": env}]);
    json!({"metadata": {"name": "first-consumer", "namespace": namespace},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
        "status": {"readyReplicas": ready}})
}

pub fn lease<T: DeserializeOwned>(namespace: &str, holder: &str) -> T {
    renewed(namespace, holder, "2026-01-01T00:00:00.123456Z")
}

/// Last renewed then.
pub fn renewed<T: DeserializeOwned>(namespace: &str, holder: &str, time: &str) -> T {
    let meta = json!({"name": "first-consumer", "namespace": namespace});
    view(&json!({"metadata": meta,
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": time}}))
}

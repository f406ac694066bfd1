//! Applies manifests with server-side apply.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize as _;

use super::wait::wait_for;

/// Whom the API server names as the owner of fields that the harness wrote.
pub const FIELD_MANAGER: &str = "first-consumer-e2e";

/// The documents of a YAML or JSON text; empty documents are left out.
pub fn documents(text: &str) -> Result<Vec<DynamicObject>> {
    let mut objects = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let value = serde_yaml::Value::deserialize(document)?;
        if !value.is_null() {
            objects.push(serde_yaml::from_value(value)?);
        }
    }
    Ok(objects)
}

/// Applies every document of a YAML text, in order, and returns what the API server made of them. An object without a
/// namespace is taken for cluster-scoped.
pub async fn apply(client: &Client, text: &str) -> Result<Vec<DynamicObject>> {
    let mut applied = Vec::new();
    for object in documents(text)? {
        applied.push(apply_object(client, &object).await?);
    }
    Ok(applied)
}

/// Applies one object.
pub async fn apply_object(client: &Client, object: &DynamicObject) -> Result<DynamicObject> {
    let types = object.types.as_ref().context("an object without apiVersion and kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let name = object.name_any();
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&name, &parameters, &Patch::Apply(object)).await;
    applied.with_context(|| format!("cannot apply {} {name}", types.kind))
}

/// Applies CustomResourceDefinitions and waits until they are served.
pub async fn apply_crds<'a>(client: &Client, crds: impl IntoIterator<Item = &'a DynamicObject>) -> Result<()> {
    let mut names = Vec::new();
    for crd in crds {
        names.push(apply_object(client, crd).await?.name_any());
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in names {
        wait_for(&format!("the CRD {name} is served"), async || {
            Ok(is_established(&api.get(&name).await?).then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// Every CRD that the YAML files of a folder hold.
pub fn crds_of_folder(folder: &Path) -> Result<Vec<DynamicObject>> {
    let mut crds = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
        {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            crds.extend(documents(&text)?);
        }
    }
    let is_crd = |object: &DynamicObject| {
        let types = object.types.as_ref();
        types.is_some_and(|types| types.kind == "CustomResourceDefinition")
    };
    crds.retain(is_crd);
    ensure!(
        !crds.is_empty(),
        "{} holds no CustomResourceDefinition",
        folder.display()
    );
    Ok(crds)
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

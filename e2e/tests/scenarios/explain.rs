//! `explain` on a real control plane: what is stuck there, and what the command says. `EXPLAIN_CAPTURE=1` saves each
//! situation into `e2e/explain`.

mod ours;
mod theirs;

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::control_plane::{ControlPlane, build_controller, wait_for};
use first_consumer_e2e::scene::Scene;
use serde_json::{Value, json};

pub use ours::*;
pub use theirs::*;

async fn explain(plane: &ControlPlane, namespace: &str, words: &[&str]) -> Result<Output> {
    let mut explain = tokio::process::Command::new(build_controller(false).await?);
    explain.arg("explain").args(words).args(["--namespace", namespace]);
    Ok(explain.arg("--kubeconfig").arg(plane.kubeconfig()?).output().await?)
}

/// A text without its line breaks, in which a name may be broken at the end of a line.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until this is the cause and the text names these, and fails unless the table has it, too.
async fn expect(scene: &Scene, subject: &str, cause: &str, names: &[&str]) -> Result<()> {
    expect_in(&scene.cluster.plane, &scene.namespace, subject, cause, names).await
}

/// As [`expect`], in a namespace of a control plane.
pub async fn expect_in(
    plane: &ControlPlane,
    namespace: &str,
    subject: &str,
    cause: &str,
    names: &[&str],
) -> Result<()> {
    by_name(plane, namespace, subject, cause, names).await?;
    in_table(plane, namespace, subject, cause).await?;
    capture(plane, namespace).await
}

/// Waits until this is the cause that `explain` tells of the subject, and the text names these.
async fn by_name(plane: &ControlPlane, namespace: &str, subject: &str, cause: &str, names: &[&str]) -> Result<()> {
    let line = format!("Cause:  {cause}: ");
    let last = std::sync::Mutex::new(String::new());
    wait_for(&format!("{line}{names:?}"), async || {
        // The command asks for a dozen lists each time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let output = explain(plane, namespace, &[subject]).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        *last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        let words = words(&text);
        let told = text.contains(&line) && names.iter().all(|name| words.contains(name));
        Ok((told && output.status.code() == Some(1)).then_some(()))
    })
    .await
    .with_context(|| last.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone())
}

/// Fails unless the table has this cause for the subject.
async fn in_table(plane: &ControlPlane, namespace: &str, subject: &str, cause: &str) -> Result<()> {
    let table = explain(plane, namespace, &[]).await?;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let row = |row: &str| row.starts_with(&format!("{subject} ")) && row.contains(cause);
    ensure!(table.lines().any(row), "{table}");
    Ok(())
}

/// Saves the Namespace and what is around it.
async fn capture(plane: &ControlPlane, namespace: &str) -> Result<()> {
    if std::env::var_os("EXPLAIN_CAPTURE").is_none() {
        return Ok(());
    }
    let list = async |arguments: &[&str]| -> Result<Vec<Value>> {
        let text = plane.kubectl(&[&["get", "-o", "json"], arguments].concat()).await?;
        let value: Value = serde_json::from_str(&text)?;
        Ok(value["items"].as_array().cloned().unwrap_or_else(|| vec![value]))
    };
    // Of a definition only the name is read.
    let definitions = list(&["customresourcedefinitions"]).await?;
    let mut items: Vec<Value> = definitions.iter().map(named).collect();
    let has_cdi = items
        .iter()
        .any(|item| item["metadata"]["name"] == "datavolumes.cdi.kubevirt.io");
    let inside = "virtualmachines,virtualmachineinstances,persistentvolumeclaims,pods,resourcequotas,events";
    items.extend(list(&[inside, "--namespace", namespace]).await?);
    if has_cdi {
        items.extend(list(&["datavolumes", "--namespace", namespace]).await?);
    }
    let volumes = list(&["persistentvolumes"]).await?.into_iter();
    items.extend(volumes.filter(|volume| volume["spec"]["claimRef"]["namespace"] == namespace));
    items.extend(list(&["nodes,storageclasses"]).await?);
    items.extend(list(&["kubevirts,leases", "--all-namespaces"]).await?);
    items.extend(list(&["namespace", namespace]).await?);
    items.retain(|item| !is_elsewhere(item, namespace));
    for item in &mut items {
        if let Some(annotations) = item.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
        if item["kind"] == "Node" {
            for bulk in ["addresses", "capacity", "daemonEndpoints", "nodeInfo"] {
                item["status"][bulk].take();
            }
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let name = namespace.trim_start_matches("explain-");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("explain/{name}.json"));
    Ok(std::fs::write(file, list.to_string())?)
}

/// Kind and name of an object.
fn named(object: &Value) -> Value {
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": object["metadata"]["name"]}})
}

/// Whether it is a node that another scene has made for itself.
fn is_elsewhere(item: &Value, namespace: &str) -> bool {
    let scene = item.pointer("/metadata/labels/scene");
    item["kind"] == "Node" && scene.is_some_and(|scene| scene != namespace)
}

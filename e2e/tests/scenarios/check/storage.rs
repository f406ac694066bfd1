//! Classes and CDI's feature gate.

use anyhow::{Result, ensure};
use first_consumer_e2e::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::{apply, check, expect, follow, gone, repair};

fn class(name: &str, mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "local.csi.example", "parameters": {"name": "fast"}, "volumeBindingMode": mode})
}

/// Without any class that provisions, storage is to be installed. Where only a class is left that binds at once it gets
/// its twin, which is not a second default, and nobody has applied it.
pub async fn no_class_waits(plane: &ControlPlane) -> Result<()> {
    const NONE: &str = "no StorageClass binds late";
    plane.kubectl(&["delete", "storageclass", "--all"]).await?;
    let (text, _) = check(plane, &[]).await?;
    ensure!(text.contains("install storage whose volumes belong to nodes"), "{text}");
    apply(plane, class("installed", "WaitForFirstConsumer")).await?;
    expect(plane, &[], '√', "installed binds late").await?;

    plane.kubectl(&["delete", "storageclass/installed"]).await?;
    let mut hasty = class("hasty", "Immediate");
    hasty["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true",
        "kubectl.kubernetes.io/last-applied-configuration": "{}\n"});
    hasty["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "somebody"});
    apply(plane, hasty).await?;
    repair(plane, &[], '×', NONE).await?;
    expect(plane, &[], '√', "hasty-late binds late").await?;
    let of = async |name: &str| -> Result<Value> {
        let class = plane.kubectl(&["get", "storageclass", name, "-o", "json"]).await?;
        Ok(serde_json::from_str(&class)?)
    };
    let (hasty, twin) = (of("hasty").await?, of("hasty-late").await?);
    let meta = &twin["metadata"];
    ensure!(
        meta["annotations"].is_null() && meta["labels"].is_null() && twin["parameters"] == hasty["parameters"],
        "{twin}"
    );
    Ok(())
}

/// Where there is no CDI object the gate is switched on in the configuration itself; where there is, CDI's operator
/// copies it, which is played here. It also makes the configuration.
pub async fn the_gate_is_off(plane: &ControlPlane) -> Result<()> {
    const OFF: &str = "HonorWaitForFirstConsumer is off";
    const NONE: &str = "CDI has no configuration yet";
    let config = |gates: Value| {
        json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDIConfig", "metadata": {"name": "config"},
            "spec": {"featureGates": gates}})
    };
    let both = r#"["DataVolumeClaimAdoption","HonorWaitForFirstConsumer"]"#;
    let gates = async |object: &str, path: &str| {
        let path = format!("jsonpath={path}");
        plane.kubectl(&["get", object, "-o", &path]).await
    };
    follow(plane, &[], '‼', NONE).await?;
    apply(plane, config(json!(["DataVolumeClaimAdoption"]))).await?;
    gone(plane, &[], NONE).await?;
    repair(plane, &[], '×', OFF).await?;
    let on = gates("cdiconfig/config", "{.spec.featureGates}").await?;
    ensure!(on == both, "{on}");

    let cdi = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDI", "metadata": {"name": "one"}, "spec": {}});
    apply(plane, cdi).await?;
    apply(plane, config(json!(["DataVolumeClaimAdoption"]))).await?;
    follow(plane, &[], '×', OFF).await?;
    let on = gates("cdi/one", "{.spec.config.featureGates}").await?;
    ensure!(on == both, "{on}");
    apply(plane, config(serde_json::from_str(&on)?)).await?;
    gone(plane, &[], OFF).await
}

//! Neighbours that are too old, too new, or do not say what they are.

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::relay::Relay;
use super::{apply, check, check_with, finding, follow, shell};
use crate::explain::words;

/// KubeVirt and CDI do not say what they are, or not so that it can be read, or are too new or too old. The update that
/// the hint asks for is played by what their operators would write.
pub async fn a_neighbour_is_old(plane: &ControlPlane) -> Result<()> {
    let says = async |object: &str, status: Value| {
        let patch = json!({"status": status}).to_string();
        let how = [
            "--subresource",
            "status",
            "--type",
            "merge",
            "-n",
            "second",
            "-p",
            &patch,
        ];
        plane.kubectl(&[&["patch", object], &how[..]].concat()).await
    };
    let kubevirt = json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": {"name": "one", "namespace": "second"}, "spec": {}});
    apply(plane, kubevirt).await?;
    // The hint is to look whether the operator runs; then it runs.
    let looks = async |says: &str| follow(plane, &[], '‼', says).await;
    looks("KubeVirt does not say its version yet").await?;
    looks("CDI does not say its version yet").await?;
    for (object, field, versions) in [
        (
            "kubevirts/one",
            "observedKubeVirtVersion",
            ["devel", "v1.99.0", "v1.4.9", "v1.8.2"],
        ),
        (
            "cdis/one",
            "observedVersion",
            ["devel", "v1.99.0", "v1.61.3", "v1.66.0"],
        ),
    ] {
        let [odd, new, old, fine] = versions;
        says(object, json!({field: odd})).await?;
        looks("cannot be read: devel").await?;
        for (version, found, hint) in [
            (new, "is newer than those it is made for", "update first-consumer"),
            (old, "is older than those it is made for", "or newer"),
        ] {
            says(object, json!({field: version})).await?;
            let (text, _) = check(plane, &[]).await?;
            let told = words(&text);
            ensure!(told.contains(found) && told.contains(hint), "{version}: {text}");
        }
        says(object, json!({field: fine})).await?;
        let (text, _) = check(plane, &[]).await?;
        ensure!(text.contains(&format!("√ version {fine}")), "{text}");
    }
    Ok(())
}

/// The update that the hint asks for is played by what an updated API server would say.
pub async fn another_kubernetes(plane: &ControlPlane) -> Result<()> {
    let relay = Relay::start(plane.client()).await?;
    relay.says("devel");
    let (text, _) = check_with(relay.kubeconfig.path(), &[]).await?;
    let found = finding(&text, "the version of Kubernetes cannot be read: devel");
    let (_, look) = found.with_context(|| text.clone())?;
    ensure!(look == "kubectl get --raw /version", "{look}");
    shell(plane, relay.kubeconfig.path(), &look).await?;
    for (odd, hint, fine) in [
        ("v1.29.3", "update Kubernetes to 1.30 or newer", "v1.30.1"),
        ("v1.99.0", "update first-consumer", "v1.36.3"),
    ] {
        relay.says(odd);
        let (text, _) = check_with(relay.kubeconfig.path(), &[]).await?;
        let told = words(&text);
        ensure!(
            told.contains(&format!("‼ version {odd}")) && told.contains(hint),
            "{text}"
        );
        relay.says(fine);
        let (text, code) = check_with(relay.kubeconfig.path(), &[]).await?;
        ensure!(text.contains(&format!("√ version {fine}")) && code == Some(0), "{text}");
    }
    Ok(())
}

//! KubeVirt and CDI: not there, or not as they are needed.

use anyhow::{Result, ensure};
use first_consumer_e2e::control_plane::ControlPlane;
use serde_json::json;

use super::{apply, check, comes, expect, follow, gone};
use crate::explain::words;

/// Fails unless the hint of what is missing names where to get it.
async fn installs(plane: &ControlPlane, flags: &[&str], missing: &str, link: &str) -> Result<()> {
    let (text, _) = check(plane, flags).await?;
    let told = words(&text);
    let (_, rest) = told.split_once(missing).unwrap_or_default();
    ensure!(rest.trim_start().starts_with(link), "{text}");
    Ok(())
}

/// A cluster without CDI, and with one that is too old.
pub async fn cdi_is_missing_or_old(plane: &ControlPlane) -> Result<()> {
    const PRE: &[&str] = &["--pre"];
    const OLD: &str = "cdi.kubevirt.io/v1beta1 is not served, only v1alpha1";
    const SERVED: &str = "cdi.kubevirt.io/v1beta1 is served";
    let missing = "CDI is not installed: cdi.kubevirt.io is not served";
    expect(plane, PRE, '×', missing).await?;
    installs(plane, PRE, missing, "Next: install CDI: https://kubevirt.io/").await?;
    let old =
        json!({"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let old = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "datavolumes.cdi.kubevirt.io"}, "spec": {"group": "cdi.kubevirt.io", "scope": "Namespaced",
        "names": {"plural": "datavolumes", "singular": "datavolume", "kind": "DataVolume"}, "versions": [old]}});
    apply(plane, old).await?;
    comes(plane, PRE, OLD).await?;
    follow(plane, PRE, '×', OLD).await?;
    plane.kubectl(&["delete", "crd/datavolumes.cdi.kubevirt.io"]).await?;
    plane.apply_crds(true).await?;
    comes(plane, PRE, SERVED).await?;
    expect(plane, PRE, '√', SERVED).await.map(drop)
}

/// An installation of KubeVirt that has not come to its end, and none.
pub async fn a_kind_is_missing(plane: &ControlPlane) -> Result<()> {
    const SERVED: &str = "kubevirt.io/v1 is served: ";
    let [vms, instances, kubevirts] = [
        "crd/virtualmachines.kubevirt.io",
        "crd/virtualmachineinstances.kubevirt.io",
        "crd/kubevirts.kubevirt.io",
    ];
    for (crds, missing) in [
        (
            &[instances][..],
            "kubevirt.io/v1 is served without virtualmachineinstances",
        ),
        (
            &[vms, kubevirts, instances],
            "KubeVirt is not installed: kubevirt.io is not served",
        ),
    ] {
        plane.kubectl(&[&["delete"], crds].concat()).await?;
        comes(plane, &[], missing).await?;
        expect(plane, &[], '×', missing).await?;
        installs(plane, &[], missing, "Next: install KubeVirt: https://kubevirt.io/").await?;
        plane.apply_crds(true).await?;
        gone(plane, &[], missing).await?;
        comes(plane, &[], SERVED).await?;
    }
    expect(plane, &[], '√', SERVED).await.map(drop)
}

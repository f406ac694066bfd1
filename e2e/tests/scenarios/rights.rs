//! What the controller's own account can't do, with the shipped RBAC and admission policy.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, claim, pod};
use first_consumer_e2e::scene::Scene;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// What is changed about a pod that is allowed.
type Edit = fn(&mut Value);

pub async fn the_account_can_do_no_more_than_it_needs(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::without_controller(cluster, "rights").await?;
    scene.create(claim("disk", LOCAL_PATH)).await?;
    scene.create(pod("foreign", "disk", &json!({"no": "node"}))).await?;
    let account = scene
        .cluster
        .plane
        .service_account_client("first-consumer", "first-consumer")
        .await?;
    let pods = Api::<Pod>::namespaced(account.clone(), &scene.namespace);
    let claims = Api::<PersistentVolumeClaim>::namespaced(account, &scene.namespace);

    refused("label", pods.delete("foreign", &DeleteParams::default()).await)?;
    let annotate = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-1"}}});
    refused(
        "cannot patch",
        claims
            .patch("disk", &PatchParams::default(), &Patch::Merge(annotate))
            .await,
    )?;
    refused("cannot get", pods.get("foreign").await)?;

    let create = async |edit: Edit| {
        let mut own = own_pod();
        edit(&mut own);
        pods.create(
            &PostParams {
                dry_run: true,
                ..PostParams::default()
            },
            &serde_json::from_value(own)?,
        )
        .await
        .map_err(anyhow::Error::from)
    };
    ensure!(create(|_| {}).await.is_ok(), "a pod as ours are is refused");
    let forbidden: [(&str, Edit); 9] = [
        ("label", |pod| pod["metadata"]["labels"] = json!({})),
        ("choose a pod's node", |pod| pod["spec"]["nodeName"] = json!("node-1")),
        ("share the host's", |pod| pod["spec"]["hostNetwork"] = json!(true)),
        ("no other volumes", |pod| {
            pod["spec"]["volumes"] = json!([{"name": "root", "hostPath": {"path": "/"}}]);
        }),
        ("service-account token", |pod| {
            pod["spec"]["automountServiceAccountToken"] = json!(true);
        }),
        ("privileged", |pod| {
            pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
        }),
        ("privileged", |pod| {
            pod["spec"]["containers"][0]["securityContext"]["capabilities"] = json!({"add": ["SYS_ADMIN"]});
        }),
        ("init containers", |pod| {
            pod["spec"]["initContainers"] = json!([{"name": "first", "image": "a"}]);
        }),
        ("ports of the host", |pod| {
            pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        }),
    ];
    for (why, edit) in forbidden {
        refused(why, create(edit).await)?;
    }
    Ok(())
}

fn own_pod() -> Value {
    let mut own = pod("own", "disk", &json!({}));
    own["metadata"]["labels"] = json!({"first-consumer.kubevirt.io/managed": "true"});
    own["spec"]["automountServiceAccountToken"] = json!(false);
    own["spec"]["containers"][0]["securityContext"] = json!({"allowPrivilegeEscalation": false});
    own
}

fn refused<T, E: std::fmt::Display>(why: &str, result: Result<T, E>) -> Result<()> {
    match result {
        Ok(_) => bail!("allowed, though it should be refused because of: {why}"),
        Err(error) => {
            ensure!(
                error.to_string().contains(why),
                "refused for another reason than {why}: {error}"
            );
            Ok(())
        }
    }
}

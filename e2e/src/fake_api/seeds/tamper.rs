//! Rules broken on purpose, in our name, to prove that it is found out.

use std::time::Duration;

use anyhow::Result;
use kube::api::{DeleteParams, DynamicObject, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::watchman::MOST_EVENTS;
use crate::fake_api::scene::Scene;
use crate::stand_in::kind::Kind;

/// Something that breaks a rule on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tamper {
    /// A pod is deleted without a UID.
    DeletesBlindly,
    /// Somebody else's pod is deleted.
    DeletesForeign,
    /// A pod without our label is made.
    CreatesUnlabelled,
    /// Two pods are made for one VM.
    CreatesTwice,
    /// A pod is made again and again.
    Spins,
    /// An event is written again and again.
    Chatters,
    /// A pod is made that nobody deletes.
    LeavesOne,
    /// A pod is made beside a launcher.
    BesideLauncher,
    /// A VM is written.
    WritesElse,
}

impl Tamper {
    /// Each, with words of the rule that it breaks.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::DeletesBlindly, "no delete without a UID"),
        (Self::DeletesForeign, "never a delete of anything but an own pod"),
        (Self::CreatesUnlabelled, "no create without our label"),
        (Self::CreatesTwice, "never two own pods for a subject"),
        (Self::Spins, "growing gaps"),
        (Self::Chatters, "no loop"),
        (Self::LeavesOne, "no pod is left when nothing waits"),
        (Self::BesideLauncher, "no own pod while a launcher lives"),
        (Self::WritesElse, "we write nothing else"),
    ];

    /// Does it.
    pub async fn act(self, scene: &Scene) -> Result<()> {
        let ours = Kind::Pod.api(&scene.api.client(&scene.user()), "ns");
        let theirs = Kind::Pod.api(&scene.api.client("people"), "ns");
        match self {
            Self::DeletesBlindly => {
                create(&ours, &own("x")).await?;
                ours.delete("x", &DeleteParams::default()).await?;
            }
            Self::DeletesForeign => {
                let made = create(&theirs, &foreign("x", &json!({}))).await?;
                delete(&ours, &made).await?;
            }
            Self::CreatesUnlabelled => {
                let made = create(&ours, &foreign("x", &json!({}))).await?;
                theirs.delete(&made.name_any(), &DeleteParams::default()).await?;
            }
            Self::CreatesTwice => {
                create(&ours, &own("x")).await?;
                create(&ours, &own("y")).await?;
            }
            Self::Spins => {
                for _ in 0..3 {
                    let made = create(&ours, &own("x")).await?;
                    delete(&ours, &made).await?;
                    scene.advance(Duration::from_secs(6)).await;
                }
            }
            Self::Chatters => {
                let ours = Kind::Event.api(&scene.api.client(&scene.user()), "ns");
                for number in 0..=MOST_EVENTS {
                    create(&ours, &json!({"metadata": {"name": format!("x-{number}")}})).await?;
                }
            }
            Self::LeavesOne => {
                create(&ours, &own("x")).await?;
            }
            Self::BesideLauncher => {
                let labels = json!({"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": "z"});
                let launcher = create(&theirs, &foreign("l", &labels)).await?;
                let told = (scene.user().as_str().into(), launcher.uid().unwrap_or_default());
                while !scene.api.told().contains_key(&told) {
                    scene.advance(Duration::from_secs(1)).await;
                }
                scene.advance(Duration::from_secs(1)).await;
                let made = create(&ours, &own("x")).await?;
                delete(&ours, &made).await?;
                theirs.delete("l", &DeleteParams::default()).await?;
            }
            Self::WritesElse => {
                let claim = json!({"metadata": {"name": "x"}, "spec": {"resources": {}}});
                create(&Kind::Claim.api(&scene.api.client(&scene.user()), "ns"), &claim).await?;
            }
        }
        Ok(())
    }
}

async fn create(api: &Api<DynamicObject>, body: &Value) -> Result<DynamicObject> {
    Ok(api
        .create(&PostParams::default(), &serde_json::from_value(body.clone())?)
        .await?)
}

async fn delete(api: &Api<DynamicObject>, pod: &DynamicObject) -> Result<()> {
    let parameters = DeleteParams::default().preconditions(kube::api::Preconditions {
        uid: pod.uid(),
        resource_version: None,
    });
    api.delete(&pod.name_any(), &parameters).await?;
    Ok(())
}

/// A pod like ours, for a VM that is not there and so is nobody's business. A gate keeps it from being scheduled.
fn own(name: &str) -> Value {
    let mut pod = foreign(name, &json!({"first-consumer.kubevirt.io/managed": "true"}));
    pod["metadata"]["annotations"] = json!({"first-consumer.kubevirt.io/subject": "VirtualMachine/z"});
    pod
}

fn foreign(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulingGates": [{"name": "example.com/gate"}], "containers": [{"name": "main", "image": "pause"}],
        },
    })
}

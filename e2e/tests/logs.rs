//! What a controller logs while it works, on a fake API server: a line for each thing that it does, and no secrets.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer::telemetry::{LogFormat, subscriber};
use first_consumer_e2e::fake_api::{Options, Scene};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    /// Takes what this thread logs, until the guard is dropped.
    fn take(level: &str) -> Result<(Self, DefaultGuard)> {
        let paper = Self::default();
        let writer = paper.clone();
        let subscriber = subscriber(LogFormat::Json, level, move || writer.clone())?;
        Ok((paper, tracing::subscriber::set_default(subscriber)))
    }

    fn text(&self) -> String {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&written).into_owned()
    }

    /// Level, message and reason of the lines about a VM; all lines are JSON.
    fn about(&self, subject: &str) -> Result<Vec<[String; 3]>> {
        let lines: Vec<Value> = self
            .text()
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let field = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let lines = lines.iter().filter(|line| line["subject"] == subject);
        Ok(lines
            .map(|line| ["level", "message", "reason"].map(|name| field(line, name)))
            .collect())
    }
}

#[tokio::test(start_paused = true)]
async fn a_served_vm_has_a_line_for_each_thing_that_was_done() -> Result<()> {
    let (paper, _taking) = Paper::take("info")?;
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.advance(Duration::from_mins(10)).await;
    let lines = paper.about("ns/db")?;
    let expected = [
        ["INFO", "created the pod", "FirstConsumerNeeded"],
        ["INFO", "deleted the pod", "Served"],
    ];
    ensure!(lines == expected, "{lines:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_in_the_same_way_is_said_once() -> Result<()> {
    let (paper, _taking) = Paper::take("info")?;
    let scene = Scene::new(Options::default()).await?;
    let refuses = |_: &Value| Some("no pods on Sundays".to_owned());
    scene.api.admission(Some(Box::new(refuses)));
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.advance(Duration::from_mins(10)).await;
    let attempts = scene.calls().of("create", "pods").len();
    ensure!(attempts > 2, "{attempts} attempts");
    let lines = paper.about("ns/db")?;
    ensure!(
        lines == [["WARN", "the API server refused the pod", "CreateRefused"]],
        "{lines:?}"
    );

    scene.api.admission(None);
    scene.one_node(&vm.claims()).await?;
    scene.wait_no_own_pod().await?;
    ensure!(paper.about("ns/db")?.len() == 3, "{}", paper.text());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn user_data_are_in_no_line_at_any_level() -> Result<()> {
    let (paper, _taking) = Paper::take("trace")?;
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    let mut object = vm.object();
    let secret = json!({"name": "init", "cloudInitNoCloud": {"userData": "password: swordfish"}});
    let volumes = object["spec"]["template"]["spec"]["volumes"].as_array_mut();
    volumes.context("a VM without volumes")?.push(secret);
    scene.create(object).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    let text = paper.text();
    ensure!(text.contains("created the pod"), "{text}");
    ensure!(!text.contains("swordfish"), "a secret is logged");
    Ok(())
}

//! `check` on a real control plane: whatever it finds wrong, its hint repairs, word for word as a person would copy it.
//! Where the hint is no command, or one that only looks, what it asks for is played.

mod installation;
mod neighbours;
mod people;
mod relay;
mod storage;
mod versions;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::STORAGE;
use first_consumer_e2e::control_plane::{ControlPlane, Options, build_controller, wait_for, workspace};
use serde_json::Value;

use crate::explain::words;

pub use people::{what_cannot_be_read, what_people_wrote};

/// What `check` prints, and its exit code.
async fn check(plane: &ControlPlane, flags: &[&str]) -> Result<(String, Option<i32>)> {
    check_with(&plane.kubeconfig()?, flags).await
}

async fn check_with(kubeconfig: &Path, flags: &[&str]) -> Result<(String, Option<i32>)> {
    let mut check = tokio::process::Command::new(build_controller(false).await?);
    check.arg("check").args(flags).arg("--kubeconfig").arg(kubeconfig);
    let output = check.output().await?;
    let text = [output.stdout, output.stderr].concat();
    Ok((String::from_utf8_lossy(&text).into_owned(), output.status.code()))
}

/// The finding that says this, with its mark, and its hint's command as a shell takes it.
fn finding(text: &str, says: &str) -> Option<(char, String)> {
    let starts = |line: &str| line.starts_with(['√', '‼', '×']);
    let lines: Vec<&str> = text.lines().collect();
    let blocks = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| starts(line))
        .map(|(first, _)| {
            let rest = &lines[first + 1..];
            let end = rest.iter().position(|line| starts(line) || line.is_empty());
            [&lines[first..=first], &rest[..end.unwrap_or(rest.len())]]
                .concat()
                .join("\n")
        });
    let mut found = blocks.filter(|block| words(block).contains(says));
    let block = found.next()?;
    let (_, hint) = block.split_once("  Next:   ").unwrap_or_default();
    let command = hint.find("kubectl ").map_or("", |start| &hint[start..]);
    Some((block.chars().next()?, command.to_owned()))
}

/// Fails unless this is found with this mark; returns the hint's command.
async fn expect(plane: &ControlPlane, flags: &[&str], mark: char, says: &str) -> Result<String> {
    let (text, code) = check(plane, flags).await?;
    let (found, command) = finding(&text, says).with_context(|| format!("{says} is not in:\n{text}"))?;
    ensure!(
        found == mark && (mark != '×' || code == Some(1)),
        "{says}: {code:?}\n{text}"
    );
    Ok(command)
}

/// Does what the hint says, and waits until the finding is gone.
async fn repair(plane: &ControlPlane, flags: &[&str], mark: char, says: &str) -> Result<()> {
    follow(plane, flags, mark, says).await?;
    gone(plane, flags, says).await
}

/// Does what the hint says, as it stands there.
async fn follow(plane: &ControlPlane, flags: &[&str], mark: char, says: &str) -> Result<()> {
    let command = expect(plane, flags, mark, says).await?;
    ensure!(!command.is_empty(), "no command repairs: {says}");
    shell(plane, &plane.kubeconfig()?, &command).await
}

/// Runs a hint's command.
async fn shell(plane: &ControlPlane, kubeconfig: &Path, command: &str) -> Result<()> {
    let mut shell = tokio::process::Command::new("sh");
    let kubectl = format!("kubectl() {{ {} \"$@\"; }}\n{command}", plane.kubectl_command());
    shell.arg("-ec").arg(&kubectl).env("KUBECONFIG", kubeconfig);
    let output = shell.current_dir(workspace()).output().await?;
    ensure!(
        output.status.success(),
        "{kubectl}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Waits until this is found: what is served, or allowed, may change a moment later than it was told to.
async fn comes(plane: &ControlPlane, flags: &[&str], says: &str) -> Result<()> {
    wait_for(says, async || {
        let (text, _) = check(plane, flags).await?;
        Ok(finding(&text, says).map(drop))
    })
    .await
}

async fn gone(plane: &ControlPlane, flags: &[&str], says: &str) -> Result<()> {
    wait_for(&format!("the end of: {says}"), async || {
        let (text, _) = check(plane, flags).await?;
        Ok(finding(&text, says).is_none().then_some(()))
    })
    .await
}

async fn apply(plane: &ControlPlane, object: Value) -> Result<()> {
    plane.apply(&object.to_string()).await
}

pub async fn each_hint_repairs_what_is_wrong() -> Result<()> {
    let bare = Options {
        nodes: vec![],
        cdi: false,
        local_path: false,
        pod_security: false,
        ..Options::default()
    };
    let plane = ControlPlane::start(bare).await?;
    plane.apply(STORAGE).await?;
    plane.add_namespace("second").await?;

    installation::nowhere().await?;
    neighbours::cdi_is_missing_or_old(&plane).await?;
    installation::before(&plane).await?;
    installation::for_the_first_time(&plane).await?;
    installation::without_its_rights(&plane).await?;
    neighbours::a_kind_is_missing(&plane).await?;
    storage::no_class_waits(&plane).await?;
    storage::the_gate_is_off(&plane).await?;
    people::no_level_of_pod_security(&plane).await?;
    versions::a_neighbour_is_old(&plane).await?;
    versions::another_kubernetes(&plane).await?;
    let controller = installation::nobody_works(&plane).await?;
    let (text, code) = check(&plane, &[]).await?;
    let fine = text.ends_with("\nAll is as it should be.\n");
    ensure!(code == Some(0) && fine, "{code:?}\n{text}");
    controller.stop().await?;
    plane.stop().await
}

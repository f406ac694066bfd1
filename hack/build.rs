//! Tells the code which commit it is built from, so that `first-consumer version` can say so.

use std::path::Path;
use std::process::Command;

/// Where the commit comes from if there is no checkout, such as in an image that is built from an archive.
const GIVEN: &str = "FIRST_CONSUMER_COMMIT";

fn main() {
    println!("cargo:rerun-if-changed=hack/build.rs");
    println!("cargo:rerun-if-env-changed={GIVEN}");
    let given = std::env::var(GIVEN).ok().filter(|commit| !commit.is_empty());
    // Developers commit more often than they want to compile everything again.
    let released = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| released.then(|| checked_out(Path::new(".")))?);
    println!("cargo:rustc-env=FIRST_CONSUMER_VERSION={}", version(commit));
}

/// The version with its commit.
pub(crate) fn version(commit: Option<String>) -> String {
    let commit = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    format!("v{}{commit}", env!("CARGO_PKG_VERSION"))
}

/// The commit of a checkout that has its root in this folder.
pub(crate) fn checked_out(folder: &Path) -> Option<String> {
    // A checkout of somebody else's, of which the sources are only a folder, says nothing about them.
    let prefix = git(folder, &["rev-parse", "--show-prefix"])?;
    prefix.is_empty().then_some(())?;
    // Every commit and every change of the branch ends in this file.
    let log = git(folder, &["rev-parse", "--git-path", "logs/HEAD"])?;
    if folder.join(&log).exists() {
        println!("cargo:rerun-if-changed={log}");
    }
    git(folder, &["rev-parse", "--short=12", "HEAD"])
}

/// What git says, if there is a git and it has an answer.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(folder).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

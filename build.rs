//! Tells the code which commit it is built from, so that `first-consumer version` can say so.

use std::path::Path;
use std::process::Command;

/// Where the commit comes from if there is no checkout, such as in an image that is built from an archive.
const GIVEN: &str = "FIRST_CONSUMER_COMMIT";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={GIVEN}");
    let given = std::env::var(GIVEN).ok().filter(|commit| !commit.is_empty());
    // A checkout of somebody else's, of which the sources are only a folder, says nothing about them.
    let own_checkout = git(&["rev-parse", "--show-prefix"]).is_some_and(|prefix| prefix.is_empty());
    let commit = given.or_else(|| {
        own_checkout.then_some(())?;
        // Every commit and every change of the branch ends in this file.
        let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
        if Path::new(&log).exists() {
            println!("cargo:rerun-if-changed={log}");
        }
        git(&["rev-parse", "--short=12", "HEAD"])
    });
    let commit = commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
    println!(
        "cargo:rustc-env=FIRST_CONSUMER_VERSION=v{}{commit}",
        env!("CARGO_PKG_VERSION")
    );
}

/// What git says, if there is a git and it has an answer.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}

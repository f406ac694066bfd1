//! Every function of the product's placement that others use names the function of KubeVirt that it mirrors.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::control_plane::workspace;

/// What reads the spec, the unit tests, and peers (design section 8), which KubeVirt does not know, mirror nothing.
const OWN: [&str; 3] = ["spec.rs", "tests.rs", "peers.rs"];

/// Fails with the line of the first function that names none.
pub fn check() -> Result<()> {
    for file in fs::read_dir(workspace().join("src/placement"))? {
        let file = file?.path();
        if OWN.iter().any(|own| file.ends_with(own)) {
            continue;
        }
        let mut mirrors = false;
        for line in fs::read_to_string(&file)?.lines().map(str::trim) {
            if let Some(mirrored) = line.strip_prefix("/// Mirrors: ") {
                let (path, function) = mirrored.split_once("::").context("not FILE::FUNCTION")?;
                mirrors = Path::new(path).extension().is_some_and(|kind| kind == "go")
                    && !function.is_empty()
                    && !mirrored.contains(' ');
            } else if ["pub fn ", "pub(super) fn ", "pub const fn "]
                .iter()
                .any(|public| line.starts_with(public))
            {
                ensure!(mirrors, "{}: {line}", file.display());
            }
            if !line.starts_with("///") && !line.starts_with("#[") {
                mirrors = false;
            }
        }
    }
    Ok(())
}

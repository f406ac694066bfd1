//! Builds the programs of the control plane from pinned Go modules, once, into `target/control-plane/bin`.

use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;

use super::process::tail;

/// How often a line says that a build is still going on.
const PROGRESS: Duration = Duration::from_secs(10);

/// The programs that a control plane is made of.
#[derive(Clone, Debug)]
pub struct Programs {
    /// etcd, kube-apiserver, kube-scheduler, kube-controller-manager and kubectl in one program; its first argument
    /// chooses.
    pub control_plane: PathBuf,
    /// Plays the nodes and their pods.
    pub kwok: PathBuf,
    /// The provisioner of the storage class `local-path`.
    pub local_path_provisioner: PathBuf,
    /// Runs any program so that it cannot outlive us.
    pub leash: PathBuf,
}

/// The folder of the workspace, where `Cargo.toml` and `manifests/` are.
#[must_use]
pub fn workspace() -> PathBuf {
    let e2e = Path::new(env!("CARGO_MANIFEST_DIR"));
    e2e.parent().unwrap_or(e2e).to_path_buf()
}

/// Everything that the harness writes is below this folder.
pub(super) fn target() -> PathBuf {
    workspace().join("target/control-plane")
}

/// Makes sure that all programs are there and match their pins. Takes minutes on a cold machine, and then says every
/// ten seconds what it is doing; takes milliseconds when nothing changed. Fails if Go is missing or too old, or with the
/// end of the compiler's output.
pub async fn programs() -> Result<Programs> {
    let bin = target().join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("cannot create {}", bin.display()))?;
    // Two test binaries that start at once build once; the lock goes with the file handle.
    let _lock = lock(&target().join("build.lock")).await?;
    let sources = Sources::read(&workspace().join("hack/control-plane"))?;
    let stale: Vec<Part> = sources
        .parts(&bin)?
        .into_iter()
        .filter(|part| !part.is_fresh(&bin))
        .collect();
    if !stale.is_empty() {
        check_go(&sources.go_version).await?;
    }
    for (index, part) in stale.iter().enumerate() {
        part.build(&bin, &format!("{} ({} of {})", part.name, index + 1, stale.len()))
            .await?;
    }
    let program = |name| bin.join(name);
    Ok(Programs {
        control_plane: program("control-plane"),
        kwok: program("kwok"),
        local_path_provisioner: program("local-path-provisioner"),
        leash: program("leash"),
    })
}

async fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if !told => {
                told = true;
                eprintln!("control plane: another process is building it; waiting");
            }
            Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(TryLockError::Error(error)) => return Err(error).context("cannot lock the build"),
        }
    }
}

/// What the programs are built from.
struct Sources {
    folder: PathBuf,
    go_version: String,
    kubernetes: String,
    pins: Vec<(String, String)>,
}

impl Sources {
    fn read(folder: &Path) -> Result<Self> {
        let go_mod = read(&folder.join("go.mod"))?;
        let word_after = |first: &str| {
            let mut lines = go_mod.lines().map(str::trim);
            lines.find_map(|line| line.strip_prefix(first)?.split_whitespace().next().map(str::to_owned))
        };
        let pins = read(&folder.join("pins"))?;
        let pins = pins.lines().filter(|line| !line.trim_start().starts_with('#'));
        let pins = pins.filter_map(|line| line.split_once('='));
        Ok(Self {
            folder: folder.to_owned(),
            go_version: word_after("go ").context("go.mod has no go line")?,
            kubernetes: word_after("k8s.io/kubernetes ").context("go.mod does not pin k8s.io/kubernetes")?,
            pins: pins
                .map(|(name, package)| (name.trim().to_owned(), package.trim().to_owned()))
                .collect(),
        })
    }

    /// All parts; the leash first because it is quick.
    fn parts(&self, bin: &Path) -> Result<Vec<Part>> {
        let text = |name: &str| read(&self.folder.join(name));
        let go_build = |name: &str, package: &str, ldflags: String, inputs: String| {
            // The slash makes it a folder.
            let output = bin.join(format!("{name}.new/")).display().to_string();
            let arguments = ["build", "-trimpath", "-ldflags", &ldflags, "-o", &output, package]
                .map(str::to_owned)
                .to_vec();
            Part {
                name: name.to_owned(),
                folder: self.folder.clone(),
                recipe: format!("{arguments:?}\n{inputs}"),
                arguments,
            }
        };
        let mut parts = vec![
            go_build("leash", "./leash", "-s -w".to_owned(), text("leash/main.go")?),
            go_build(
                "control-plane",
                ".",
                version_flags(&self.kubernetes),
                text("go.mod")? + &text("go.sum")? + &text("main.go")?,
            ),
        ];
        for (name, package) in &self.pins {
            let arguments = vec!["install".to_owned(), package.clone()];
            let recipe = format!("{arguments:?}");
            // Outside the module, so that its go.mod has no say in the pinned program's dependencies.
            parts.push(Part {
                name: name.clone(),
                folder: bin.to_owned(),
                recipe,
                arguments,
            });
        }
        Ok(parts)
    }
}

/// Without these the API server calls itself v0.0.0-master and clients complain.
fn version_flags(kubernetes: &str) -> String {
    let numbers: Vec<&str> = kubernetes.trim_start_matches('v').split('.').collect();
    let mut flags = "-s -w".to_owned();
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        let values = [
            ("gitVersion", Some(&kubernetes)),
            ("gitMajor", numbers.first()),
            ("gitMinor", numbers.get(1)),
        ];
        for (variable, value) in values {
            let _ = write!(flags, " -X {package}.{variable}={}", value.unwrap_or(&""));
        }
    }
    flags
}

/// One program and how it is built.
struct Part {
    name: String,
    folder: PathBuf,
    arguments: Vec<String>,
    /// Everything that decides what comes out, kept beside the program.
    recipe: String,
}

impl Part {
    fn stamp(&self, bin: &Path) -> PathBuf {
        bin.join(format!("{}.recipe", self.name))
    }

    /// Where go puts the program; it gets its place in one step when it is complete.
    fn output(&self, bin: &Path) -> PathBuf {
        bin.join(format!("{}.new", self.name))
    }

    fn is_fresh(&self, bin: &Path) -> bool {
        bin.join(&self.name).exists() && fs::read_to_string(self.stamp(bin)).is_ok_and(|built| built == self.recipe)
    }

    async fn build(&self, bin: &Path, label: &str) -> Result<()> {
        let log = bin.join(format!("{}.log", self.name));
        let built = self.output(bin);
        let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        // On the leash a build ends with us. Only the leash itself, which takes a second, is built without.
        let mut go = if self.name == "leash" {
            Command::new("go")
        } else {
            let mut leash = Command::new(bin.join("leash"));
            leash.arg("go");
            leash
        };
        go.args(&self.arguments).current_dir(&self.folder).kill_on_drop(true);
        go.envs([("CGO_ENABLED", "0"), ("GOTOOLCHAIN", "local"), ("GOWORK", "off")]);
        go.env("GOBIN", &built).stdin(Stdio::piped());
        go.stdout(output.try_clone()?).stderr(output);
        let started = Instant::now();
        eprintln!("control plane: building {label}");
        let mut child = go.spawn().context("cannot start go")?;
        // `wait` would close it, and the leash would take that for our end.
        let stdin = child.stdin.take();
        let status = loop {
            let Ok(status) = tokio::time::timeout(PROGRESS, child.wait()).await else {
                let seconds = started.elapsed().as_secs();
                eprintln!("control plane: building {label}, {seconds} s so far");
                continue;
            };
            break status?;
        };
        drop(stdin);
        if !status.success() {
            bail!("building {} failed:\n{}", self.name, tail(&log, 30));
        }
        // A running copy keeps its old file; the new one takes only the name.
        let renamed = fs::rename(built.join(&self.name), bin.join(&self.name));
        renamed.with_context(|| format!("go built no {}", self.name))?;
        fs::remove_dir_all(&built)?;
        fs::write(self.stamp(bin), &self.recipe)?;
        Ok(())
    }
}

async fn check_go(wanted: &str) -> Result<()> {
    let need = format!("the control plane is built with Go {wanted} or newer; install it from https://go.dev/dl/");
    // `local`: the version that is installed, not one that it would fetch.
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .env("GOTOOLCHAIN", "local")
        .output()
        .await;
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!("there is no `go` in PATH: {need}"),
        other => other.context("cannot start go")?,
    };
    let found = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(
        version_numbers(&found) >= version_numbers(wanted),
        "`go` in PATH is {found}: {need}"
    );
    Ok(())
}

/// `go1.26.8` and `1.26.8` both as `[1, 26, 8]`; whatever follows the numbers is left out.
fn version_numbers(version: &str) -> Vec<u32> {
    let digits = |part: &str| {
        part.split(|c: char| !c.is_ascii_digit())
            .next()
            .and_then(|digits| digits.parse().ok())
    };
    version.trim_start_matches("go").split('.').map_while(digits).collect()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions_compare_by_number() {
        assert_eq!(version_numbers("go1.26.8"), [1, 26, 8]);
        assert_eq!(version_numbers("go1.26rc1"), [1, 26]);
        assert!(version_numbers("go1.9.7") < version_numbers("1.26.0"));
        assert!(version_numbers("devel") < version_numbers("1.26.0"));
    }

    #[test]
    fn the_pins_are_readable() {
        let sources = Sources::read(&workspace().join("hack/control-plane")).unwrap();
        let names: Vec<_> = sources
            .parts(Path::new("bin"))
            .unwrap()
            .into_iter()
            .map(|part| part.name)
            .collect();
        assert_eq!(names, ["leash", "control-plane", "kwok", "local-path-provisioner"]);
        assert!(version_flags(&sources.kubernetes).contains("gitMinor=36"));
    }
}

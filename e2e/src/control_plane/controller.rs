//! Runs the product's binary as its Deployment says.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::EnvVar;
use kube::Api;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::Mutex;

use super::build::workspace;
use super::parts::free_port;
use super::plane::ControlPlane;
use super::process::{Order, Process};
use super::wait::wait_for;

/// The namespace of the shipped Deployment, and its name.
const NAMESPACE: &str = "first-consumer";
const DEPLOYMENT: &str = "first-consumer";
const LISTEN: &str = "FIRST_CONSUMER_LISTEN";

/// How a controller differs from what its Deployment says.
#[derive(Clone, Debug, Default)]
pub struct ControllerOptions {
    /// Whether the binary is built with the release profile.
    pub release: bool,
    /// Variables that win over the Deployment's arguments and environment, for example
    /// `FIRST_CONSUMER_WATCH_NAMESPACE`. `FIRST_CONSUMER_LISTEN` is a free port of this machine unless given here.
    pub environment: Vec<(String, String)>,
}

impl ControllerOptions {
    /// A controller of one namespace that needs no Lease.
    #[must_use]
    pub fn watching(namespace: &str) -> Self {
        let environment = [
            ("FIRST_CONSUMER_WATCH_NAMESPACE", namespace),
            ("FIRST_CONSUMER_LEADER_ELECT", "false"),
        ];
        let environment = environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        Self {
            environment,
            ..Self::default()
        }
    }
}

/// A running first-consumer. Dropping it kills it; it ends with its control plane at the latest.
#[derive(Debug)]
pub struct Controller {
    process: Arc<Process>,
    listen: String,
    plane: Arc<super::run::Run>,
}

impl Controller {
    /// Builds the binary, reads the applied Deployment, and starts the binary with that container's arguments and
    /// environment and with a token of its ServiceAccount. Does not wait until it is ready.
    pub async fn start(plane: &ControlPlane, options: &ControllerOptions) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let program = build_controller(options.release).await?;
        let deployments: Api<Deployment> = Api::namespaced(plane.client(), NAMESPACE);
        let deployment = deployments
            .get(DEPLOYMENT)
            .await
            .context("the Deployment is not applied")?;
        let name = format!("{DEPLOYMENT}-{}", COUNT.fetch_add(1, Ordering::Relaxed));

        let mut overrides = options.environment.clone();
        if !overrides.iter().any(|(variable, _)| variable == LISTEN) {
            overrides.push((LISTEN.to_owned(), format!("127.0.0.1:{}", free_port()?)));
        }
        let listen = overrides.iter().rfind(|(variable, _)| variable == LISTEN);
        let listen = listen.map(|(_, address)| address.clone()).unwrap_or_default();
        let asked = Asked::read(&deployment, &name)?;
        let kubeconfig = plane
            .service_account_kubeconfig(NAMESPACE, &asked.service_account)
            .await?;
        let mut environment = asked.environment;
        environment.push(("KUBECONFIG".to_owned(), kubeconfig.display().to_string()));
        let arguments = without_overridden(asked.arguments, &overrides);
        environment.extend(overrides);
        let arguments = arguments.into_iter().map(Into::into).collect();
        let process = plane.start_process(Order {
            name,
            program,
            arguments,
            environment,
        })?;
        Ok(Self {
            process,
            listen,
            plane: Arc::clone(&plane.run),
        })
    }

    /// Waits until `/readyz` says yes. Fails if the binary has ended, with the end of its log.
    pub async fn wait_ready(&self) -> Result<()> {
        wait_for("first-consumer is ready", async || {
            ensure!(!self.process.has_ended(), "first-consumer has ended");
            Ok(self.get("/readyz").await.is_ok().then_some(()))
        })
        .await
        .with_context(|| format!("the end of its log:\n{}", self.process.log_tail()))
    }

    /// The body that its own HTTP server gives for a path, for example `/metrics`. Fails unless the status is 200.
    pub async fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.listen).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.listen
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await??;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        ensure!(
            head.split(' ').nth(1) == Some("200"),
            "{path}: {}",
            head.lines().next().unwrap_or_default()
        );
        Ok(body.to_owned())
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub async fn kill(&self) {
        self.plane.forget(&self.process);
        self.process.kill().await;
    }

    /// Asks it to end (SIGTERM) and waits. Fails unless it then exits with 0.
    pub async fn stop(&self) -> Result<()> {
        self.plane.forget(&self.process);
        match self.process.stop().await {
            Some(0) => Ok(()),
            code => bail!("first-consumer ended with {code:?}:\n{}", self.process.log_tail()),
        }
    }

    /// All that it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The process id of its leash, whose only child it is.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // One that has ended on its own stays listed, so that the control plane's `stop` tells of it.
        if !self.process.has_ended() {
            self.plane.forget(&self.process);
            self.process.kill_blocking();
        }
    }
}

/// What a Deployment asks for.
struct Asked {
    service_account: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Asked {
    fn read(deployment: &Deployment, pod: &str) -> Result<Self> {
        let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let spec = spec.context("the Deployment has no pod")?;
        let container = spec.containers.first().context("the Deployment has no container")?;
        // A command's first word is the program itself.
        let command = container.command.iter().flatten().skip(1);
        let environment = container
            .env
            .iter()
            .flatten()
            .map(|variable| Ok((variable.name.clone(), value(variable, pod)?)));
        Ok(Self {
            service_account: spec
                .service_account_name
                .clone()
                .context("the Deployment names no ServiceAccount")?,
            arguments: command.chain(container.args.iter().flatten()).cloned().collect(),
            environment: environment.collect::<Result<_>>()?,
        })
    }
}

fn value(variable: &EnvVar, pod: &str) -> Result<String> {
    let Some(source) = &variable.value_from else {
        return Ok(variable.value.clone().unwrap_or_default());
    };
    match source.field_ref.as_ref().map(|field| field.field_path.as_str()) {
        Some("metadata.name") => Ok(pod.to_owned()),
        Some("metadata.namespace") => Ok(NAMESPACE.to_owned()),
        _ => bail!("the Deployment takes {} from where the harness cannot", variable.name),
    }
}

/// A flag on the command line would win over the variable of the same name.
fn without_overridden(arguments: Vec<String>, overrides: &[(String, String)]) -> Vec<String> {
    let overridden = |argument: &String| {
        let flag = argument.split('=').next().unwrap_or_default();
        let variable = flag.trim_start_matches("--").to_uppercase().replace('-', "_");
        flag.starts_with("--")
            && overrides
                .iter()
                .any(|(name, _)| *name == format!("FIRST_CONSUMER_{variable}"))
    };
    arguments.into_iter().filter(|argument| !overridden(argument)).collect()
}

/// Builds the product's binary, once per process and profile, and returns its path. Cargo shows its progress.
pub async fn build_controller(release: bool) -> Result<PathBuf> {
    static BUILT: [Mutex<Option<PathBuf>>; 2] = [const { Mutex::const_new(None) }; 2];
    let mut known = BUILT[usize::from(release)].lock().await;
    if let Some(path) = known.as_ref() {
        return Ok(path.clone());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "-p", "first-consumer", "--bin", "first-consumer"]);
    build.args(["--message-format", "json-render-diagnostics"]);
    if release {
        build.arg("--release");
    }
    // What `cargo test` tells its tests about their package: some build scripts read it and would run again each time.
    let package = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_CRATE_",
        "CARGO_BIN_",
        "CARGO_PRIMARY_",
    ];
    for (name, _) in std::env::vars_os() {
        if package.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            build.env_remove(name);
        }
    }
    build
        .current_dir(workspace())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true);
    let output = build.output().await.context("cannot start cargo")?;
    ensure!(output.status.success(), "first-consumer does not build");
    let messages = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter::<Value>()
        .filter_map(Result::ok);
    let path = messages
        .filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)))
        .last();
    let path = path
        .filter(|path: &PathBuf| Path::exists(path))
        .context("cargo built no first-consumer")?;
    *known = Some(path.clone());
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_removes_the_flag_that_would_win() {
        let arguments = ["run", "--leader-elect", "--listen=:8080", "--halted-vms=all"]
            .map(str::to_owned)
            .to_vec();
        let overrides = [("FIRST_CONSUMER_LISTEN", ""), ("FIRST_CONSUMER_LEADER_ELECT", "false")];
        let overrides = overrides.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(without_overridden(arguments, &overrides), ["run", "--halted-vms=all"]);
    }
}

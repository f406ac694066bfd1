//! The command line: flags in, settings out; and the commands that only print.

pub mod check;
pub mod completion;
pub mod connection;
mod empty;
pub mod explain;
pub mod files;
mod layout;
pub mod names;
pub mod render;
pub mod supported;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
pub use empty::read;

use crate::cluster::client::Target;
use crate::decide;
use crate::pod;
use crate::policy::{HaltedVms, Policy, StartedVms};
use crate::telemetry::LogFormat;

/// Gives the disks of KubeVirt VMs their first consumer.
///
/// On storage that binds late (volumeBindingMode: WaitForFirstConsumer) the DataVolumes of a VM stay empty until a pod
/// uses their claims, and a VM that is not started has none. The controller makes a small temporary pod that asks the
/// scheduler for what the VM will ask for; as soon as every disk has its node, the pod is gone and CDI fills the disks.
#[derive(Debug, Parser)]
#[command(
    name = "first-consumer",
    version = supported::VERSION,
    about,
    long_about,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = EXAMPLES
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  kubectl annotate vm/db first-consumer.kubevirt.io/provision=true   # fill the disks of a halted VM
  first-consumer explain vm/db    # why they are not filled yet
  first-consumer explain -A       # all VMs that wait
  first-consumer check --pre      # before it is installed: has the cluster what it needs

Also as a kubectl plugin: kubectl first-consumer explain vm/db

Exit codes:
  0  fine
  1  something waits or fails
  2  wrong use, or input or output that fails
  3  the cluster cannot be reached, forbids it, or does not have it";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the controller; in a cluster its Deployment does.
    Run(Box<Run>),
    /// Print the first-consumer pod of VMs, from files or from a cluster.
    Render(Box<render::Render>),
    /// Say what a VM's disks wait for: one cause and one next step; without a name a table of the VMs that wait.
    #[command(visible_alias = "status")]
    Explain(Box<explain::Explain>),
    /// Say whether the cluster has what first-consumer needs, and how to get what it lacks.
    Check(Box<check::Check>),
    /// Print the script by which a shell completes commands and flags.
    Completion(completion::Completion),
    /// Print the version, the commit, and the versions of KubeVirt, CDI and Kubernetes that it is made for.
    Version,
}

/// Why a command has failed: the exit code and a text.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// 1: KubeVirt refuses it; 2: wrong use or unreadable input; 3: the cluster is unreachable, forbids it or does not
    /// have it.
    pub code: u8,
    /// What to say.
    pub message: String,
}

impl Failure {
    /// KubeVirt refuses it.
    pub fn refused(message: impl Into<String>) -> Self {
        Self {
            code: 1,
            message: message.into(),
        }
    }

    /// Wrong use, or input that can't be read.
    pub fn unusable(message: impl Into<String>) -> Self {
        Self {
            code: 2,
            message: message.into(),
        }
    }

    /// The cluster can't be reached, forbids it, or does not have it.
    pub fn cluster(message: impl Into<String>) -> Self {
        Self {
            code: 3,
            message: message.into(),
        }
    }
}

/// Flags of `run`; each can also be given as `FIRST_CONSUMER_<FLAG>`.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Which halted VMs to serve: those that ask by annotation, all but those that opt out, or none.
    #[arg(
        long,
        env = "FIRST_CONSUMER_HALTED_VMS",
        default_value = "opt-in",
        value_name = "opt-in|all|none"
    )]
    pub halted_vms: HaltedVms,
    /// Which started VMs to serve: those that virt-controller has left alone for a while, all at once, or none.
    #[arg(
        long,
        env = "FIRST_CONSUMER_STARTED_VMS",
        default_value = "fallback",
        value_name = "fallback|always|none"
    )]
    pub started_vms: StartedVms,
    /// How long virt-controller is left alone with a started VM, such as 10s or 2m.
    #[arg(long, env = "FIRST_CONSUMER_FALLBACK_AFTER", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    pub fallback_after: Duration,
    /// How the pods look.
    #[command(flatten)]
    pub pod: PodFlags,
    /// Serve only this Namespace.
    #[arg(long, env = "FIRST_CONSUMER_WATCH_NAMESPACE", value_name = "NAMESPACE")]
    pub watch_namespace: Option<String>,
    /// How many pods to create a second at most.
    #[arg(long, env = "FIRST_CONSUMER_CREATE_RATE", default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub create_rate: u32,
    /// Address of /metrics, /healthz, /livez and /readyz.
    #[arg(
        long,
        env = "FIRST_CONSUMER_LISTEN",
        default_value = "[::]:8080",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,
    /// Take part in leader election, so that only one of several replicas writes.
    #[arg(long, env = "FIRST_CONSUMER_LEADER_ELECT", num_args = 0..=1, default_value_t = false, default_missing_value = "true", require_equals = true)]
    pub leader_elect: bool,
    /// Name of this process in the election; every replica needs its own.
    #[arg(
        long,
        env = "FIRST_CONSUMER_POD_NAME",
        required_if_eq("leader_elect", "true"),
        value_name = "NAME"
    )]
    pub pod_name: Option<String>,
    /// Namespace of the election's Lease.
    #[arg(
        long,
        env = "FIRST_CONSUMER_POD_NAMESPACE",
        default_value = "first-consumer",
        value_name = "NAMESPACE"
    )]
    pub pod_namespace: String,
    /// Path of the kubeconfig; without it the usual places, then the Pod's ServiceAccount.
    #[arg(long, env = "FIRST_CONSUMER_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, env = "FIRST_CONSUMER_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// How log lines look.
    #[arg(
        long,
        env = "FIRST_CONSUMER_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
    /// Which lines are logged: error, warn, info, debug, or a filter such as first_consumer=debug.
    #[arg(long, env = "FIRST_CONSUMER_LOG_LEVEL", default_value = "info", value_name = "LEVEL")]
    pub log_level: String,
}

/// How the pods look; `run` and `render` take the same flags.
#[derive(Clone, Debug, Args)]
pub struct PodFlags {
    /// Priority class of the pods of halted VMs, instead of the VM's own.
    #[arg(long, env = "FIRST_CONSUMER_HALTED_PRIORITY_CLASS", value_name = "NAME")]
    pub halted_priority_class: Option<String>,
    /// Image of the pods.
    #[arg(
        long,
        env = "FIRST_CONSUMER_POD_IMAGE",
        default_value = "registry.k8s.io/pause:3.10",
        value_name = "IMAGE"
    )]
    pub pod_image: String,
    /// Command of the pods, split at blanks; it has to end by itself.
    #[arg(
        long,
        env = "FIRST_CONSUMER_POD_COMMAND",
        default_value = "/pause -v",
        value_name = "COMMAND"
    )]
    pub pod_command: String,
}

impl PodFlags {
    /// What a pod is built with.
    #[must_use]
    pub fn settings(&self) -> pod::Settings {
        pod::Settings {
            image: self.pod_image.clone(),
            command: self.pod_command.split_whitespace().map(str::to_owned).collect(),
            halted_priority_class: self.halted_priority_class.clone(),
        }
    }
}

impl Run {
    /// What the decision needs of the flags.
    #[must_use]
    pub fn settings(&self) -> decide::Settings {
        decide::Settings {
            policy: Policy {
                halted: self.halted_vms,
                started: self.started_vms,
                fallback_after: self.fallback_after,
            },
            pod: self.pod.settings(),
        }
    }

    /// Which cluster to talk to.
    #[must_use]
    pub fn target(&self) -> Target {
        Target {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..Target::default()
        }
    }
}

#[cfg(test)]
mod help;

/// A duration such as `10s`, `1m30s` or `0s`.
fn duration(text: &str) -> Result<Duration, String> {
    let span: k8s_openapi::jiff::SignedDuration = text.parse().map_err(|error| format!("{error}"))?;
    span.try_into().map_err(|_| "must not be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn run(words: &[&str]) -> Run {
        let cli = Cli::try_parse_from([&["first-consumer", "run"], words].concat()).expect("readable");
        match cli.command {
            Command::Run(run) => *run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_become_settings() {
        let settings = run(&[
            "--halted-vms",
            "all",
            "--fallback-after=1m30s",
            "--pod-command",
            "/bin/true  now",
        ])
        .settings();
        assert_eq!(settings.policy.halted, HaltedVms::All);
        assert_eq!(settings.policy.fallback_after, Duration::from_secs(90));
        assert_eq!(settings.pod.command, ["/bin/true", "now"]);
        assert_eq!(run(&[]).settings(), decide::Settings::default());
        assert!(run(&["--leader-elect", "--pod-name=a"]).leader_elect && !run(&["--leader-elect=false"]).leader_elect);
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        for wrong in [
            "--halted-vms=some",
            "--fallback-after=-1s",
            "--create-rate=0",
            "--listen=here",
        ] {
            let error = Cli::try_parse_from(["first-consumer", "run", wrong]).expect_err("refused");
            let flag = wrong.split('=').next().expect("a flag");
            assert!(error.to_string().contains(flag), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn every_flag_of_run_can_come_from_the_environment() {
        let command = Cli::command();
        let run = command.find_subcommand("run").expect("run");
        for flag in run
            .get_arguments()
            .filter(|flag| flag.get_id() != "help" && flag.get_id() != "version")
        {
            let name = format!("FIRST_CONSUMER_{}", flag.get_id().as_str().to_uppercase());
            assert_eq!(flag.get_env().and_then(|name| name.to_str()), Some(&*name));
        }
    }
}

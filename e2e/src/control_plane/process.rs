//! A child process that cannot outlive us, with its output in a file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The leash gives its program 20 s after SIGTERM; a little more until we give up on the leash.
const STOP_WITHIN: Duration = Duration::from_secs(25);
/// How long the kernel may take to remove a killed process, on a busy machine.
const KILL_WITHIN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// What to run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Names the log file and the part in error texts.
    pub name: String,
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The variables that it gets; of our own only `PATH`.
    pub environment: Vec<(String, String)>,
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    order: Order,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    /// Starts a program on a leash; its output goes to `FOLDER/NAME.log`, appended if that exists.
    pub fn start(leash: &Path, folder: &Path, order: Order) -> Result<Self> {
        let log = folder.join(format!("{}.log", order.name));
        let output = File::options().create(true).append(true).open(&log)?;
        let mut command = Command::new(leash);
        command.arg(&order.program).args(&order.arguments).current_dir(folder);
        // What a user has set for their own etcd, kwok or first-consumer must not leak in; nor their home's files.
        command.env_clear().env("HOME", folder);
        // The parts in Go keep little and throw much away; two cores have better to do than to collect it each time.
        command.env("GOGC", "400");
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.envs(order.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", order.name))?;
        Ok(Self {
            order,
            log,
            child: Mutex::new(child),
        })
    }

    /// The name it was started with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.order.name
    }

    /// What it was started with.
    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// The process id of its leash.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child().id()
    }

    /// All that it has written so far, empty if that cannot be read.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of its output.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&self.log, 20)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !matches!(self.child().try_wait(), Ok(None))
    }

    /// Asks it to end (SIGTERM) and waits; after 20 s it is killed. Returns its exit code, `None` if it had to be
    /// abandoned.
    pub async fn stop(&self) -> Option<i32> {
        drop(self.child().stdin.take());
        if !self.ended_within(STOP_WITHIN).await {
            self.kill_leash();
        }
        self.exit_code()
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub async fn kill(&self) {
        self.order_kill();
        if !self.ended_within(KILL_WITHIN).await {
            self.kill_leash();
        }
    }

    /// Kills it and waits, for where nothing can be awaited: a signal, a panic, a drop.
    pub(super) fn kill_blocking(&self) {
        self.order_kill();
        let until = Instant::now() + KILL_WITHIN;
        while !self.has_ended() {
            if Instant::now() > until {
                self.kill_leash();
                return;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Tells the leash to kill at once; whoever orders several first and waits then, waits only once.
    pub(super) fn order_kill(&self) {
        if let Some(mut stdin) = self.child().stdin.take() {
            // Fails only if the leash is gone, and then so is its program.
            let _ = stdin.write_all(b"k");
        }
    }

    async fn ended_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.has_ended() {
            if Instant::now() > until {
                return false;
            }
            tokio::time::sleep(POLL).await;
        }
        true
    }

    /// The kernel then kills the program.
    fn kill_leash(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    fn exit_code(&self) -> Option<i32> {
        self.child().try_wait().ok().flatten().and_then(|status| status.code())
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_blocking();
    }
}

/// The last lines of a file, empty if it cannot be read.
pub(super) fn tail(file: &Path, lines: usize) -> String {
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

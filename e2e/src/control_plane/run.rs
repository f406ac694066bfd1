//! The folder and the processes of one control plane, and how both go on every way out.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

use super::build::target;
use super::process::{Order, Process};

/// All runs of this process that have not ended.
static RUNS: Mutex<Vec<Weak<Run>>> = Mutex::new(Vec::new());

/// Where the logs of dropped runs are, until somebody asks.
static KEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The folders with the logs of control planes that were dropped since the last call, without `stop` and with
/// `keep_logs_on_failure`. Whoever knows that nothing failed may remove them; the next process with a failure does.
#[must_use]
pub fn kept_logs() -> Vec<PathBuf> {
    std::mem::take(&mut *guard(&KEPT))
}

/// One control plane's folder below `target/control-plane/runs` and everything that runs in it.
#[derive(Debug)]
pub(super) struct Run {
    folder: PathBuf,
    leash: PathBuf,
    processes: Mutex<Vec<Arc<Process>>>,
    keep_logs_on_failure: bool,
    ended: AtomicBool,
    /// Locked while we live: a folder whose lock is free belongs to nobody.
    _lock: File,
}

/// Why a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Somebody wanted it.
    Asked,
    /// Nobody got as far as stopping it: an error or a panic was on its way.
    Dropped,
}

impl Run {
    /// Makes a folder of its own, after removing those that killed runs left. From then on SIGINT, SIGTERM and SIGHUP
    /// end this process only after all its runs have been cleaned up.
    pub(super) fn new(leash: &Path, keep_logs_on_failure: bool) -> Result<Arc<Self>> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        clean_up_on_signals();
        let runs = target().join("runs");
        fs::create_dir_all(&runs).with_context(|| format!("cannot create {}", runs.display()))?;
        // Nobody may take a folder that is there but not yet locked for an abandoned one.
        let all = File::create(target().join("runs.lock"))?;
        all.lock()?;
        sweep(&runs)?;
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = runs.join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let lock = File::create(folder.join("lock"))?;
        lock.try_lock().context("cannot lock the run folder")?;
        let run = Arc::new(Self {
            folder,
            leash: leash.to_owned(),
            processes: Mutex::default(),
            keep_logs_on_failure,
            ended: AtomicBool::new(false),
            _lock: lock,
        });
        guard(&RUNS).push(Arc::downgrade(&run));
        Ok(run)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a process that ends with this run at the latest.
    pub(super) fn start(&self, order: Order) -> Result<Arc<Process>> {
        // The list stays locked, so that nothing is started behind the back of `end`.
        let mut processes = guard(&self.processes);
        anyhow::ensure!(
            !self.ended.load(Ordering::Acquire),
            "the control plane has been stopped"
        );
        let process = Arc::new(Process::start(&self.leash, &self.folder, order)?);
        processes.push(Arc::clone(&process));
        Ok(process)
    }

    /// No longer ends the process with the run: it has ended.
    pub(super) fn forget(&self, process: &Arc<Process>) {
        guard(&self.processes).retain(|other| !Arc::ptr_eq(other, process));
    }

    /// Kills a process and starts it anew, as it was.
    pub(super) async fn restart(&self, process: &Arc<Process>) -> Result<Arc<Process>> {
        self.forget(process);
        process.kill().await;
        self.start(process.order().clone())
    }

    pub(super) fn processes(&self) -> Vec<Arc<Process>> {
        guard(&self.processes).clone()
    }

    /// Kills everything, removes the folder; the second time does nothing.
    pub(super) fn end(&self, reason: Reason) {
        let mut processes = guard(&self.processes);
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        for process in processes.iter() {
            process.order_kill();
        }
        for process in processes.drain(..) {
            process.kill_blocking();
        }
        if self.keep_logs_on_failure && reason == Reason::Dropped {
            match self.move_logs() {
                Ok(kept) => guard(&KEPT).push(kept),
                Err(error) => eprintln!("control plane: its logs could not be kept: {error:#}"),
            }
        }
        if let Err(error) = remove(&self.folder) {
            eprintln!("control plane: {} could not be removed: {error}", self.folder.display());
        }
    }

    fn move_logs(&self) -> Result<PathBuf> {
        let name = self.folder.file_name().context("the run folder has no name")?;
        let logs = target().join("logs");
        let kept = logs.join(name);
        fs::create_dir_all(&kept)?;
        // Those of earlier processes would pile up.
        let ours = format!("{}-", std::process::id());
        for entry in fs::read_dir(&logs)? {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().starts_with(&ours) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "log" || extension == "jsonl")
            {
                fs::rename(&path, kept.join(path.file_name().unwrap_or_default()))?;
            }
        }
        Ok(kept)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end(Reason::Dropped);
    }
}

/// Ends all runs of this process.
fn end_all() {
    let runs: Vec<_> = guard(&RUNS).iter().filter_map(Weak::upgrade).collect();
    for run in runs {
        run.end(Reason::Asked);
    }
}

/// Waits for signals on a thread of its own: the runtimes of tests come and go.
fn clean_up_on_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let wait = || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            let code = runtime.block_on(async {
                let mut interrupt = signal(SignalKind::interrupt())?;
                let mut terminate = signal(SignalKind::terminate())?;
                let mut hangup = signal(SignalKind::hangup())?;
                anyhow::Ok(tokio::select! {
                    _ = interrupt.recv() => 130,
                    _ = terminate.recv() => 143,
                    _ = hangup.recv() => 129,
                })
            })?;
            end_all();
            std::process::exit(code)
        };
        std::thread::spawn(move || {
            if let Err(error) = wait() {
                eprintln!("control plane: cannot wait for signals, so it may leave files behind: {error:#}");
            }
        });
    });
}

/// Removes the folders of runs that are gone. Their processes died with them.
fn sweep(runs: &Path) -> Result<()> {
    for entry in fs::read_dir(runs)? {
        let folder = entry?.path();
        let free = match File::open(folder.join("lock")) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => true,
        };
        if free && let Err(error) = remove(&folder) {
            eprintln!("control plane: leftover {} stays for now: {error}", folder.display());
        }
    }
    Ok(())
}

/// A process that is just dying may still write, so a second and third try.
fn remove(folder: &Path) -> std::io::Result<()> {
    for _ in 0..2 {
        if fs::remove_dir_all(folder).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    fs::remove_dir_all(folder)
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

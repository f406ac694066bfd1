//! Logs: structured lines on standard error.

use anyhow::Context as _;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, ParseError, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// Sets logs up for the process. The level is a word such as `debug`, or directives as `RUST_LOG` takes them. An error
/// means that it can't be read, or that logs are set up already.
pub fn init(format: LogFormat, level: &str) -> anyhow::Result<()> {
    let subscriber = subscriber(format, level, std::io::stderr).with_context(|| format!("--log-level {level}"))?;
    Ok(subscriber.try_init()?)
}

/// What [`init`] sets up, with another place for the lines. An error means that the level can't be read.
pub fn subscriber<W>(format: LogFormat, level: &str, writer: W) -> Result<impl Subscriber + Send + Sync, ParseError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(level)?;
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.with_ansi(false).boxed(),
    };
    Ok(Registry::default().with(lines).with(filter).with(filter_fn(harmless)))
}

/// Whatever the level: kube logs whole answers when it cannot decode them, with the user data of VMs in them.
fn harmless(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let kube = target.starts_with("kube_client") || target.starts_with("kube_runtime");
    !kube || *metadata.level() <= Level::ERROR
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing::{debug, info, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str, act: impl FnOnce()) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = subscriber(format, level, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, act);
        String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_json_line_holds_the_fields_at_the_top() {
        let text = logged(LogFormat::Json, "info", || {
            info!(subject = "prod/db", reason = "Served", "pod deleted");
            debug!("not shown");
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["subject"], "prod/db");
        assert_eq!(line["message"], "pod deleted");
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn what_kube_would_show_of_answers_is_never_logged_at_any_level() {
        let text = logged(
            LogFormat::Text,
            "trace,kube_client=trace,kube_client::client=trace",
            || {
                warn!(target: "kube_client::client", "SECRET");
                debug!(target: "kube_runtime::watcher", "SECRET");
                tracing::error!(target: "kube_client::client::builder", "failed with status 503");
                debug!("ours");
            },
        );
        assert!(!text.contains("SECRET"), "{text}");
        assert!(
            text.contains("failed with status 503") && text.contains("ours"),
            "{text}"
        );
    }

    #[test]
    fn an_unreadable_level_is_named() {
        let error = init(LogFormat::Text, "first_consumer=loud").unwrap_err();
        assert_eq!(error.to_string(), "--log-level first_consumer=loud");
    }
}

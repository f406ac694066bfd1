use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use serde_json::{Value, json};

use super::*;
use crate::cluster::test_server::{Asked, TestServer, status};

const PATIENCE: Duration = Duration::from_secs(10);

/// A Lease as the API server keeps it, without field managers; fails the first requests.
fn lease(failures: usize) -> impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static {
    failing(failures, |_| true)
}

/// As [`lease`]; only some requests fail.
fn failing(failures: usize, which: fn(&Asked) -> bool) -> impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static {
    let kept: Mutex<Option<Value>> = Mutex::default();
    let left = AtomicUsize::new(failures);
    move |asked| {
        if which(asked)
            && left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
        {
            return status(500, "not now");
        }
        let mut kept = kept.lock().unwrap();
        match (&asked.method, &mut *kept) {
            (&Method::POST, kept) => {
                *kept = Some(json!({"metadata": {"name": "first-consumer"}, "spec": {}}));
            }
            (_, None) => return status(404, "no such lease"),
            (&Method::PATCH, Some(lease)) => {
                for (key, value) in asked.body["spec"].as_object().into_iter().flatten() {
                    lease["spec"][key] = value.clone();
                }
            }
            _ => {}
        }
        (200, kept.as_ref().unwrap().to_string())
    }
}

struct Candidate {
    leadership: Leadership,
    gained: Arc<AtomicUsize>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn candidate(server: &TestServer, identity: &str) -> Candidate {
    let client = Client::try_from(server.config()).unwrap();
    let gained = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&gained);
    let (election, leadership) = Election::new(client, "ns", identity, move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let election = election.marking([("a/flag".to_owned(), "all".to_owned())]);
    let stop = CancellationToken::new();
    let task = tokio::spawn(election.run(stop.clone()));
    Candidate {
        leadership,
        gained,
        stop,
        task,
    }
}

impl Candidate {
    async fn wait(&self) {
        let mut leads = self.leadership.0.clone();
        tokio::time::timeout(PATIENCE, leads.wait_for(|leads| *leads))
            .await
            .unwrap()
            .unwrap();
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
        assert!(!self.leadership.leads());
    }
}

#[test]
fn without_election_we_always_lead() {
    assert!(Leadership::always().leads());
}

#[tokio::test]
async fn the_first_candidate_leads_the_second_does_not_and_the_lease_is_given_back() {
    let server = TestServer::start(lease(0)).await;
    let first = candidate(&server, "pod-a");
    first.wait().await;
    assert_eq!(first.gained.load(Ordering::Relaxed), 1);
    let second = candidate(&server, "pod-b");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!second.leadership.leads());
    second.end().await;
    let releases = || {
        let asked = server
            .requests()
            .into_iter()
            .filter(|asked| asked.method == Method::PATCH);
        asked
            .filter(|asked| asked.body["spec"].get("holderIdentity") == Some(&Value::Null))
            .count()
    };
    assert_eq!(releases(), 0, "a standby gives nothing back");
    let marks = |asked: &Asked| asked.body.pointer("/metadata/annotations/a~1flag").cloned();
    let marks: Vec<Value> = server.requests().iter().filter_map(marks).collect();
    assert_eq!(
        marks,
        ["all"],
        "the leader says with which flags it runs, a standby does not"
    );
    first.end().await;
    assert_eq!(releases(), 1);
    let third = candidate(&server, "pod-c");
    third.wait().await;
    third.end().await;
}

#[tokio::test]
async fn an_api_server_that_fails_at_first_only_delays_the_election() {
    let server = TestServer::start(lease(1)).await;
    let candidate = candidate(&server, "pod-a");
    candidate.wait().await;
    candidate.end().await;
}

/// Otherwise the flags of the leader before would stay.
#[tokio::test]
async fn the_flags_are_told_until_they_are_heard() {
    let marks = |asked: &Asked| asked.body.pointer("/metadata/annotations/a~1flag").is_some();
    let server = TestServer::start(failing(1, marks)).await;
    let candidate = candidate(&server, "pod-a");
    candidate.wait().await;
    tokio::time::sleep(2 * TELL_AGAIN).await;
    let told = server.requests().iter().filter(|asked| marks(asked)).count();
    assert_eq!(told, 2, "again after the failure, and not after the success");
    assert!(candidate.leadership.leads());
    candidate.end().await;
}

#[test]
fn the_lease_tells_what_is_watched() {
    let lease = |namespace: Option<&str>| {
        let (key, value) = watch_mark(namespace);
        serde_json::from_value::<Meta>(json!({"annotations": {key: value}})).unwrap()
    };
    assert_eq!(watched(&lease(Some("prod"))), Some("prod"));
    assert_eq!(watched(&lease(None)), None);
    assert_eq!(watched(&Meta::default()), None);
}

/// What a subscriber writes.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_failure_that_lasts_is_one_warning() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone());
    // As long as there is but one subscriber, whichever thread comes first to a line decides for all whether it is written.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let server = TestServer::start(|_| status(500, "not now")).await;
    let candidate = candidate(&server, "pod-a");
    tokio::time::sleep(5 * RETRY / 2).await;
    candidate.end().await;
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let lines = |level: &str| {
        let ours = text.lines().filter(|line| line.contains("interrupted"));
        ours.filter(|line| line.contains(level)).count()
    };
    assert_eq!(lines(" WARN "), 1, "{text}");
    assert!(lines("DEBUG ") >= 1, "{text}");
}

//! Events on VMs and VMIs, for the person who looks at them. Losing one changes nothing, so no worker ever waits here.
//!
//! Not kube's `Recorder`: it cannot set annotations, and it takes two texts of one reason for the same event.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::client::{CALL_LIMIT, CallError, timed};
use super::series::{Repeat, Series};
use crate::announce::{Announcement, Happening, Regarding};
use crate::clock::Clock;
use crate::name::{DOMAIN, Uid};

/// Who we are to somebody who reads an Event.
const COMPONENT: &str = "first-consumer";

/// How many announcements may wait to be written.
const WAITING: usize = 1024;

/// How long waiting announcements are still written at the end.
const FAREWELL: Duration = Duration::from_secs(3);

/// The API server refuses longer notes.
const NOTE_BYTES: usize = 1024;

/// Where workers leave announcements; cheap to clone.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<Announcement>);

impl Events {
    /// Leaves an announcement to be written soon. `false` if too many are waiting: then it is lost.
    #[must_use]
    pub fn announce(&self, announcement: Announcement) -> bool {
        self.0.try_send(announcement).is_ok()
    }
}

/// Writes announcements, one after the other.
pub struct Publisher {
    client: Client,
    clock: Clock,
    waiting: mpsc::Receiver<Announcement>,
    series: Series<(Uid, Happening)>,
    /// Whether the previous write failed and the log says so.
    failing: bool,
}

/// A place for announcements, and who writes them while [`Publisher::run`] runs. The client should be one that asks an
/// overloaded server again.
#[must_use]
pub fn events(client: Client, clock: Clock) -> (Events, Publisher) {
    let (sender, waiting) = mpsc::channel(WAITING);
    let publisher = Publisher {
        client,
        clock,
        waiting,
        series: Series::default(),
        failing: false,
    };
    (Events(sender), publisher)
}

impl Publisher {
    /// Writes until `stop`, and then for a short while what is still waiting.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                announcement = self.waiting.recv() => match announcement {
                    Some(announcement) => self.publish(announcement).await,
                    None => return,
                },
            }
        }
        self.waiting.close();
        let rest = async {
            while let Some(announcement) = self.waiting.recv().await {
                self.publish(announcement).await;
            }
        };
        // What is not written by now is lost with the process, like any Event that nobody saw.
        let _ = tokio::time::timeout(FAREWELL, rest).await;
    }

    async fn publish(&mut self, mut announcement: Announcement) {
        cut(&mut announcement.note);
        match self.write(&announcement).await {
            Ok(()) => self.failing = false,
            Err(error) if self.failing => debug!(%error, "an event could not be written"),
            Err(error) => {
                self.failing = true;
                warn!(%error, "events cannot be written at the moment");
            }
        }
    }

    async fn write(&mut self, announcement: &Announcement) -> Result<(), CallError> {
        let Announcement {
            regarding,
            happening,
            note,
            ..
        } = announcement;
        let api = Api::<Event>::namespaced(self.client.clone(), &regarding.key.namespace);
        let topic = (regarding.uid.clone(), *happening);
        let now = self.clock.now();
        match self.series.repeat(&topic, note, Instant::now()) {
            Repeat::Quiet => return Ok(()),
            Repeat::Again { name, count } => {
                let patch = Patch::Merge(json!({"count": count, "lastTimestamp": Time(now)}));
                match timed(CALL_LIMIT, api.patch(&name, &PatchParams::default(), &patch)).await {
                    // Events live for an hour; this one is gone already.
                    Err(error) if error.code() == Some(404) => self.series.forget(&topic, note),
                    result => return result.map(drop),
                }
            }
            Repeat::New => {}
        }
        let event = event(announcement, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        timed(CALL_LIMIT, api.create(&PostParams::default(), &event)).await?;
        self.series.written(topic, note, name, Instant::now());
        Ok(())
    }
}

fn event(announcement: &Announcement, now: Timestamp) -> Event {
    let Regarding {
        api_version,
        kind,
        key,
        uid,
    } = &announcement.regarding;
    let reason = (format!("{DOMAIN}/reason"), announcement.decision.name());
    Event {
        metadata: ObjectMeta {
            name: Some(event_name(&key.name, now)),
            namespace: Some(key.namespace.to_string()),
            annotations: Some([reason].into()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some((*api_version).to_owned()),
            kind: Some((*kind).to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        },
        type_: Some(if announcement.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(announcement.happening.to_string()),
        message: Some(announcement.note.clone()),
        source: Some(EventSource {
            component: Some(COMPONENT.to_owned()),
            host: None,
        }),
        reporting_component: Some(COMPONENT.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// `<object>.<nanoseconds in hex>`, as client-go names Events; the object's name may be too long for that.
fn event_name(object: &str, now: Timestamp) -> String {
    let shown: String = object.chars().take(230).collect();
    format!("{}.{:016x}", shown.trim_end_matches(['.', '-']), now.as_nanosecond())
}

fn cut(note: &mut String) {
    const MARK: char = '…';
    if note.len() <= NOTE_BYTES {
        return;
    }
    let mut end = NOTE_BYTES - MARK.len_utf8();
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.truncate(end);
    note.push(MARK);
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::*;
    use crate::cluster::test_server::{Asked, TestServer, status};
    use crate::name::Key;
    use crate::reason::Reason;

    fn announcement(note: &str) -> Announcement {
        Announcement {
            regarding: Regarding {
                api_version: "kubevirt.io/v1",
                kind: "VirtualMachine",
                key: Key::new("prod", "db"),
                uid: "u-1".into(),
            },
            warning: true,
            happening: Happening::FirstConsumerWaiting,
            note: note.to_owned(),
            decision: Reason::Unschedulable,
        }
    }

    fn echo(asked: &Asked) -> (u16, String) {
        (201, asked.body.to_string())
    }

    /// Publishes the notes and returns what the server was asked.
    async fn publish(server: &TestServer, notes: &[&str]) -> Vec<Asked> {
        let (events, publisher) = events(Client::try_from(server.config()).unwrap(), Clock::default());
        for note in notes {
            assert!(events.announce(announcement(note)));
        }
        let stop = CancellationToken::new();
        stop.cancel();
        publisher.run(stop).await;
        assert!(!events.announce(announcement("too late")));
        server.requests()
    }

    #[tokio::test]
    async fn an_event_says_what_happened_to_whom_and_carries_the_decision() {
        let server = TestServer::start(echo).await;
        let asked = publish(&server, &["no node fits"]).await;
        let [asked] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(
            (&asked.method, asked.path.as_str()),
            (&Method::POST, "/api/v1/namespaces/prod/events?")
        );
        let body = &asked.body;
        assert!(body["metadata"]["name"].as_str().unwrap().starts_with("db."));
        assert_eq!(
            body["metadata"]["annotations"],
            json!({"first-consumer.kubevirt.io/reason": "Unschedulable"})
        );
        let object = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "namespace": "prod", "name": "db", "uid": "u-1"});
        assert_eq!(body["involvedObject"], object);
        for (field, value) in [
            ("type", json!("Warning")),
            ("reason", json!("FirstConsumerWaiting")),
            ("message", json!("no node fits")),
            ("reportingComponent", json!("first-consumer")),
            ("source", json!({"component": "first-consumer"})),
            ("count", json!(1)),
        ] {
            assert_eq!(body[field], value, "{field}");
        }
        assert_eq!(body["firstTimestamp"], body["lastTimestamp"]);
        assert!(body.get("eventTime").is_none());
    }

    #[tokio::test]
    async fn repeated_text_is_counted_on_the_same_event() {
        let server = TestServer::start(echo).await;
        let asked = publish(&server, &["a", "a", "a", "b"]).await;
        let methods: Vec<_> = asked.iter().map(|asked| asked.method.as_str()).collect();
        assert_eq!(methods, ["POST", "PATCH", "POST"]);
        let name = asked[0].body["metadata"]["name"].as_str().unwrap();
        assert_eq!(asked[1].path, format!("/api/v1/namespaces/prod/events/{name}?"));
        assert_eq!(asked[1].body["count"], 2);
        assert!(asked[1].body["lastTimestamp"].is_string());
    }

    #[tokio::test]
    async fn an_event_that_is_gone_is_made_again_and_a_failure_is_no_end() {
        let server = TestServer::start(|asked| match asked.method {
            Method::PATCH => status(404, "gone"),
            _ if asked.body["message"] == "refused" => status(403, "no"),
            _ => echo(asked),
        })
        .await;
        let asked = publish(&server, &["refused", "a", "a"]).await;
        let methods: Vec<_> = asked.iter().map(|asked| asked.method.as_str()).collect();
        assert_eq!(methods, ["POST", "POST", "PATCH", "POST"]);
    }

    #[tokio::test]
    async fn a_worker_never_waits_even_if_nobody_writes() {
        let server = TestServer::start(echo).await;
        let (events, _publisher) = events(Client::try_from(server.config()).unwrap(), Clock::default());
        let taken = (0..WAITING + 10).filter(|_| events.announce(announcement("a"))).count();
        assert_eq!(taken, WAITING);
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let mut note = "ä".repeat(600);
        cut(&mut note);
        assert_eq!(note, "ä".repeat(510) + "…");
        let mut fits = "x".repeat(1024);
        cut(&mut fits);
        assert_eq!(fits.len(), 1024);
    }

    #[test]
    fn the_name_of_an_event_is_valid_for_any_object() {
        let name = event_name(
            &format!("{}-{}", "a".repeat(229), "b".repeat(23)),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(name, format!("{}.{:016x}", "a".repeat(229), 0));
    }
}

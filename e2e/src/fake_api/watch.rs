//! The body of a watch.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use hyper::body::{Bytes, Frame};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tower::BoxError;

use super::connection::Connection;
use super::failure::Failure;
use super::faults::{Injected, USUAL_BOOKMARKS, USUAL_LAG, WatchPlan};
use super::request::{Asked, Selector};
use super::store::{Change, Does, line};

/// How long a watch lasts that does not say.
const USUAL: Duration = Duration::from_mins(30);

/// A watch that runs.
pub struct Watch {
    connection: Connection,
    asked: Asked,
    selector: Selector,
    plan: WatchPlan,
    lines: VecDeque<Bytes>,
    /// What was before it began, not yet told.
    past: VecDeque<Arc<Change>>,
    changes: mpsc::UnboundedReceiver<Arc<Change>>,
    /// When there is a bookmark.
    bookmark: Instant,
    breaks: Option<Instant>,
    ends: Instant,
    over: bool,
}

impl Watch {
    /// Begins a watch from the version that it asks for. One that is too old is told in the watch, as the real server does.
    pub fn begin(connection: &Connection, asked: Asked, plan: WatchPlan) -> Result<Self, Failure> {
        let mut locked = connection.api.store();
        let selector = asked.selector();
        let since = asked.number("resourceVersion")?.unwrap_or(0);
        let mut lines = VecDeque::new();
        let initial = asked.parameter("sendInitialEvents") == Some("true");
        let from = if since == 0 || initial {
            let found = locked.list(asked.kind, &asked.namespace, None);
            let taken = found.filter(|(_, object)| selector.takes(object));
            lines.extend(taken.map(|(_, object)| line(Does::Add.word(), object)));
            locked.version()
        } else {
            since
        };
        if from > locked.version() {
            let text = format!(
                "Timeout: Too large resource version: {from}, current: {}",
                locked.version()
            );
            return Err(Failure::new(504, text).later(1));
        }
        if initial {
            lines.push_back(bookmark(&asked, from, true));
        }
        let now = Instant::now();
        let lasts = asked.number("timeoutSeconds")?.map_or(USUAL, Duration::from_secs);
        let mut watch = Self {
            connection: connection.clone(),
            bookmark: now + plan.bookmarks,
            breaks: plan.breaks_after.map(|after| now + after),
            ends: now + lasts,
            selector,
            lines,
            past: VecDeque::new(),
            changes: mpsc::unbounded_channel().1,
            over: false,
            asked,
            plan,
        };
        let followed = if watch.plan.expired {
            connection.api.note(Injected::WatchGone);
            Err(Failure::too_old(from, locked.version()))
        } else {
            locked.follow(watch.asked.kind, from)
        };
        match followed {
            Ok(followed) => {
                watch.past = followed.past.into();
                watch.changes = followed.changes;
            }
            Err(failure) => {
                watch.lines.push_back(line("ERROR", &failure.status()));
                watch.over = true;
            }
        }
        Ok(watch)
    }

    /// Its lines.
    pub fn lines(self) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send {
        futures::stream::unfold(self, async |mut watch| {
            let line = watch.next().await?;
            Some((line.map(Frame::data), watch))
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(Ok(line));
            }
            if self.over {
                return None;
            }
            let wake = self.ends.min(self.breaks.unwrap_or(self.ends)).min(self.bookmark);
            let past = self.past.pop_front();
            let change = if past.is_some() {
                past
            } else {
                tokio::select! {
                    biased;
                    change = self.changes.recv() => change,
                    () = sleep_until(wake) => {
                        if let Some(broken) = self.due() {
                            return Some(Err(broken));
                        }
                        continue;
                    }
                }
            };
            match change {
                Some(change) => self.tell(&change).await,
                None => self.over = true,
            }
        }
    }

    async fn tell(&mut self, change: &Change) {
        let elsewhere = !self.asked.namespace.is_empty() && change.id.namespace != self.asked.namespace;
        let Some(line) = change.line(&self.selector).filter(|_| !elsewhere) else {
            return;
        };
        let delay = self.plan.delay();
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let Connection { api, user } = &self.connection;
        if delay > USUAL_LAG {
            api.note(Injected::Late);
        }
        api.tell(user, &mut std::iter::once(&*change.object));
        if self.plan.again() {
            api.note(Injected::Twice);
            self.lines.push_back(line.clone());
        }
        self.lines.push_back(line);
    }

    /// What it is time for: the end, a break, a bookmark.
    fn due(&mut self) -> Option<BoxError> {
        let now = Instant::now();
        if self.breaks.is_some_and(|breaks| breaks <= now) {
            self.over = true;
            self.connection.api.note(Injected::WatchBroken);
            return Some(io::Error::from(io::ErrorKind::ConnectionReset).into());
        }
        let bookmarks = self.asked.parameter("allowWatchBookmarks") == Some("true");
        if bookmarks {
            if self.plan.bookmarks < USUAL_BOOKMARKS && now < self.ends {
                self.connection.api.note(Injected::Bookmark);
            }
            // Everything up to now has been told: the line of changes is empty.
            let version = self.connection.api.store().version();
            self.lines.push_back(bookmark(&self.asked, version, false));
        }
        self.bookmark = now + self.plan.bookmarks;
        self.over = self.ends <= now;
        None
    }
}

fn bookmark(asked: &Asked, version: u64, initial: bool) -> Bytes {
    let types = asked.kind.types();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let object = json!({"kind": types.kind, "apiVersion": types.api_version, "metadata": metadata});
    line("BOOKMARK", &object)
}

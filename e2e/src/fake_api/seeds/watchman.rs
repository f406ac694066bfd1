//! What must hold at every moment, seen from the API server: none of it asks the product.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Story;
use super::rest::{claims, is_own, subject};
use crate::cluster::ACCOUNT;
use crate::control_plane::{Call, Calls};
use crate::fake_api::store::uid;
use crate::fake_api::{Change, Does, FakeApi, Store};
use crate::stand_in::kind::Kind;

/// More writes than any of the small worlds can need.
const MOST_PODS: usize = 40;
pub const MOST_EVENTS: usize = 150;

/// How long a pod of ours may stay beside a launcher when nothing goes wrong any more.
const SEES_WITHIN: Duration = Duration::from_secs(90);

/// From when a decision counts as made after something was told.
const DECIDES_WITHIN: Duration = Duration::from_millis(50);

/// How far our caches may be behind.
const LAGS_AT_MOST: Duration = Duration::from_mins(1);

/// Watches every change.
#[derive(Clone)]
pub struct Watchman(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    broken: Option<String>,
    pods: Vec<Life>,
    /// Whether all claims of a VM that are there are bound, since when.
    bound: BTreeMap<String, Vec<(Timestamp, bool)>>,
}

/// The life of a pod of ours or of a launcher.
struct Life {
    uid: String,
    vm: String,
    own: bool,
    from: Timestamp,
    /// When it was final or gone.
    to: Option<Timestamp>,
}

impl Watchman {
    /// Posts one.
    #[must_use]
    pub fn post(api: &FakeApi, story: &Story) -> Self {
        let watchman = Self(Arc::default());
        let (notes, story, clock) = (watchman.clone(), story.clone(), api.clock().clone());
        let witness = move |store: &Store, change: &Change| {
            let now = clock.now();
            tell(&story, now, change);
            notes.notes().see(store, change, now);
        };
        api.store().witness(Box::new(witness));
        watchman
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rule that has been broken first.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.notes().broken.clone()
    }

    /// What our calls break; `calm`: since when nothing went wrong any more.
    #[must_use]
    pub fn check(&self, api: &FakeApi, calls: &Calls, calm: Timestamp) -> Option<String> {
        let notes = self.notes();
        let told = api.told();
        let writes = calls.filter(|call| !call.is_read());
        let per_call = writes.iter().find_map(|call| {
            let beside = || {
                let vm = created(call)?;
                let told = |life: &&Life| told.get(&(call.user.as_str().into(), life.uid.clone()));
                let mut launchers = notes.pods.iter().filter(|life| !life.own && life.vm == vm);
                let seen = launchers.any(|life| {
                    let told = told(&life).is_some_and(|told| add(*told, DECIDES_WITHIN) < call.received);
                    told && life.to.is_none_or(|to| to > call.received)
                });
                seen.then(|| {
                    format!("no own pod while a launcher lives: one is made for VM {vm} although a launcher is seen")
                })
            };
            of_call(call).or_else(beside)
        });
        let pods = calls.of("create", "pods").iter().filter(|call| call.is_ok()).count();
        let events = writes.filter(|call| call.resource == "events").len();
        let loops = (pods > MOST_PODS || events > MOST_EVENTS)
            .then(|| format!("no loop: {pods} pods and {events} writes of events"));
        per_call
            .or_else(|| notes.kept(add(calm, SEES_WITHIN)))
            .or_else(|| notes.gaps(&writes))
            .or(loops)
    }
}

/// What a call breaks by itself.
fn of_call(call: &Call) -> Option<String> {
    let body = call.request_object.as_ref();
    let field = |pointer: &str| {
        body.and_then(|body| body.pointer(pointer))
            .is_some_and(Value::is_string)
    };
    let what = format!("{} {} {}", call.verb, call.resource, call.name);
    match (call.verb.as_str(), call.resource.as_str()) {
        // Refused before it was read.
        _ if body.is_none() => None,
        ("create" | "patch", "events") | ("create" | "patch" | "update", "leases") => None,
        ("create", "pods") if field("/metadata/labels/first-consumer.kubevirt.io~1managed") => None,
        ("create", "pods") => Some(format!("no create without our label: {what}")),
        ("delete", "pods") if field("/preconditions/uid") => None,
        ("delete", "pods") => Some(format!("no delete without a UID: {what}")),
        _ => Some(format!("we write nothing else: {what}")),
    }
}

/// The VM that a pod was created for.
fn created(call: &Call) -> Option<&str> {
    let body = call.request_object.as_ref().filter(|_| call.is("create", "pods"))?;
    subject(body)
}

impl Notes {
    fn see(&mut self, store: &Store, change: &Change, now: Timestamp) {
        let broken = self.change(store, change, now);
        if self.broken.is_none() {
            self.broken = broken;
        }
    }

    fn change(&mut self, store: &Store, change: &Change, now: Timestamp) -> Option<String> {
        let (id, object) = (&change.id, &*change.object);
        let before = change.before.as_deref().unwrap_or(object);
        if change.user.starts_with(ACCOUNT) && !matches!(id.kind, Kind::Event | Kind::Lease) {
            if id.kind != Kind::Pod {
                return Some(format!("we write nothing else: {} {}", id.kind.name(), id.name));
            }
            if change.does != Does::Add && !is_own(before) {
                return Some(format!("never a delete of anything but an own pod: {}", id.name));
            }
        }
        match id.kind {
            Kind::Pod => return self.pod(store, change, now),
            Kind::Claim | Kind::VirtualMachine => self.claims(store, now),
            _ => {}
        }
        None
    }

    fn pod(&mut self, store: &Store, change: &Change, now: Timestamp) -> Option<String> {
        let pod = &*change.object;
        let own = is_own(pod);
        let launcher = pod["metadata"]["labels"]["kubevirt.io"] == "virt-launcher";
        let vm = if own {
            subject(pod)
        } else {
            pod["metadata"]["labels"]["vm.kubevirt.io/name"].as_str()
        };
        let vm = vm.filter(|_| own || launcher)?;
        let over =
            change.does == Does::Delete || matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if change.does == Does::Add {
            self.pods.push(Life {
                uid: uid(pod).to_owned(),
                vm: vm.to_owned(),
                own,
                from: now,
                to: None,
            });
        } else if over && let Some(life) = self.pods.iter_mut().find(|life| life.uid == uid(pod)) {
            life.to = life.to.or(Some(now));
        }
        let same = |other: &Value| is_own(other) && subject(other) == Some(vm);
        let count = || {
            store
                .list(Kind::Pod, "ns", None)
                .filter(|(_, other)| same(other))
                .count()
        };
        (own && change.does == Does::Add && count() > 1).then(|| format!("never two own pods for a subject: VM {vm}"))
    }

    fn claims(&mut self, store: &Store, now: Timestamp) {
        for (id, vm) in store.list(Kind::VirtualMachine, "ns", None) {
            let bound = claims(vm)
                .filter_map(|claim| store.get(Kind::Claim, "ns", claim))
                .all(|claim| claim["status"]["phase"] == "Bound");
            let known = self.bound.entry(id.name.clone()).or_default();
            if known.last().is_none_or(|(_, before)| *before != bound) {
                known.push((now, bound));
            }
        }
    }

    /// A pod of ours that lives beside a launcher after this time.
    fn kept(&self, since: Timestamp) -> Option<String> {
        let launchers = || self.pods.iter().filter(|life| !life.own);
        let beside = |own: &&Life| {
            let meets = |other: &Life| {
                let from = own.from.max(other.from).max(since);
                own.vm == other.vm && [own.to, other.to].into_iter().flatten().all(|to| to > from)
            };
            own.own && launchers().any(meets)
        };
        let found = self.pods.iter().find(beside)?;
        Some(format!(
            "no own pod while a launcher lives: that of VM {} is kept",
            found.vm
        ))
    }

    /// Whether all claims of a VM were bound at some moment between two times.
    fn was_bound(&self, vm: &str, from: Timestamp, to: Timestamp) -> bool {
        let known = self.bound.get(vm).map(Vec::as_slice).unwrap_or_default();
        let ends = known.iter().skip(1).map(|(at, _)| *at).chain([Timestamp::MAX]);
        known
            .iter()
            .zip(ends)
            .any(|((at, bound), end)| *bound && *at <= to && end >= from)
    }

    /// Creations of one process for one subject, with the same wishes, that come too fast.
    fn gaps(&self, writes: &Calls) -> Option<String> {
        let mut rows: BTreeMap<(&str, &str), Row> = BTreeMap::new();
        for call in writes.of("create", "pods").iter().filter(|call| call.is_ok()) {
            let (Some(vm), Some(body)) = (created(call), &call.request_object) else {
                continue;
            };
            let wishes = Wishes::of(body);
            let row = rows.entry((&call.user, vm)).or_default();
            let Some((at, before)) = row.last.replace((call.answered, wishes.clone())) else {
                row.made = 1;
                continue;
            };
            let lag = Duration::from_secs(LAGS_AT_MOST.as_secs());
            let reset =
                before.owner != wishes.owner || self.was_bound(vm, at.checked_sub(lag).unwrap_or(at), call.received);
            if reset {
                row.made = 1;
            } else if before == wishes {
                let least = Duration::from_secs(5 << row.made.saturating_sub(1).min(6)).min(Duration::from_mins(5));
                if add(at, least) > call.received {
                    let text = format!(
                        "growing gaps: pod {} for VM {vm} comes within {least:?} after",
                        row.made + 1
                    );
                    return Some(format!("{text} the one before"));
                }
                row.made += 1;
            }
        }
        None
    }
}

/// Pods in a row.
#[derive(Default)]
struct Row {
    last: Option<(Timestamp, Wishes)>,
    made: u32,
}

/// What a pod was made for.
#[derive(Clone, PartialEq, Eq)]
struct Wishes {
    owner: String,
    placement: String,
    claims: Vec<(String, String)>,
}

impl Wishes {
    fn of(pod: &Value) -> Self {
        let annotation = |name: &str| {
            let value = &pod["metadata"]["annotations"][format!("first-consumer.kubevirt.io/{name}")];
            value.as_str().unwrap_or_default().to_owned()
        };
        let claims: Vec<Value> = serde_json::from_str(&annotation("claims")).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            owner: annotation("owner-uid"),
            placement: annotation("placement-hash"),
            claims: claims
                .iter()
                .map(|claim| (text(&claim["name"]), text(&claim["uid"])))
                .collect(),
        }
    }
}

fn add(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

fn tell(story: &Story, now: Timestamp, change: &Change) {
    if matches!(change.id.kind, Kind::Event | Kind::Lease | Kind::Namespace | Kind::Node) {
        return;
    }
    story.say(now, || {
        let (object, id) = (&change.object, &change.id);
        let short = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        format!(
            "{} {} {} (phase {}, node {}{}) by {}",
            change.does.word(),
            id.kind.name(),
            id.name,
            short(&object["status"]["phase"]),
            object["spec"]["nodeName"]
                .as_str()
                .or(object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str())
                .unwrap_or("-"),
            if object["metadata"]["deletionTimestamp"].is_null() {
                ""
            } else {
                ", terminating"
            },
            change.user
        )
    });
}

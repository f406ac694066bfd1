use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::api::VirtualMachine;
use crate::cluster::test_server::{TestServer, status};

#[derive(Default)]
struct Heard {
    changed: Mutex<Vec<Key>>,
    interrupted: AtomicUsize,
    unreadable: AtomicUsize,
}

impl Listener for Heard {
    fn changed(&self, subjects: Changed) {
        self.changed.lock().unwrap().extend(subjects);
    }

    fn interrupted(&self, _: &'static str) {
        self.interrupted.fetch_add(1, Ordering::Relaxed);
    }

    fn unreadable(&self, _: &'static str) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }
}

impl Heard {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.changed.lock().unwrap())
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

fn vm(name: &str, strategy: &serde_json::Value) -> Watched<VirtualMachine> {
    let value = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"runStrategy": strategy, "template": {"spec": {}}},
    });
    serde_json::from_str(&value.to_string()).unwrap()
}

struct Bench {
    heard: Arc<Heard>,
    index: SharedIndex,
    synced: Synced,
    intake: Intake<VirtualMachine>,
}

fn bench() -> Bench {
    let (missing, synced) = tokio::sync::watch::channel(BTreeSet::from([VirtualMachine::KIND]));
    let heard = Arc::new(Heard::default());
    let index = SharedIndex::default();
    let listener: Arc<dyn Listener> = heard.clone();
    let intake = Intake::new(Arc::clone(&index), listener, Arc::new(missing));
    Bench {
        heard,
        index,
        synced: Synced(synced),
        intake,
    }
}

impl Bench {
    fn list(&mut self, vms: Vec<Watched<VirtualMachine>>) {
        self.intake.event(Event::Init);
        for vm in vms {
            self.intake.event(Event::InitApply(vm));
        }
        self.intake.event(Event::InitDone);
    }

    fn known(&self) -> Vec<String> {
        lock(&self.index)
            .subjects()
            .iter()
            .map(|key| key.name.to_string())
            .collect()
    }
}

fn api_error(code: u16) -> kube::Error {
    let (_, text) = status(code, "no");
    kube::Error::Api(serde_json::from_str(&text).unwrap())
}

#[test]
fn a_list_fills_the_index_and_a_relist_removes_what_vanished_unseen() {
    let mut bench = bench();
    assert_eq!(bench.synced.missing(), ["VirtualMachine"]);
    bench.list(vec![vm("a", &json!("Halted")), vm("b", &json!("Halted"))]);
    assert_eq!(bench.heard.take(), ["ns/a", "ns/b"]);
    assert!(bench.synced.missing().is_empty());
    bench.list(vec![vm("b", &json!("Halted")), vm("c", &json!("Halted"))]);
    assert_eq!(bench.heard.take(), ["ns/c", "ns/a"]);
    assert_eq!(bench.known(), ["b", "c"]);
}

#[test]
fn only_what_changes_the_view_is_told() {
    let mut bench = bench();
    bench.list(vec![vm("a", &json!("Halted"))]);
    bench.heard.take();
    bench.intake.event(Event::Apply(vm("a", &json!("Halted"))));
    assert!(bench.heard.take().is_empty());
    bench.intake.event(Event::Apply(vm("a", &json!("Always"))));
    assert_eq!(bench.heard.take(), ["ns/a"]);
    bench.intake.event(Event::Delete(vm("a", &json!("Always"))));
    assert_eq!(bench.heard.take(), ["ns/a"]);
    assert!(bench.known().is_empty());
}

#[test]
fn an_unreadable_object_stays_what_it_was_and_can_be_deleted() {
    let mut bench = bench();
    bench.list(vec![vm("a", &json!("Halted"))]);
    bench.list(vec![vm("a", &json!(["SECRET"]))]);
    assert_eq!(bench.known(), ["a"]);
    assert_eq!(bench.heard.unreadable.load(Ordering::Relaxed), 1);
    bench.intake.event(Event::Delete(vm("a", &json!(["SECRET"]))));
    assert!(bench.known().is_empty());
}

#[test]
fn a_kind_without_crd_is_empty_and_is_probed_again() {
    let mut bench = bench();
    let next = bench
        .intake
        .take(Err(watcher::Error::InitialListFailed(api_error(404))));
    assert_eq!(next, Next::Rebuild(PROBE));
    assert!(bench.synced.missing().is_empty());
    bench.list(vec![vm("a", &json!("Halted"))]);
    // The CRD is deleted, and all its objects with it.
    let next = bench.intake.take(Err(watcher::Error::WatchStartFailed(api_error(404))));
    assert_eq!(next, Next::Rebuild(PROBE));
    assert!(bench.known().is_empty());
    assert_eq!(bench.heard.interrupted.load(Ordering::Relaxed), 0);
}

#[test]
fn a_version_that_is_refused_twice_is_given_up() {
    let mut bench = bench();
    bench.list(vec![]);
    let mut refuse = || bench.intake.take(Err(watcher::Error::WatchStartFailed(api_error(410))));
    assert_eq!(refuse(), Next::Go);
    assert_eq!(refuse(), Next::Rebuild(REBUILD));
    assert_eq!(bench.heard.interrupted.load(Ordering::Relaxed), 2);
}

#[test]
fn an_interruption_is_warned_of_once_until_something_goes_well() {
    let mut bench = bench();
    let mut step = |event: watcher::Result<Event<_>>| {
        let said = bench.intake.interrupted;
        bench.intake.take(event);
        (said, bench.intake.interrupted)
    };
    let away = || Err(watcher::Error::InitialListFailed(api_error(503)));
    assert_eq!(step(away()), (false, true), "a warning");
    assert_eq!(step(Ok(Event::Init)), (true, true), "a list that begins is no success");
    assert_eq!(step(Ok(Event::InitApply(vm("a", &json!("Halted"))))), (true, true));
    assert_eq!(step(away()), (true, true));
    assert_eq!(step(Ok(Event::Init)), (true, true));
    assert_eq!(step(Ok(Event::InitDone)), (true, false));
    assert_eq!(step(Err(watcher::Error::NoResourceVersion)), (false, true));
    assert_eq!(step(Ok(Event::Apply(vm("a", &json!("Always"))))), (true, false));
    assert_eq!(bench.heard.interrupted.load(Ordering::Relaxed), 3, "each is counted");
}

#[test]
fn a_forbidden_list_is_neither_empty_nor_listed() {
    let mut bench = bench();
    assert_eq!(
        bench
            .intake
            .take(Err(watcher::Error::InitialListFailed(api_error(403)))),
        Next::Go
    );
    assert_eq!(bench.synced.missing(), ["VirtualMachine"]);
}

#[test]
fn the_index_survives_a_holder_that_panicked() {
    let index = SharedIndex::default();
    let other = Arc::clone(&index);
    let _ = std::thread::spawn(move || {
        let _held = other.lock();
        panic!("on purpose");
    })
    .join();
    assert!(lock(&index).subjects().is_empty());
}

#[tokio::test]
async fn all_kinds_are_listed_in_pages_from_a_server_without_crds() {
    let server = TestServer::start(|asked| {
        if asked.path.contains("watch=true") {
            return (200, String::new());
        }
        if asked.path.contains("kubevirt.io/") {
            // What the real one says of an unknown group, and no JSON.
            return (404, "404 page not found\n".to_owned());
        }
        let more = asked.path.contains("/pods?") && !asked.path.contains("continue=");
        let metadata = json!({"resourceVersion": "5", "continue": if more { "next" } else { "" }});
        (
            200,
            json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": []}).to_string(),
        )
    })
    .await;
    let watches = Watches {
        client: Client::try_from(server.config()).unwrap(),
        namespace: Some("ns".to_owned()),
        index: SharedIndex::default(),
        listener: Arc::new(Heard::default()),
    };
    let mut tasks = JoinSet::new();
    let synced = start(&watches, &mut tasks);
    tokio::time::timeout(Duration::from_secs(10), synced.wait())
        .await
        .unwrap();
    let lists: BTreeSet<String> = server
        .requests()
        .into_iter()
        .map(|asked| asked.path.replace('&', " "))
        .filter(|path| !path.contains("watch=true"))
        .collect();
    let expected = [
        "/api/v1/namespaces/ns/persistentvolumeclaims? limit=250",
        "/api/v1/namespaces/ns/pods? limit=250",
        "/api/v1/namespaces/ns/pods? limit=250 continue=next",
        "/api/v1/namespaces/ns/resourcequotas? limit=250",
        "/api/v1/namespaces? fieldSelector=metadata.name%3Dns limit=250",
        "/api/v1/nodes? limit=250",
        "/api/v1/persistentvolumes? limit=250",
        "/apis/cdi.kubevirt.io/v1beta1/namespaces/ns/datavolumes? limit=250",
        "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions? limit=250",
        "/apis/kubevirt.io/v1/kubevirts? limit=250",
        "/apis/kubevirt.io/v1/namespaces/ns/virtualmachineinstances? limit=250",
        "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines? limit=250",
        "/apis/storage.k8s.io/v1/storageclasses? limit=250",
    ];
    assert_eq!(lists.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

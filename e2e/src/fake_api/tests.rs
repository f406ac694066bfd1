//! What clients rely on, asked through `kube::Client`.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

mod faults;

fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn server() -> FakeApi {
    server_with(Faults::none()).await
}

async fn server_with(faults: Faults) -> FakeApi {
    let api = FakeApi::start(Clock::default(), faults);
    let namespaces = Api::<Namespace>::all(api.client("admin"));
    let namespace = of(json!({"metadata": {"name": "ns"}}));
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    api
}

fn pods(api: &FakeApi) -> Api<Pod> {
    Api::namespaced(api.client("somebody"), "ns")
}

fn pod(meta: &Value, spec: &Value) -> Pod {
    let mut pod = json!({"metadata": meta, "spec": {"containers": []}});
    json_patch::merge(&mut pod["spec"], spec);
    of(pod)
}

async fn create(api: &Api<Pod>, meta: &Value, spec: &Value) -> Pod {
    api.create(&PostParams::default(), &pod(meta, spec)).await.unwrap()
}

fn refusal<T>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was done"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_once_and_can_be_left_to_the_server() {
    let server = server().await;
    let api = pods(&server);
    let made = create(&api, &json!({"name": "a"}), &json!({})).await;
    assert!(made.uid().is_some() && made.resource_version().is_some() && made.creation_timestamp().is_some());
    let again = api
        .create(&PostParams::default(), &pod(&json!({"name": "a"}), &json!({})))
        .await;
    assert_eq!(refusal(again), (409, "AlreadyExists".to_owned()));
    let first = create(&api, &json!({"generateName": "g-"}), &json!({}))
        .await
        .name_any();
    let second = create(&api, &json!({"generateName": "g-"}), &json!({}))
        .await
        .name_any();
    assert!(first.starts_with("g-") && second.starts_with("g-") && first != second);
    let elsewhere = Api::<Pod>::namespaced(server.client("somebody"), "nowhere");
    let lost = elsewhere
        .create(&PostParams::default(), &pod(&json!({"name": "a"}), &json!({})))
        .await;
    assert_eq!(refusal(lost).0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_an_old_version_is_a_conflict_and_no_change_is_no_version() {
    let api = pods(&server().await);
    let old = create(&api, &json!({"name": "a"}), &json!({})).await;
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"a": value}}}));
    let new = api.patch("a", &PatchParams::default(), &label("b")).await.unwrap();
    assert_eq!(refusal(api.replace("a", &PostParams::default(), &old).await).0, 409);
    let same = api.patch("a", &PatchParams::default(), &label("b")).await.unwrap();
    assert_eq!(same.resource_version(), new.resource_version());
    let patch = Patch::Json::<()>(of(json!([{"op": "add", "path": "/metadata/labels/c", "value": "d"}])));
    assert_eq!(
        api.patch("a", &PatchParams::default(), &patch)
            .await
            .unwrap()
            .labels()
            .len(),
        2
    );
    let status = Patch::Merge(json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}));
    let written = api.patch_status("a", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(written.spec.unwrap().node_name, None);
    assert_eq!(written.status.unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test(start_paused = true)]
async fn a_delete_names_its_uid_and_a_running_pod_has_a_grace_period() {
    let api = pods(&server().await);
    create(&api, &json!({"name": "a"}), &json!({})).await;
    let other = DeleteParams::default().preconditions(Preconditions {
        uid: Some("other".to_owned()),
        resource_version: None,
    });
    assert_eq!(refusal(api.delete("a", &other).await).0, 409);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(api.get("a").await).0, 404, "a pod without a node goes at once");

    create(&api, &json!({"name": "b"}), &json!({"nodeName": "n"})).await;
    api.delete("b", &DeleteParams::default()).await.unwrap();
    assert!(api.get("b").await.unwrap().metadata.deletion_timestamp.is_some());
    api.delete("b", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(refusal(api.get("b").await).0, 404);

    create(
        &api,
        &json!({"name": "c", "finalizers": ["example.com/hold"]}),
        &json!({}),
    )
    .await;
    api.delete("c", &DeleteParams::default()).await.unwrap();
    assert!(api.get("c").await.unwrap().metadata.deletion_timestamp.is_some());
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("c", &PatchParams::default(), &free).await.unwrap();
    assert_eq!(refusal(api.get("c").await).0, 404);
}

#[tokio::test(start_paused = true)]
async fn what_loses_its_owner_or_its_namespace_is_collected() {
    let server = server().await;
    let api = pods(&server);
    let owner = create(&api, &json!({"name": "owner"}), &json!({})).await;
    let reference = json!([{"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": owner.uid()}]);
    create(
        &api,
        &json!({"name": "owned", "ownerReferences": reference}),
        &json!({}),
    )
    .await;
    create(&api, &json!({"name": "free"}), &json!({})).await;
    api.delete("owner", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let left = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["free"]);
    let namespaces = Api::<Namespace>::all(server.client("admin"));
    namespaces.delete("ns", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(namespaces.get_opt("ns").await.unwrap().is_none());
    assert!(api.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pages_and_selectors() {
    let api = pods(&server().await);
    for number in 0..5 {
        let app = if number % 2 == 0 { "even" } else { "odd" };
        create(
            &api,
            &json!({"name": format!("p{number}"), "labels": {"app": app}}),
            &json!({}),
        )
        .await;
    }
    let mut names = Vec::new();
    let mut page = ListParams::default().limit(2);
    loop {
        let answer = api.list(&page).await.unwrap();
        names.extend(answer.iter().map(ResourceExt::name_any));
        match answer.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["p0", "p1", "p2", "p3", "p4"]);
    let even = api.list(&ListParams::default().labels("app=even")).await.unwrap();
    assert_eq!(even.items.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_a_version_tells_bookmarks_and_ends_in_time() {
    let server = server().await;
    let api = pods(&server);
    let first = create(&api, &json!({"name": "a"}), &json!({})).await;
    create(&api, &json!({"name": "b"}), &json!({})).await;
    let version = first.resource_version().unwrap();
    let parameters = WatchParams::default().timeout(90);
    let events = api.watch(&parameters, &version).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let told: Vec<_> = events
        .map(|event| match event.unwrap() {
            WatchEvent::Added(pod) => format!("added {}", pod.name_any()),
            WatchEvent::Deleted(pod) => format!("deleted {}", pod.name_any()),
            WatchEvent::Bookmark(_) => "bookmark".to_owned(),
            other => format!("{other:?}"),
        })
        .collect()
        .await;
    assert_eq!(told, ["added b", "deleted a", "bookmark", "bookmark"]);

    server.store().forget();
    let events = api.watch(&parameters, &version).await.unwrap();
    pin_mut!(events);
    let gone = matches!(events.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410);
    assert!(gone, "what is forgotten can't be watched");
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_bookmark() {
    let server = server().await;
    create(&pods(&server), &json!({"name": "a"}), &json!({})).await;
    let stream = kube::runtime::watcher(pods(&server), watcher::Config::default().streaming_lists());
    pin_mut!(stream);
    assert!(matches!(stream.next().await, Some(Ok(Event::Init))));
    assert!(matches!(stream.next().await, Some(Ok(Event::InitApply(pod))) if pod.name_any() == "a"));
    assert!(matches!(stream.next().await, Some(Ok(Event::InitDone))));
}

#[tokio::test(start_paused = true)]
async fn a_pod_can_be_refused_a_kind_can_be_missing_and_calls_are_noted() {
    let server = server().await;
    server.admission(Some(Box::new(|pod| {
        pod["metadata"]["name"]
            .as_str()
            .map(|name| format!("{name} is too many"))
    })));
    let refused = pods(&server)
        .create(&PostParams::default(), &pod(&json!({"name": "a"}), &json!({})))
        .await;
    assert_eq!(refusal(refused).0, 403);
    server.install("persistentvolumeclaims", false);
    let claims = Api::<PersistentVolumeClaim>::all(server.client("somebody"));
    assert_eq!(refusal(claims.list(&ListParams::default()).await).0, 404);
    let calls = server.calls().by("somebody");
    let told: Vec<_> = calls
        .iter()
        .map(|call| (&*call.verb, &*call.resource, call.code))
        .collect();
    assert_eq!(told, [("create", "pods", 403), ("list", "persistentvolumeclaims", 404)]);
}

#[tokio::test]
async fn it_can_be_reached_from_other_processes() {
    let server = server().await;
    create(&pods(&server), &json!({"name": "a"}), &json!({})).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(server::serve(server, listener));
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let api = Api::<Pod>::namespaced(Client::try_from(config).unwrap(), "ns");
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    serving.abort();
}

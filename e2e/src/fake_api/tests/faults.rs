//! Each fault, as a client sees it; and that the server has counted as many as were seen.

use std::collections::BTreeSet;

use first_consumer::cluster::client::CALL_LIMIT;
use http_body_util::BodyExt as _;
use hyper::{
    Method, Request, StatusCode,
    header::{HeaderValue, RETRY_AFTER},
};
use tokio::time::{Instant, sleep};

use super::*;
use crate::fake_api::faults::USUAL_LAG;
use crate::stand_in::kind::Kind;

/// So often each is asked: enough for everything that the rates allow.
const TIMES: usize = 60;

/// A request takes no longer when nothing goes wrong, and no shorter when it is slow.
const USUAL: Duration = Duration::from_millis(6);
const SLOW: Duration = Duration::from_millis(500);

/// A watch lasts so many seconds: less than the usual time between bookmarks, more than it takes one to break.
const WATCHED: u32 = 40;

type Seen = BTreeMap<Injected, usize>;

/// One request; what went wrong with it, and how long it took.
async fn ask(server: &FakeApi, method: &Method, path: &str) -> (Option<Injected>, Duration) {
    let (version, asked) = (server.store().version(), Instant::now());
    let body = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": []}});
    let body = if method == Method::GET {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(body.into_bytes().into());
    let answer = server.client("somebody#2").send(request.unwrap()).await;
    let (took, done) = (asked.elapsed(), server.store().version() != version);
    let fault = match answer {
        Err(kube::Error::Service(error)) => {
            let kind = error.downcast::<std::io::Error>().unwrap().kind();
            assert_eq!(kind, std::io::ErrorKind::ConnectionReset);
            let after = [Injected::BrokenBefore, Injected::BrokenAfter];
            Some(after[usize::from(done)])
        }
        Err(other) => panic!("{other}"),
        Ok(answer) if answer.status().is_success() => {
            assert_eq!(done, answer.status() == StatusCode::CREATED);
            assert!(took <= USUAL || took >= SLOW, "{took:?}");
            (took > USUAL).then_some(Injected::Slow)
        }
        Ok(answer) => {
            let code = answer.status().as_u16();
            let later = answer.headers().get(RETRY_AFTER).map(HeaderValue::as_bytes);
            let wanted: Option<&[u8]> = matches!(code, 429 | 503 | 504).then_some(b"1");
            assert!(later == wanted && !done, "{code}: Retry-After {later:?}, done {done}");
            let text = answer.into_body().collect().await.unwrap().to_bytes();
            let status: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)));
            Some(Injected::Refused(code))
        }
    };
    (fault, took)
}

/// One watch in which a pod is created every six seconds; what went wrong with it, and how often.
async fn watch(server: &FakeApi, seen: &mut Seen) {
    let mut note = |fault| *seen.entry(fault).or_default() += 1;
    let api = pods(server);
    let (began, version) = (Instant::now(), server.store().version().to_string());
    let events = api
        .watch(&WatchParams::default().timeout(WATCHED), &version)
        .await
        .unwrap();
    let writer = server.clone();
    let writing = AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            sleep(Duration::from_secs(6)).await;
            let id = Id {
                kind: Kind::Pod,
                namespace: "ns".to_owned(),
                name: String::new(),
            };
            let since = began.elapsed().as_millis().to_string();
            let body = json!({"metadata": {"generateName": "p-", "labels": {"since": since}}});
            writer.store().create(id, body, &"admin".into()).unwrap();
        }
    }));
    pin_mut!(events);
    let (mut last, mut bookmarks) = (String::new(), 0);
    while let Some(event) = events.next().await {
        match event {
            Ok(WatchEvent::Added(pod)) if pod.name_any() == last => note(Injected::Twice),
            Ok(WatchEvent::Added(pod)) => {
                let since = Duration::from_millis(pod.labels()["since"].parse().unwrap());
                if began.elapsed() > since + USUAL_LAG {
                    note(Injected::Late);
                }
                last = pod.name_any();
            }
            // That of the end is usual.
            Ok(WatchEvent::Bookmark(_)) if began.elapsed().as_secs() >= WATCHED.into() => {}
            Ok(WatchEvent::Bookmark(_)) => {
                bookmarks += 1;
                note(Injected::Bookmark);
            }
            Ok(WatchEvent::Error(status)) if status.code == 410 => note(Injected::WatchGone),
            Ok(other) => panic!("{other:?}"),
            Err(kube::Error::ReadEvents(error)) => {
                assert!(began.elapsed() < Duration::from_secs(31), "{error}");
                note(Injected::WatchBroken);
            }
            Err(other) => panic!("{other}"),
        }
    }
    drop(writing);
    assert!(bookmarks == 0 || bookmarks == WATCHED - 1, "{bookmarks}: one a second");
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_seen_by_a_client_as_often_as_it_is_counted() {
    use Injected::*;
    const PODS: &str = "/api/v1/namespaces/ns/pods";
    const POD: &str = "/api/v1/namespaces/ns/pods/a";
    const EXPAND: &str = "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachines/a/expand-spec";
    let [mut refused, mut broken, mut slow, mut expired, mut watches] = [Rates::default(); 5];
    refused.refused = 100;
    broken.broken = 100;
    slow.slow = 100;
    expired.expired = 100;
    watches.watches = 100;
    let codes = |codes: &[u16]| codes.iter().map(|code| Refused(*code)).collect();
    // Without a method: watches.
    let table: [(Rates, Option<Method>, &str, BTreeSet<Injected>); 14] = [
        (refused, Some(Method::POST), PODS, codes(&[409, 429, 500, 503, 504])),
        (refused, Some(Method::PUT), POD, codes(&[409, 429, 500, 503, 504])),
        (refused, Some(Method::PATCH), POD, codes(&[409, 429, 500, 503, 504])),
        (refused, Some(Method::DELETE), POD, codes(&[409, 429, 500, 503, 504])),
        (refused, Some(Method::GET), PODS, codes(&[410, 429, 500, 503, 504])),
        (refused, Some(Method::GET), POD, codes(&[429, 500, 503, 504])),
        (refused, Some(Method::GET), EXPAND, codes(&[429, 500, 503, 504])),
        (expired, Some(Method::POST), PODS, codes(&[401])),
        (broken, Some(Method::POST), PODS, [BrokenBefore, BrokenAfter].into()),
        (broken, Some(Method::GET), EXPAND, [BrokenBefore].into()),
        (slow, Some(Method::POST), PODS, [Slow].into()),
        (slow, Some(Method::GET), PODS, [Slow].into()),
        (slow, Some(Method::GET), EXPAND, [Slow].into()),
        (
            watches,
            None,
            PODS,
            [WatchGone, WatchBroken, Late, Twice, Bookmark].into(),
        ),
    ];
    let mut all = BTreeSet::new();
    for (rates, method, path, wanted) in table {
        let server = server_with(Faults::new(7)).await;
        server.expansion(Some(Box::new(|_, _| Box::pin(async { (200, json!({})) }))));
        create(&pods(&server), &json!({"name": "a"}), &json!({})).await;
        server.fail(rates, &["somebody"]);
        let (mut seen, mut longest) = (Seen::new(), Duration::ZERO);
        for _ in 0..TIMES {
            let Some(method) = &method else {
                watch(&server, &mut seen).await;
                continue;
            };
            let (fault, took) = ask(&server, method, path).await;
            *seen.entry(fault.unwrap()).or_default() += 1;
            longest = longest.max(took);
        }
        assert_eq!(seen, server.injected(), "{method:?} {path} {rates:?}");
        assert!(seen.keys().eq(&wanted), "{method:?} {path} {rates:?}: {seen:?}");
        assert_eq!(longest > CALL_LIMIT, rates.slow > 0, "the longest took {longest:?}");
        server.fail(Rates::default(), &[]);
        assert_eq!(ask(&server, &Method::GET, PODS).await.0, None, "faults can cease");
        all.extend(wanted);
    }
    assert_eq!(all, Injected::ALL.into(), "all that can be drawn was seen");
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_stays_so_for_a_while() {
    let server = server_with(Faults::new(7)).await;
    let rates = Rates {
        expired: 5,
        ..Rates::default()
    };
    server.fail(rates, &["somebody"]);
    let list = async || ask(&server, &Method::GET, "/api/v1/pods").await.0;
    let mut before = 0;
    while list().await.is_none() {
        before += 1;
        assert!(before < 1000, "it never expires");
    }
    for _ in 0..TIMES {
        assert_eq!(list().await, Some(Injected::Refused(401)));
    }
    sleep(Duration::from_secs(40)).await;
    assert_eq!(list().await, None);
}

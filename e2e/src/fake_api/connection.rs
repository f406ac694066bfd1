//! One user's connection to a fake API server: a tower service that `kube::Client` takes for HTTP.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use first_consumer::cluster::client::CALL_LIMIT;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode, Uri};
use k8s_openapi::jiff::Timestamp;
use kube::client::{Body, DynBody};
use serde_json::{Value, json};
use tower::{BoxError, Service};

use super::failure::Failure;
use super::faults::{Fault, Injected, Plan};
use super::request::Asked;
use super::store::{Id, Store};
use super::watch::Watch;
use super::write::{Deletion, Write};
use super::{FakeApi, lock};
use crate::control_plane::Call;
use crate::stand_in::kind::Kind;

/// A connection as one user.
#[derive(Clone)]
pub struct Connection {
    pub(super) api: FakeApi,
    pub(super) user: Arc<str>,
}

/// The body of an answer.
pub type AnswerBody = Box<DynBody>;

impl Service<Request<Body>> for Connection {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let connection = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            connection.answer(Request::from_parts(parts, body)).await
        })
    }
}

impl Connection {
    /// Answers a request. An error is a broken connection.
    pub async fn answer(&self, request: Request<Bytes>) -> Result<Response<AnswerBody>, BoxError> {
        if let Some((namespace, name)) = expand_spec(request.uri()) {
            return self.expand(namespace, name).await;
        }
        let asked = match Asked::read(request.method(), request.uri()) {
            Ok(asked) => asked,
            Err(failure) => return Ok(refused(&failure)),
        };
        let mut call = self.call_of(&asked);
        let asked_verb = asked.verb;
        let plan = self.plan(asked.verb);
        pause(plan.before).await;
        let broken = matches!(plan.fault, Some(Fault::BrokenAfter));
        let result = match plan.fault {
            Some(Fault::BrokenBefore) => return Err(self.breaks(Injected::BrokenBefore)),
            Some(Fault::Refused(failure)) => Err(self.refuses(failure)),
            _ if asked.verb == "watch" => self.watch(asked).map(Answer::Watch),
            _ => self.done(&asked, &request, &mut call).map(Answer::Body),
        };
        // Of these nobody hears the answer.
        call.code = match &result {
            _ if broken || (asked_verb != "watch" && plan.before + plan.after >= CALL_LIMIT) => 0,
            Ok(Answer::Body((code, _))) => *code,
            Ok(Answer::Watch(_)) => 200,
            Err(failure) => failure.code,
        };
        call.answered = self.api.clock().now();
        lock(&self.api.0.calls).push(call);
        pause(plan.after).await;
        if broken {
            return Err(self.breaks(Injected::BrokenAfter));
        }
        Ok(match result {
            Ok(Answer::Body((code, text))) => response(code, Box::new(full(text))),
            Ok(Answer::Watch(watch)) => response(200, Box::new(StreamBody::new(Box::pin(watch.lines())))),
            Err(failure) => refused(&failure),
        })
    }

    /// What happens to a request of this user.
    fn plan(&self, verb: &str) -> Plan {
        let plan = lock(&self.api.0.faults).request(&self.user, verb);
        if plan.slow {
            self.api.note(Injected::Slow);
        }
        plan
    }

    /// A drawn refusal.
    fn refuses(&self, failure: Failure) -> Failure {
        self.api.note(Injected::Refused(failure.code));
        failure
    }

    /// A drawn reset.
    fn breaks(&self, when: Injected) -> BoxError {
        self.api.note(when);
        io::Error::from(io::ErrorKind::ConnectionReset).into()
    }

    fn call_of(&self, asked: &Asked) -> Call {
        let now = self.api.clock().now();
        let resource = asked.kind.resource();
        Call {
            verb: asked.verb.to_owned(),
            resource: resource.plural,
            group: resource.group,
            subresource: asked.subresource.clone(),
            namespace: asked.namespace.clone(),
            name: asked.name.clone(),
            user: self.user.to_string(),
            code: 0,
            received: now,
            answered: now,
            request_object: None,
        }
    }

    fn watch(&self, asked: Asked) -> Result<Box<Watch>, Failure> {
        self.installed(&asked)?;
        let plan = lock(&self.api.0.faults).watch(&self.user);
        Watch::begin(self, asked, plan).map(Box::new)
    }

    fn installed(&self, asked: &Asked) -> Result<(), Failure> {
        let plural = asked.kind.resource().plural;
        if lock(&self.api.0.absent).contains(&plural) {
            return Err(Failure::new(404, "the server could not find the requested resource"));
        }
        Ok(())
    }

    /// Does it: HTTP status and body.
    fn done(&self, asked: &Asked, request: &Request<Bytes>, call: &mut Call) -> Result<(u16, String), Failure> {
        self.installed(asked)?;
        let body = || {
            let text = request.body();
            if text.is_empty() {
                return Ok(Value::Null);
            }
            serde_json::from_slice(text).map_err(|error| Failure::new(400, format!("not JSON: {error}")))
        };
        let write = Write {
            id: Id {
                kind: asked.kind,
                namespace: asked.namespace.clone(),
                name: asked.name.clone(),
            },
            status: asked.subresource == "status",
            user: &self.user,
        };
        match asked.verb {
            "get" => return get(&self.api.store(), asked).map(|text| (200, text)),
            "list" => return self.list(asked).map(|text| (200, text)),
            _ => {}
        }
        let body: Value = body()?;
        call.request_object = Some(body.clone());
        if asked.verb == "create"
            && asked.subresource.is_empty()
            && asked.kind == Kind::Pod
            && let Some(text) = lock(&self.api.0.admission).as_ref().and_then(|admits| admits(&body))
        {
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            return Err(Failure::new(403, format!("pods \"{name}\" is forbidden: {text}")));
        }
        let mut store = self.api.store();
        let (code, object) = match asked.verb {
            "create" if asked.subresource == "binding" => (201, store.bind(&write, &body)?),
            "create" => (201, store.create(write.id, body, &self.user)?),
            "update" => (200, store.update(&write, body)?),
            "delete" => (200, store.delete(&write.id, &Deletion::read(&body), &self.user)?),
            _ => match request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) {
                Some("application/json-patch+json") => (200, store.json_patch(&write, &body)?),
                Some("application/apply-patch+yaml") => (
                    200,
                    store.apply(&write, &body, asked.parameter("force") == Some("true"))?,
                ),
                _ => (200, store.merge(&write, &body)?),
            },
        };
        if call.name.is_empty()
            && let Some(name) = object["metadata"]["name"].as_str()
        {
            name.clone_into(&mut call.name);
        }
        Ok((code, object.to_string()))
    }

    async fn expand(&self, namespace: &str, name: &str) -> Result<Response<AnswerBody>, BoxError> {
        let received = self.api.clock().now();
        let plan = self.plan("get");
        pause(plan.before).await;
        let expanding = lock(&self.api.0.expansion)
            .as_ref()
            .map(|expand| expand(namespace.to_owned(), name.to_owned()));
        let answer = match (plan.fault, expanding) {
            (Some(Fault::Refused(failure)), _) => refused(&self.refuses(failure)),
            // What reads only is as if it had never been done.
            (Some(_), _) => return Err(self.breaks(Injected::BrokenBefore)),
            (None, Some(expanding)) => {
                let (code, body) = expanding.await;
                response(code, Box::new(full(body.to_string())))
            }
            (None, None) => refused(&Failure::new(503, "no endpoints available for service \"virt-api\"")),
        };
        let code = answer.status().as_u16();
        lock(&self.api.0.calls).push(self.expansion_call(namespace, name, code, received));
        pause(plan.after).await;
        Ok(answer)
    }

    fn expansion_call(&self, namespace: &str, name: &str, code: u16, received: Timestamp) -> Call {
        Call {
            verb: "get".to_owned(),
            resource: "virtualmachines".to_owned(),
            group: "subresources.kubevirt.io".to_owned(),
            subresource: "expand-spec".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            user: self.user.to_string(),
            code,
            received,
            answered: self.api.clock().now(),
            request_object: None,
        }
    }
}

enum Answer {
    Body((u16, String)),
    Watch(Box<Watch>),
}

fn get(store: &Store, asked: &Asked) -> Result<String, Failure> {
    let found = store.get(asked.kind, &asked.namespace, &asked.name);
    let missing = || Failure::not_found(&asked.kind.resource().plural, &asked.name);
    Ok(found.ok_or_else(missing)?.to_string())
}

impl Connection {
    /// A page. The pages of one list have the version of the first: a watch from there tells what has changed meanwhile.
    fn list(&self, asked: &Asked) -> Result<String, Failure> {
        let store = self.api.store();
        let selector = asked.selector();
        let invalid = || Failure::new(400, "continue key is not valid");
        let token = asked.parameter("continue").map(|token| {
            let mut parts = token.splitn(3, ':');
            Some((parts.next()?.parse::<u64>().ok()?, parts.next()?, parts.next()?))
        });
        let (version, after) = match token {
            Some(token) => {
                let (version, namespace, name) = token.ok_or_else(invalid)?;
                (version, Some((namespace, name)))
            }
            None => (store.version(), None),
        };
        let limit = usize::try_from(asked.number("limit")?.unwrap_or(0)).unwrap_or(0);
        let mut found = store
            .list(asked.kind, &asked.namespace, after)
            .filter(|(_, object)| selector.takes(object));
        let page: Vec<_> = found
            .by_ref()
            .take(if limit == 0 { usize::MAX } else { limit })
            .collect();
        let more = found.next().is_some();
        let last = page.last().filter(|_| more);
        let token = last.map(|(id, _)| format!("{version}:{}:{}", id.namespace, id.name));
        self.api
            .tell(&self.user, &mut page.iter().map(|(_, object)| &***object));
        let items: Vec<String> = page.iter().map(|(_, object)| object.to_string()).collect();
        let types = asked.kind.types();
        let metadata = json!({"resourceVersion": version.to_string(), "continue": token.unwrap_or_default()});
        Ok(format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[{}]}}",
            types.kind,
            types.api_version,
            items.join(",")
        ))
    }
}

/// Namespace and name of a VM to be expanded.
fn expand_spec(uri: &Uri) -> Option<(&str, &str)> {
    let path = uri
        .path()
        .strip_prefix("/apis/subresources.kubevirt.io/v1/namespaces/")?;
    let (namespace, rest) = path.split_once("/virtualmachines/")?;
    Some((namespace, rest.strip_suffix("/expand-spec")?))
}

async fn pause(time: std::time::Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn full(text: String) -> impl hyper::body::Body<Data = Bytes, Error = BoxError> + Send + Unpin {
    Full::new(Bytes::from(text)).map_err(|never| match never {})
}

fn response(code: u16, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn refused(failure: &Failure) -> Response<AnswerBody> {
    let mut response = response(failure.code, Box::new(full(failure.status().to_string())));
    if let Some(seconds) = failure.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

//! The fake API server on an address, for clients in other processes.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::BoxError;

use super::FakeApi;
use super::connection::{AnswerBody, Connection};

/// Serves until it is dropped. Whoever brings a bearer token is its user.
pub async fn serve(api: FakeApi, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(api.clone(), stream));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A kubeconfig for a user of a server at this address.
#[must_use]
pub fn kubeconfig(address: &str, user: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "fake", "user": {"token": user}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
    })
}

async fn connection(api: FakeApi, stream: TcpStream) {
    let service = service_fn(move |request| answer(api.clone(), request));
    // An error is a client that has gone, or a fault that was asked for.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(api: FakeApi, request: Request<Incoming>) -> Result<Response<AnswerBody>, BoxError> {
    let token = request
        .headers()
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer "));
    let user: Arc<str> = token.unwrap_or("system:anonymous").into();
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    Connection { api, user }.answer(Request::from_parts(parts, body)).await
}

//! A server on a free port that answers as a test says, and remembers what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use kube::Config;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One request that arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The body; null if there was none.
    pub body: Value,
}

/// An answer: HTTP status and body.
pub type Answer = (u16, String);

/// Stops when it is dropped.
pub struct TestServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl TestServer {
    pub async fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<dyn Fn(&Asked) -> Answer + Send + Sync> = Arc::new(answer);
        let log = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                let service = service_fn(move |request| respond(request, Arc::clone(&answer), Arc::clone(&log)));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, asked, task }
    }

    pub fn config(&self) -> Config {
        Config::new(format!("http://{}", self.address).parse().unwrap())
    }

    pub fn requests(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(
    request: Request<Incoming>,
    answer: Arc<dyn Fn(&Asked) -> Answer + Send + Sync>,
    log: Arc<Mutex<Vec<Asked>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let asked = Asked {
        method: parts.method,
        path: parts.uri.to_string(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (code, text) = answer(&asked);
    log.lock().unwrap().push(asked);
    let response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    Ok(response.body(Full::from(text)).unwrap())
}

/// A failure as the API server words it.
pub fn status(code: u16, message: &str) -> Answer {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        _ => "Failed",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code});
    (code, status.to_string())
}

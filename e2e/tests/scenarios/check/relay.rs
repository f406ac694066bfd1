//! A control plane that says another version of itself: all other questions are passed on to it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use first_consumer_e2e::fake_api::server::kubeconfig;

/// Runs until it is dropped.
pub struct Relay {
    /// How to reach it.
    pub kubeconfig: NamedTempFile,
    version: Arc<Mutex<String>>,
    _tasks: JoinSet<()>,
}

impl Relay {
    /// In front of what the client reaches.
    pub async fn start(client: Client) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), kubeconfig(&address, "anybody").to_string())?;
        let version = Arc::<Mutex<String>>::default();
        let said = Arc::clone(&version);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (client, said) = (client.clone(), Arc::clone(&said));
                let service = service_fn(move |request| answer(client.clone(), Arc::clone(&said), request));
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self {
            kubeconfig: file,
            version,
            _tasks: tasks,
        })
    }

    /// From now on it says this version.
    pub fn says(&self, version: &str) {
        let mut said = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        version.clone_into(&mut said);
    }
}

async fn answer(
    client: Client,
    said: Arc<Mutex<String>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/version" {
        let version = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let info = json!({"major": "1", "minor": "0", "gitVersion": version, "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        return Ok(Response::new(Full::from(info.to_string())));
    }
    Ok(pass_on(client, request).await.unwrap_or_else(|error| {
        let mut failed = Response::new(Full::from(format!("{error:#}")));
        *failed.status_mut() = hyper::StatusCode::BAD_GATEWAY;
        failed
    }))
}

async fn pass_on(client: Client, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let (mut parts, body) = request.into_parts();
    // The client brings its own.
    parts.headers.remove(hyper::header::AUTHORIZATION);
    parts.headers.remove(hyper::header::HOST);
    let body = Body::from(body.collect().await?.to_bytes().to_vec());
    let (parts, body) = client.send(Request::from_parts(parts, body)).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = parts.status;
    if let Some(kind) = parts.headers.get(hyper::header::CONTENT_TYPE) {
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind.clone());
    }
    Ok(response)
}

//! Stand-in for virt-api: serves `expand-spec` over HTTPS on the loopback. kube-apiserver reaches it through an APIService
//! and a Service of type ExternalName.

use super::{instancetypes::Instancetypes, kind::Kind, switch::Switch};
use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc};
use tokio::{net::TcpListener, net::TcpStream, task::JoinSet};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};
use tokio_util::sync::CancellationToken;

/// The API that it serves.
const GROUP: &str = "subresources.kubevirt.io";

/// What a request needs.
pub struct VirtApi {
    /// Reads VMs.
    pub client: Client,
    /// What they name.
    pub instancetypes: Arc<Instancetypes>,
    /// Where it is off, nobody gets an expansion.
    pub switch: Switch,
}

impl VirtApi {
    /// Serves it and returns its port.
    pub async fn serve(self: Arc<Self>, tasks: &mut JoinSet<()>, stop: CancellationToken) -> Result<u16> {
        let acceptor = TlsAcceptor::from(Arc::new(certificate()?));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let api = self;
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    accepted = listener.accept() => {
                        if let Ok((stream, _)) = accepted {
                            connections.spawn(serve(Arc::clone(&api), acceptor.clone(), stream));
                        }
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(port)
    }

    async fn answer(&self, path: &str) -> (u16, Value) {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts[..] {
            ["apis", GROUP, "v1"] => (200, resources()),
            [
                "apis",
                GROUP,
                "v1",
                "namespaces",
                namespace,
                "virtualmachines",
                name,
                "expand-spec",
            ] => self.expand(namespace, name).await,
            _ => failure(404, "the server could not find the requested resource"),
        }
    }

    /// `expand-spec`: HTTP status and body.
    pub async fn expand(&self, namespace: &str, name: &str) -> (u16, Value) {
        if !self.switch.is_on(namespace) {
            return failure(503, "virt-api is switched off");
        }
        let vms = Kind::VirtualMachine.api(&self.client, namespace);
        let vm = match vms.get_opt(name).await.map(|vm| vm.map(serde_json::to_value)) {
            Ok(Some(Ok(vm))) => vm,
            Ok(None) => return failure(404, "no such VM"),
            Ok(Some(Err(error))) => return failure(500, &error.to_string()),
            Err(error) => return failure(500, &error.to_string()),
        };
        match self.instancetypes.expand(namespace, vm) {
            Ok(vm) => (200, vm),
            // As KubeVirt does (reference D.3).
            Err(missing) => failure(500, &missing),
        }
    }
}

/// The objects that make kube-apiserver pass requests on to a port of this machine.
#[must_use]
pub fn manifests(port: u16) -> String {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubevirt"}});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "virt-api", "namespace": "kubevirt"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    });
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("v1.{GROUP}")},
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": {"namespace": "kubevirt", "name": "virt-api", "port": port},
        },
    });
    [namespace, service, api]
        .map(|object| object.to_string())
        .join("\n---\n")
}

fn resources() -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
        "resources": [{"name": "virtualmachines/expand-spec", "singularName": "", "namespaced": true,
            "kind": "VirtualMachine", "verbs": ["get"]}],
    })
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code});
    (code, status)
}

/// A certificate that nobody has to trust: the APIService skips the check.
fn certificate() -> Result<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .context("virt-api's certificate")
}

async fn serve(api: Arc<VirtApi>, acceptor: TlsAcceptor, stream: TcpStream) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let api = Arc::clone(&api);
        async move {
            let (code, body) = api.answer(request.uri().path()).await;
            let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
            *response.status_mut() = code.try_into().unwrap_or_default();
            let json = hyper::header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
            Ok::<_, Infallible>(response)
        }
    });
    // An error is a caller that has gone.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

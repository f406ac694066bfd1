//! Clients for the API server. No call may hang and no write is repeated behind our back.

use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, Layer, Service};

/// How long one call may take. Watches are not calls: they end themselves.
pub const CALL_LIMIT: Duration = Duration::from_secs(10);

/// How long one call for the Lease may take, which is worth nothing when it is late.
pub const LEASE_LIMIT: Duration = Duration::from_secs(5);

/// Which cluster to talk to, and as whom; kubectl's flags of these names. All empty: `KUBECONFIG` or the user's
/// kubeconfig, else the ServiceAccount of the pod that we run in.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// A kubeconfig file instead of the usual ones.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it.
    pub context: Option<String>,
    /// A cluster of it, instead of the context's.
    pub cluster: Option<String>,
    /// A user of it, instead of the context's.
    pub user: Option<String>,
    /// Whom to impersonate.
    pub impersonate: Option<String>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig can't be read, or does not hold what was asked for.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
    /// There is neither a kubeconfig nor a ServiceAccount.
    #[error("no cluster to talk to")]
    Infer(#[from] InferConfigError),
    /// Certificates, keys or tokens can't be used.
    #[error("cannot set up the connection")]
    Setup(#[from] kube::Error),
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No answer in time. A write may or may not have happened.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The API server's refusal, or a broken connection.
    #[error("{}", brief(.0))]
    Failed(#[from] kube::Error),
}

impl CallError {
    /// The HTTP status of the API server's answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Failed(kube::Error::Api(status)) => Some(status.code),
            Self::TimedOut(_) | Self::Failed(_) => None,
        }
    }
}

/// The text of an error for a log line: the API server's sentence alone, and never a piece of an object.
#[must_use]
pub fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} (HTTP {})", status.message, status.code),
        kube::Error::SerdeError(_) => "the answer could not be decoded".to_owned(),
        // What the transport says at first is only that it failed.
        kube::Error::Service(error) => {
            let causes = std::iter::successors(Some(&**error as &dyn Error), |error: &&dyn Error| (*error).source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        }
        other => other.to_string(),
    }
}

/// Runs a call that is no watch under a time limit.
pub async fn timed<T>(limit: Duration, call: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(CallError::TimedOut(limit)),
    }
}

/// Hears of every request: verb (`get`, `list`, `watch`, `create`, `update`, `patch`, `delete`) and HTTP status, 0 if
/// there was no answer.
pub type Observer = Arc<dyn Fn(&'static str, u16) + Send + Sync>;

/// The clients, one for each way of dealing with failures.
#[derive(Clone)]
pub struct Clients {
    /// For watches and reads: an overloaded server is asked again for a while.
    pub read: Client,
    /// For writes: nothing is sent twice, the caller decides again instead.
    pub write: Client,
    /// For the Lease: as `write`, and given up after [`LEASE_LIMIT`].
    pub lease: Client,
}

impl Clients {
    /// Prepares the clients; nothing is sent yet.
    pub async fn new(target: &Target, observer: Observer) -> Result<Self, ConnectError> {
        Ok(Self::from_config(&config(target).await?, &observer)?)
    }

    /// Clients over a service instead of a connection, such as an API server in the same process: with the same layers,
    /// apart from the limits of a connection.
    pub fn over<S>(service: S, observer: &Observer) -> Self
    where
        S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError> + Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let layer = ObserverLayer(Arc::clone(observer));
        let again = RetryLayer::new(RetryPolicy::server_retry());
        let read = ClientBuilder::new(service.clone(), "default")
            .with_layer(&again)
            .with_layer(&layer);
        let write = ClientBuilder::new(service, "default").with_layer(&layer).build();
        Self {
            read: read.build(),
            lease: write.clone(),
            write,
        }
    }

    /// Prepares the clients for a known configuration.
    pub fn from_config(config: &Config, observer: &Observer) -> kube::Result<Self> {
        let read = config.clone();
        let mut write = config.clone();
        write.default_retry = false;
        let mut lease = write.clone();
        lease.connect_timeout = Some(LEASE_LIMIT);
        lease.read_timeout = Some(LEASE_LIMIT);
        // Otherwise the time that a pooled connection was idle would count as waiting for an answer.
        lease.reset_reader_on_write = true;
        Ok(Self {
            read: client(read, observer)?,
            write: client(write, observer)?,
            lease: client(lease, observer)?,
        })
    }
}

/// The configuration of the target, with our user agent `first-consumer/VERSION`.
pub async fn config(target: &Target) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions {
        context: target.context.clone(),
        cluster: target.cluster.clone(),
        user: target.user.clone(),
    };
    let chosen = options.context.is_some() || options.cluster.is_some() || options.user.is_some();
    let mut config = match &target.kubeconfig {
        Some(file) => Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?,
        // Whoever names a context means a kubeconfig; the ServiceAccount is not what they want.
        None if chosen => Config::from_kubeconfig(&options).await?,
        None => Config::infer().await?,
    };
    if target.impersonate.is_some() {
        config.auth_info.impersonate.clone_from(&target.impersonate);
    }
    let agent = concat!("first-consumer/", env!("CARGO_PKG_VERSION"));
    config.headers.push((USER_AGENT, HeaderValue::from_static(agent)));
    Ok(config)
}

fn client(config: Config, observer: &Observer) -> kube::Result<Client> {
    let layer = ObserverLayer(Arc::clone(observer));
    Ok(ClientBuilder::try_from(config)?.with_layer(&layer).build())
}

struct ObserverLayer(Observer);

impl<S> Layer<S> for ObserverLayer {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed {
            inner,
            observer: Arc::clone(&self.0),
        }
    }
}

/// Tells the observer how each request ended.
struct Observed<S> {
    inner: S,
    observer: Observer,
}

impl<S> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = verb(request.method(), request.uri());
        let observer = Arc::clone(&self.observer);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            observer(verb, answer.as_ref().map_or(0, |answer| answer.status().as_u16()));
            answer
        })
    }
}

/// The API server's word for a request.
fn verb(method: &Method, uri: &Uri) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ if uri.query().is_some_and(|query| query.contains("watch=true")) => "watch",
        _ if lists(uri.path()) => "list",
        _ => "get",
    }
}

/// Whether a path ends in a plural: `[namespaces/NAMESPACE/]PLURAL` after group and version.
fn lists(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let group_and_version = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return false,
    };
    matches!(parts.skip(group_and_version).count(), 1 | 3)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api;
    use kube::api::PostParams;

    use super::*;
    use crate::cluster::test_server::{TestServer, status};

    #[test]
    fn a_request_is_named_by_the_api_servers_verb() {
        let verb = |method, uri: &str| verb(&method, &uri.parse().unwrap());
        assert_eq!(verb(Method::GET, "/api/v1/pods?limit=250"), "list");
        assert_eq!(verb(Method::GET, "/api/v1/namespaces/ns/pods"), "list");
        assert_eq!(verb(Method::GET, "/api/v1/namespaces/ns/pods/a"), "get");
        assert_eq!(
            verb(
                Method::GET,
                "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines?watch=true"
            ),
            "watch"
        );
        assert_eq!(verb(Method::GET, "/version"), "get");
        assert_eq!(verb(Method::POST, "/api/v1/namespaces/ns/pods"), "create");
        assert_eq!(verb(Method::DELETE, "/api/v1/namespaces/ns/pods/a"), "delete");
        assert_eq!(verb(Method::PATCH, "/api/v1/namespaces/ns/events/a"), "patch");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_given_up() {
        let error = timed(CALL_LIMIT, std::future::pending::<kube::Result<()>>())
            .await
            .unwrap_err();
        assert!(matches!(error, CallError::TimedOut(CALL_LIMIT)));
        assert_eq!(error.to_string(), "no answer within 10 s");
        assert_eq!(error.code(), None);
    }

    #[tokio::test]
    async fn a_write_is_sent_once_with_our_user_agent_and_its_end_is_observed() {
        let server = TestServer::start(|_| status(503, "come back later")).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&seen);
        let observer: Observer = Arc::new(move |verb, code| heard.lock().unwrap().push((verb, code)));
        let clients = Clients::from_config(&server.config(), &observer).unwrap();
        let call = Api::<Namespace>::all(clients.write)
            .create(&PostParams::default(), &Namespace::default())
            .await;
        let error = CallError::from(call.unwrap_err());
        assert_eq!(error.code(), Some(503));
        assert_eq!(error.to_string(), "come back later (HTTP 503)");
        assert_eq!(*seen.lock().unwrap(), [("create", 503)]);
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn a_named_context_needs_a_kubeconfig_that_has_it() {
        let folder = std::env::temp_dir().join(format!("first-consumer-client-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config");
        let text = r#"{"apiVersion":"v1","kind":"Config","current-context":"a",
            "clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}},{"name":"d","cluster":{"server":"http://127.0.0.1:2"}}],
            "users":[{"name":"u","user":{}}],
            "contexts":[{"name":"a","context":{"cluster":"c","user":"u","namespace":"n"}}]}"#;
        std::fs::write(&file, text).unwrap();
        let target = Target {
            kubeconfig: Some(file),
            cluster: Some("d".to_owned()),
            impersonate: Some("somebody".to_owned()),
            ..Target::default()
        };
        let found = config(&target).await.unwrap();
        assert_eq!(found.cluster_url.to_string(), "http://127.0.0.1:2/");
        assert_eq!(found.default_namespace, "n");
        assert_eq!(found.auth_info.impersonate.as_deref(), Some("somebody"));
        assert!(
            found
                .headers
                .iter()
                .any(|(name, value)| *name == USER_AGENT && value.as_bytes().starts_with(b"first-consumer/"))
        );
        let missing = Target {
            context: Some("b".to_owned()),
            ..target
        };
        assert!(matches!(config(&missing).await, Err(ConnectError::Kubeconfig(_))));
        std::fs::remove_dir_all(folder).unwrap();
    }
}

//! The HTTP endpoints `/livez`, `/healthz`, `/readyz` and `/metrics`. They only read.

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

/// How long a client may take to send the head of a request.
const HEADER_LIMIT: Duration = Duration::from_secs(10);

/// More than the probes and scrapers of one pod ever need.
const CONNECTIONS: usize = 64;

/// How long open answers may take at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Says whether all is well, or what is not.
pub type Probe = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// What the endpoints show.
pub struct Endpoints {
    /// `/livez` and `/healthz`: an error asks for a restart.
    pub alive: Probe,
    /// `/readyz`: an error says what is still missing. A standby is ready too.
    pub ready: Probe,
    /// The body of `/metrics` and its content type.
    pub metrics: Box<dyn Fn() -> (String, &'static str) + Send + Sync>,
}

/// Remembers when the worker loop was last seen.
#[derive(Debug)]
pub struct Heartbeat {
    last: Mutex<Instant>,
    limit: Duration,
}

impl Heartbeat {
    /// A heart that has just beaten, and has to beat again within `limit`.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            limit,
        }
    }

    /// It beats.
    pub fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// An error if the last beat is too long ago.
    pub fn check(&self) -> Result<(), String> {
        let age = self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if age <= self.limit {
            Ok(())
        } else {
            Err(format!("the workers have not been seen for {} s", age.as_secs()))
        }
    }
}

/// The server, bound and not yet serving.
pub struct Admin {
    listener: TcpListener,
    endpoints: Arc<Endpoints>,
}

impl Admin {
    /// Binds to an address; `[::]` is every address of either family. An error means that it is taken or not ours.
    pub async fn bind(address: SocketAddr, endpoints: Endpoints) -> std::io::Result<Self> {
        let listener = match TcpListener::bind(address).await {
            Err(error) if lacks_ipv6(address, &error) => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await?
            }
            bound => bound?,
        };
        Ok(Self {
            listener,
            endpoints: Arc::new(endpoints),
        })
    }

    /// Serves until `stop`, then lets open answers finish.
    pub async fn serve(self, stop: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let open = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&self.listener, &places) => accepted,
            };
            let Some((stream, place)) = accepted else { continue };
            let (endpoints, stop) = (Arc::clone(&self.endpoints), stop.clone());
            open.spawn(async move {
                connection(stream, endpoints, stop).await;
                drop(place);
            });
        }
        open.close();
        let _ = tokio::time::timeout(FAREWELL, open.wait()).await;
    }
}

/// Whether every address was asked for, and the kernel has no IPv6 (Linux `EAFNOSUPPORT`, `EADDRNOTAVAIL`).
fn lacks_ipv6(address: SocketAddr, error: &std::io::Error) -> bool {
    address.ip() == Ipv6Addr::UNSPECIFIED && matches!(error.raw_os_error(), Some(97 | 99))
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            debug!(%error, "cannot accept a connection");
            // Out of file descriptors, most likely: trying again at once would not help.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn connection(stream: TcpStream, endpoints: Arc<Endpoints>, stop: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&endpoints, request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        debug!(%error, "a connection ended badly");
    }
}

fn answer(endpoints: &Endpoints, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let (status, kind, text) = match path {
        "/livez" | "/healthz" | "/readyz" | "/metrics" if method != Method::GET && method != Method::HEAD => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned())
        }
        "/livez" | "/healthz" => probe(&endpoints.alive),
        "/readyz" => probe(&endpoints.ready),
        "/metrics" => {
            let (text, kind) = (endpoints.metrics)();
            (StatusCode::OK, kind, text)
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", "not found\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

fn probe(probe: &Probe) -> (StatusCode, &'static str, String) {
    match probe() {
        Ok(()) => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        Err(trouble) => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{trouble}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Bench {
        address: SocketAddr,
        ready: Arc<AtomicBool>,
        stop: CancellationToken,
        task: tokio::task::JoinHandle<()>,
    }

    async fn bench(address: &str) -> Bench {
        let ready = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&ready);
        let endpoints = Endpoints {
            alive: Box::new(|| Ok(())),
            ready: Box::new(move || {
                let ready = asked.load(Ordering::Relaxed);
                ready.then_some(()).ok_or_else(|| "not listed yet: Pod".to_owned())
            }),
            metrics: Box::new(|| ("# EOF\n".to_owned(), "application/test")),
        };
        let admin = Admin::bind(address.parse().unwrap(), endpoints).await.unwrap();
        let address = admin.listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(admin.serve(stop.clone()));
        Bench {
            address,
            ready,
            stop,
            task,
        }
    }

    impl Bench {
        async fn ask(&self, method: &str, path: &str) -> String {
            let address = self.address;
            let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            let call = move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(request.as_bytes()).unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                text
            };
            tokio::task::spawn_blocking(call).await.unwrap()
        }
    }

    #[tokio::test]
    async fn the_endpoints_answer_and_nothing_else_does() {
        let bench = bench("127.0.0.1:0").await;
        for path in ["/livez", "/healthz"] {
            let text = bench.ask("GET", path).await;
            assert!(
                text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\nok\n"),
                "{text}"
            );
        }
        let text = bench.ask("GET", "/readyz").await;
        assert!(
            text.starts_with("HTTP/1.1 503") && text.ends_with("not listed yet: Pod\n"),
            "{text}"
        );
        bench.ready.store(true, Ordering::Relaxed);
        assert!(bench.ask("GET", "/readyz").await.starts_with("HTTP/1.1 200"));
        let text = bench.ask("GET", "/metrics").await;
        assert!(
            text.contains("content-type: application/test\r\n") && text.ends_with("# EOF\n"),
            "{text}"
        );
        assert!(bench.ask("GET", "/").await.starts_with("HTTP/1.1 404"));
        let text = bench.ask("POST", "/livez").await;
        assert!(
            text.starts_with("HTTP/1.1 405") && text.contains("allow: GET, HEAD\r\n"),
            "{text}"
        );
        let text = bench.ask("HEAD", "/livez").await;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n\r\n"), "{text}");
    }

    #[tokio::test]
    async fn every_address_is_asked_for_by_either_family() {
        let mut bench = bench("[::]:0").await;
        bench.address.set_ip(Ipv4Addr::LOCALHOST.into());
        assert!(bench.ask("GET", "/livez").await.starts_with("HTTP/1.1 200"));
        let cases = [
            ("[::]:8080", 97, true),
            ("[::]:8080", 99, true),
            ("[::]:8080", 98, false),
            ("[::1]:8080", 99, false),
            ("0.0.0.0:8080", 99, false),
        ];
        for (address, code, lacks) in cases {
            let error = std::io::Error::from_raw_os_error(code);
            assert_eq!(lacks_ipv6(address.parse().unwrap(), &error), lacks, "{address} {code}");
        }
    }

    #[tokio::test]
    async fn an_idle_connection_does_not_delay_the_end() {
        let bench = bench("127.0.0.1:0").await;
        let mut idle = TcpStream::connect(bench.address).unwrap();
        idle.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let read = move || {
            let mut buffer = [0; 12];
            idle.read_exact(&mut buffer).unwrap();
            (idle, buffer)
        };
        let (_idle, buffer) = tokio::task::spawn_blocking(read).await.unwrap();
        assert_eq!(&buffer, b"HTTP/1.1 200");
        bench.stop.cancel();
        tokio::time::timeout(Duration::from_secs(1), bench.task)
            .await
            .unwrap()
            .unwrap();
        assert!(TcpStream::connect(bench.address).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_heart_that_stops_is_noticed() {
        let heart = Heartbeat::new(Duration::from_secs(30));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(heart.check(), Ok(()));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(heart.check(), Err("the workers have not been seen for 32 s".to_owned()));
        heart.beat();
        assert_eq!(heart.check(), Ok(()));
    }
}

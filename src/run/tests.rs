//! What `run` does when a part of it ends.

use super::*;
use crate::cluster::test_server::{TestServer, status};

/// A controller whose API server knows no kind at all, and that server.
async fn controller() -> (Controller, TestServer) {
    let server = TestServer::start(|_| status(404, "no such kind")).await;
    let metrics = Arc::new(Metrics::new());
    let controller = Controller::start(Setup {
        clients: Clients::from_config(&server.config(), &observer(&metrics)).expect("clients"),
        settings: Settings::default(),
        namespace: None,
        create_rate: 20,
        candidate: None,
        metrics,
        clock: Clock::default(),
    });
    (controller, server)
}

#[tokio::test]
async fn a_watch_or_a_service_that_ends_is_noticed_and_the_rest_ends_in_order() {
    let (mut controller, _server) = controller().await;
    controller.synced.wait().await;
    let quiet = timeout(Duration::from_millis(50), controller.broken()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    controller.watching.spawn(async { panic!("on purpose") });
    let broken = controller.broken().await.to_string();
    assert!(
        broken.starts_with("a watch ended: ") && broken.contains("panic"),
        "{broken}"
    );
    controller.tasks.spawn(async {});
    assert_eq!(
        controller.broken().await.to_string(),
        "the lease or the events ended: without an error"
    );
    controller.tasks.spawn(async { panic!("on purpose") });
    controller.stop().await;
}

#[tokio::test]
async fn a_worker_that_panics_is_replaced() {
    let (mut controller, _server) = controller().await;
    controller.workers.abort_all();
    let quiet = timeout(Duration::from_millis(50), controller.broken()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    assert_eq!(controller.workers.len(), WORKERS);
    controller.worker.queue.close();
    for _ in 0..WORKERS {
        let ended = controller.workers.join_next().await.expect("a worker");
        assert!(ended.is_ok(), "the new ones live until the queue is closed: {ended:?}");
    }
}

//! What `run` does when a part of it ends.

use super::*;
use crate::cli::files;
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
        "the lease, the events or the resync ended: without an error"
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

/// Whatever the watches have forgotten to tell: every subject has its turn within two rounds, not all at once, and nobody
/// who has been there comes again before the next.
#[tokio::test]
async fn a_change_that_nobody_was_told_of_is_found() {
    let (mut controller, _server) = controller().await;
    controller.synced.wait().await;
    controller.watching.shutdown().await;
    tokio::time::pause();
    for name in ["a", "b", "c", "d"] {
        let objects = WAITING.replace("NAME", name);
        files::read(&mut lock(&controller.worker.index), &objects, "ns").expect("readable");
    }
    let mut counts = Vec::new();
    for _ in 0..4 {
        tokio::time::sleep(RESYNC / 2).await;
        let metrics = (controller.endpoints().metrics)().0;
        let waiting = metrics.lines().find(|line| line.starts_with(COUNT));
        counts.push(waiting.map(|line| line[COUNT.len()..].trim().to_owned()));
    }
    let count = |number: &str| Some(number.to_owned());
    assert_eq!(counts, [None, count("1"), count("3"), count("4")]);
    controller.stop().await;
}

/// Nobody has asked for it, so nothing is written.
const COUNT: &str = "first_consumer_waiting_subjects{reason=\"NotAskedFor\"}";

const WAITING: &str = r"
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: NAME, uid: vm-NAME}
spec: {runStrategy: Halted, template: {spec: {volumes: [{name: root, dataVolume: {name: NAME}}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: NAME
  uid: claim-NAME
  ownerReferences: [{apiVersion: cdi.kubevirt.io/v1beta1, kind: DataVolume, name: NAME, uid: dv-NAME, controller: true}]
spec: {storageClassName: late}
status: {phase: Pending}
---
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata: {name: NAME, uid: dv-NAME}
status: {phase: WaitForFirstConsumer}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: example.com/local
volumeBindingMode: WaitForFirstConsumer
";

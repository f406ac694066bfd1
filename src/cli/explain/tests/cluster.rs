//! `explain` and `render` of a cluster that has an object that can't be read, and whose virt-api nobody may ask.

use std::path::PathBuf;

use super::*;
use crate::cli::render;
use crate::cluster::test_server::{TestServer, status};

/// An API server with `db`, which has an instancetype, and two VMs that can't be read; and a kubeconfig.
async fn cluster(name: &str) -> (TestServer, PathBuf) {
    let objects: Vec<Value> = yaml::documents(&vm("ns", "db", true))
        .expect("JSON")
        .into_iter()
        .map(|(_, object)| object)
        .collect();
    let server = TestServer::start(move |asked| {
        let path = asked.path.split('?').next().unwrap_or_default();
        let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).cloned().collect::<Vec<_>>();
        let odd = |namespace: &str| json!({"metadata": {"name": "odd", "namespace": namespace}, "spec": {"running": "SECRET"}});
        let items = match path.rsplit('/').next().unwrap_or_default() {
            "virtualmachines" => {
                let mut vms = of("VirtualMachine");
                vms[0]["spec"]["instancetype"] = json!({"name": "small"});
                [vms, vec![odd("ns"), odd("other")]].concat()
            }
            "datavolumes" => of("DataVolume"),
            "persistentvolumeclaims" => of("PersistentVolumeClaim"),
            "storageclasses" => of("StorageClass"),
            "expand-spec" => return status(403, "you may not"),
            "ns" => return status(404, "no"),
            _ => Vec::new(),
        };
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}).to_string())
    })
    .await;
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "c", "cluster": {"server": server.config().cluster_url.to_string()}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}]});
    let file = std::env::temp_dir().join(format!("first-consumer-cluster-{name}-{}", std::process::id()));
    std::fs::write(&file, config.to_string()).expect("written");
    (server, file)
}

#[tokio::test]
async fn an_object_that_cannot_be_read_stops_only_its_own_vm() {
    let (_server, config) = cluster("explain").await;
    let run = async |words: &str| {
        run_at(
            &flags(&format!("{words} --kubeconfig {}", config.display())),
            false,
            at(600),
        )
        .await
    };
    let odd = |namespace: &str| format!("VirtualMachine {namespace}/odd: cannot read the field spec.running");
    let table = run("-A").await.expect("a table");
    assert!(
        table.text.contains("vm/db   Halted   FirstConsumerNeeded"),
        "{}",
        table.text
    );
    assert_eq!(table.remarks[1..], [odd("ns"), odd("other")]);

    let named = run("vm/db").await.expect("explained");
    assert!(named.text.contains("Cause:  FirstConsumerNeeded: "), "{}", named.text);
    assert!(!named.text.contains("first-consumer explain"), "{}", named.text);
    let forbidden = "ns/db is not expanded: you may not (HTTP 403)".to_owned();
    assert_eq!(named.remarks[1..], [odd("ns"), odd("other"), forbidden]);

    for (words, code) in [("vm/odd", 2), ("vmi/odd", 2), ("dv/odd", 3), ("vm/nobody", 3)] {
        let failure = run(words).await.expect_err(words);
        assert_eq!(failure.code, code, "{failure}");
        assert_eq!(failure.message == odd("ns"), code == 2, "{failure}");
    }
    std::fs::remove_file(config).expect("removed");
}

#[tokio::test]
async fn the_same_holds_for_render() {
    let (_server, config) = cluster("render").await;
    let run = async |words: &str| {
        use clap::Parser as _;
        let words = format!("first-consumer render {words} --kubeconfig {}", config.display());
        match Cli::try_parse_from(words.split(' ')).expect("readable").command {
            Command::Render(flags) => render::run(&flags).await,
            other => panic!("{other:?}"),
        }
    };
    let odd = run("vm/odd").await.expect_err("unreadable");
    assert_eq!(
        (odd.code, &*odd.message),
        (2, "VirtualMachine ns/odd: cannot read the field spec.running")
    );
    let forbidden = run("vm/db").await.expect_err("forbidden");
    assert_eq!(
        (forbidden.code, &*forbidden.message),
        (3, "ns/db: no expand-spec: you may not (HTTP 403)")
    );
    std::fs::remove_file(config).expect("removed");
}

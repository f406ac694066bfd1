//! What a monitoring system meets: `/metrics` against the README's table, how much of it there can be, and whether
//! dashboard and alerts ask for what is there. What only `promtool` can tell is in `hack/promtool.sh`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use first_consumer::clock::Clock;
use first_consumer::decide::Settings;
use first_consumer::metrics::Metrics;
use first_consumer::reason::{Reason, Trouble};
use first_consumer::run::{Controller, Setup, observer};
use first_consumer_e2e::control_plane::workspace;
use first_consumer_e2e::fake_api::{FakeApi, Faults, Options, Scene};
use first_consumer_e2e::objects::{self, LOCAL_PATH, Vm};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, TypeMeta};
use serde_json::{Value, json};
use tokio::time::sleep;

/// What `/metrics` shows when everything that can be counted has been.
fn everything() -> Result<String> {
    let metrics = Metrics::new();
    // What has not been counted yet is not shown, so nothing must be forgotten here.
    let registered = format!("{metrics:?}").matches("Descriptor {").count();
    metrics.waits(None, Some(Reason::Unschedulable));
    metrics.diagnosed(&BTreeSet::new(), &[Trouble::SelectedNodeMissing].into());
    metrics.created(Reason::FirstConsumerNeeded);
    metrics.deleted(Reason::Served);
    metrics.failed(Reason::CreateRefused);
    metrics.request("create", 201);
    metrics.request("watch", 0);
    metrics.interrupted("Pod");
    metrics.unreadable("VirtualMachine");
    let text = metrics.text(Duration::from_secs(90));
    let shown = text.matches("# TYPE ").count();
    ensure!(shown == registered, "{shown} of {registered} metrics are counted here");
    Ok(text)
}

/// One metric as `/metrics` describes it.
#[derive(Debug, Default)]
struct Described {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    samples: BTreeSet<String>,
    /// Upper bounds, in their order, without the last, which has none.
    buckets: Vec<String>,
}

/// The metrics of a text in Prometheus' format, in its order by name.
fn described(text: &str) -> Result<BTreeMap<String, Described>> {
    let mut all = BTreeMap::<String, Described>::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            name.clone_into(&mut current);
            help.trim_end_matches('.')
                .clone_into(&mut all.entry(current.clone()).or_default().help);
            continue;
        }
        let metric = all
            .get_mut(&current)
            .with_context(|| format!("without a help: {line}"))?;
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            ensure!(name == current, "{line} follows the help of {current}");
            kind.clone_into(&mut metric.kind);
            continue;
        }
        let (series, _) = line.rsplit_once(' ').with_context(|| format!("not a sample: {line}"))?;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        ensure!(name.starts_with(&current), "{line} follows the help of {current}");
        metric.samples.insert(name.to_owned());
        let labels = labels
            .trim_end_matches('}')
            .split(',')
            .filter_map(|pair| pair.split_once('='));
        for (label, value) in labels {
            let value = value.trim_matches('"');
            match (label, value) {
                ("le", "+Inf") => {}
                ("le", bound) => metric.buckets.push(bound.to_owned()),
                _ => drop(metric.labels.insert(label.to_owned())),
            }
        }
    }
    Ok(all)
}

fn read(path: &str) -> Result<String> {
    fs::read_to_string(workspace().join(path)).with_context(|| path.to_owned())
}

#[test]
fn the_readme_has_a_row_for_each_metric() -> Result<()> {
    let text = everything()?;
    if let Some(path) = env::var_os("FIRST_CONSUMER_METRICS_TO") {
        fs::write(path, &text)?;
    }
    let mut expected = Vec::new();
    for (name, metric) in described(&text)? {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, labels, help) = (metric.kind, labels.join(", "), metric.help);
        expected.push(format!("| `{name}` | {kind} | {labels} | {help} |"));
    }
    let readme = read("README.md")?;
    let rows = readme.lines().filter(|line| line.starts_with("| `first_consumer_"));
    let found: Vec<_> = rows.collect();
    ensure!(found == expected, "README.md should say:\n{}", expected.join("\n"));

    let words: Vec<&str> = readme.split_whitespace().collect();
    for (name, metric) in described(&text)? {
        ensure!((metric.kind == "histogram") != metric.buckets.is_empty(), "{name}");
        let sentence = format!("Buckets of all histograms, in seconds: {}.", metric.buckets.join(", "));
        let told = metric.buckets.is_empty() || words.join(" ").contains(&sentence);
        ensure!(told, "README.md should say of {name}: {sentence}");
    }
    Ok(())
}

#[test]
fn names_and_units_follow_the_conventions() -> Result<()> {
    for (name, metric) in described(&everything()?)? {
        ensure!(name.starts_with("first_consumer_"), "{name}");
        ensure!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        ensure!(
            name.ends_with("_total") == (metric.kind == "counter"),
            "{name} is a {}",
            metric.kind
        );
        ensure!(
            metric.kind != "histogram" || name.ends_with("_seconds"),
            "{name} has no unit"
        );
        ensure!(
            !metric.help.is_empty() && !metric.help.contains('|'),
            "{name}: {}",
            metric.help
        );
    }
    Ok(())
}

/// The names of our metrics in expressions of PromQL.
fn asked_for(expression: &str) -> Vec<&str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("first_consumer_")).collect()
}

/// The strings that are below a key anywhere in a document.
fn below<'a>(key: &str, document: &'a Value, found: &mut Vec<&'a str>) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == key => found.push(text),
                    _ => below(key, value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| below(key, item, found)),
        _ => {}
    }
}

#[test]
fn dashboard_and_alerts_ask_for_what_is_there() -> Result<()> {
    let shown: BTreeSet<String> = described(&everything()?)?
        .into_values()
        .flat_map(|metric| metric.samples)
        .collect();
    let dashboard: Value = serde_json::from_str(&read("manifests/monitoring/dashboard.json")?)?;
    let alerts: Value = serde_yaml::from_str(&read("manifests/monitoring/alerts.yaml")?)?;
    for (document, what) in [(&dashboard, "the dashboard"), (&alerts, "the alerts")] {
        let mut expressions = Vec::new();
        below("expr", document, &mut expressions);
        let metrics: Vec<_> = expressions.iter().flat_map(|text| asked_for(text)).collect();
        ensure!(!metrics.is_empty(), "{what}: {expressions:?}");
        for metric in metrics {
            ensure!(shown.contains(metric), "{what}: there is no {metric}");
        }
    }
    let named = [
        Reason::CreateRefused,
        Reason::NameTaken,
        Reason::CannotRender,
        Reason::GaveUp,
    ];
    let named: Vec<_> = named.map(Reason::name).into_iter().collect();
    let refused = format!("{{reason=~\"{}\"}}", named.join("|"));
    let missing = format!("{{reason=\"{}\"}}", Trouble::SelectedNodeMissing);
    let mut expressions = Vec::new();
    below("expr", &alerts, &mut expressions);
    for reasons in [refused, missing] {
        let asked = expressions.iter().any(|text| text.contains(&reasons));
        ensure!(asked, "no alert asks for {reasons}");
    }
    Ok(())
}

#[test]
fn the_pod_monitor_finds_the_pods_under_the_alerts_job() -> Result<()> {
    let yaml = |path: &str| -> Result<Value> { Ok(serde_yaml::from_str(&read(path)?)?) };
    let pod = &yaml("manifests/base/deployment.yaml")?["spec"]["template"];
    let monitor = &yaml("manifests/monitoring/pod-monitor.yaml")?["spec"];
    let labels = &pod["metadata"]["labels"];
    let wanted = monitor["selector"]["matchLabels"].as_object();
    let selected = wanted
        .context("it selects nothing")?
        .iter()
        .all(|(key, value)| labels[key] == *value);
    ensure!(selected, "{labels}");
    let port = &monitor["podMetricsEndpoints"][0]["port"];
    ensure!(*port == pod["spec"]["containers"][0]["ports"][0]["name"], "{port}");
    let job = monitor["jobLabel"].as_str().map(|label| &labels[label]);
    let up = format!("up{{job={}}}", job.context("no job")?);
    for file in ["alerts.yaml", "dashboard.json"] {
        let text = read(&format!("manifests/monitoring/{file}"))?.replace('\\', "");
        ensure!(text.contains(&up), "{up} is not in {file}");
    }
    Ok(())
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() -> Result<()> {
    let alerts: Value = serde_yaml::from_str(&read("manifests/monitoring/alerts.yaml")?)?;
    let (mut names, mut runbooks) = (Vec::new(), Vec::new());
    below("alert", &alerts, &mut names);
    below("runbook", &alerts, &mut runbooks);
    let page = "manifests/monitoring/README.md";
    let text = read(page)?;
    let sections: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    ensure!(sections == names, "{sections:?} in {page}, {names:?} in the alerts");
    let expected: Vec<_> = names
        .iter()
        .map(|name| format!("{page}#{}", name.to_lowercase()))
        .collect();
    ensure!(runbooks == expected, "{runbooks:?}");
    Ok(())
}

fn objects_of(api: &FakeApi, types: &TypeMeta) -> Result<Api<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    Ok(match types.kind.as_str() {
        "StorageClass" | "Namespace" => Api::all_with(api.client("admin"), &resource),
        _ => Api::namespaced_with(api.client("admin"), "ns", &resource),
    })
}

async fn create(api: &FakeApi, object: Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let objects = objects_of(api, object.types.as_ref().context("an object without a kind")?)?;
    Ok(objects.create(&PostParams::default(), &object).await?)
}

/// A DataVolume that waits for its first consumer, and its claim.
async fn waiting_disk(api: &FakeApi, name: &str) -> Result<()> {
    let data_volume = create(api, objects::data_volume(name, "late")).await?;
    let types = data_volume.types.context("a DataVolume without a kind")?;
    let waits = Patch::Merge(json!({"status": {"phase": "WaitForFirstConsumer"}}));
    let data_volumes = objects_of(api, &types)?;
    data_volumes.patch_status(name, &PatchParams::default(), &waits).await?;
    let mut claim = objects::claim(name, "late");
    claim["metadata"]["ownerReferences"] = json!([{"apiVersion": types.api_version, "kind": types.kind,
        "name": name, "uid": data_volume.metadata.uid, "controller": true}]);
    create(api, claim).await?;
    Ok(())
}

/// Creates VMs, and lets time pass. Of twenty one has not asked, one has opted out, one gets a pod, and the claims of the others
/// are missing.
async fn guests(api: &FakeApi, numbers: Range<usize>) -> Result<()> {
    for number in numbers {
        let (vm, disk) = (format!("guest-{number}"), format!("guest-disk-{number}"));
        let halted = Vm::halted(&vm).existing_disk(&disk);
        let vm = match number % 20 {
            0 => halted,
            1 => halted.provision("false"),
            _ => halted.provision("true"),
        };
        create(api, vm.object()).await?;
        if number % 20 < 3 {
            waiting_disk(api, &disk).await?;
        }
    }
    sleep(Duration::from_mins(20)).await;
    Ok(())
}

/// What is there of `/metrics`, without values.
fn series(metrics: &Metrics) -> BTreeSet<String> {
    let text = metrics.text(Duration::ZERO);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()));
    names.collect()
}

#[tokio::test(start_paused = true)]
async fn two_thousand_vms_have_no_more_series_than_a_hundred() -> Result<()> {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse()?);
    let api = FakeApi::start(clock.clone(), Faults::new(1));
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"});
    create(&api, class).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    create(&api, namespace).await?;
    let metrics = Arc::new(Metrics::new());
    let controller = Controller::start(Setup {
        clients: api.clients("first-consumer", &observer(&metrics)),
        settings: Settings::default(),
        namespace: None,
        create_rate: 20,
        candidate: None,
        metrics: Arc::clone(&metrics),
        clock,
    });
    guests(&api, 0..100).await?;
    // What lasts has been said again.
    tokio::time::sleep(Duration::from_hours(1)).await;
    let few = series(&metrics);
    guests(&api, 100..2000).await?;
    let many = series(&metrics);
    let text = metrics.text(Duration::ZERO);
    for line in [
        "pods_created_total{reason=\"FirstConsumerNeeded\"} 100",
        "waiting_subjects{reason=\"NotAskedFor\"} 100",
    ] {
        ensure!(text.contains(&format!("\nfirst_consumer_{line}\n")), "{line}: {text}");
    }
    let new: Vec<_> = many.difference(&few).collect();
    ensure!(new.is_empty(), "new with more VMs: {new:#?}");
    ensure!(!many.iter().any(|series| series.contains("guest")), "{many:#?}");
    controller.stop().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_vm_waits_from_when_it_is_wanted() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH);
    scene.create(vm.object()).await?;
    scene.wait_reason("NotAskedFor").await?;
    scene.advance(Duration::from_hours(1)).await;
    let text = scene.metrics()?;
    ensure!(text.contains("\nfirst_consumer_oldest_wait_seconds 0.0\n"), "{text}");

    let ask = json!({"metadata": {"annotations": {"first-consumer.kubevirt.io/provision": "true"}}});
    scene.patch_vm("db", &ask).await?;
    scene.one_node(&vm.claims()).await?;
    scene.wait_no_own_pod().await?;
    let text = scene.metrics()?;
    for span in [
        "need_to_creation",
        "need_to_node",
        "creation_to_node",
        "node_to_deletion",
    ] {
        for line in [
            format!("\nfirst_consumer_{span}_seconds_count 1\n"),
            format!("\nfirst_consumer_{span}_seconds_bucket{{le=\"1\"}} 1\n"),
        ] {
            ensure!(text.contains(&line), "{line} is not in {text}");
        }
    }
    Ok(())
}

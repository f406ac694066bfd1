//! Kubernetes, KubeVirt, CDI and the storage: are they there, known, and set up so that disks wait.

use super::super::facts::{Facts, NEEDED, Needed};
use super::{Finding, read};
use crate::api::{CdiConfig, HONOURS, StorageClass, View as _};
use crate::cli::supported::{CDI, KUBERNETES, KUBEVIRT, Minor, Supported};

pub(super) fn kubernetes(facts: &Facts) -> Vec<Finding> {
    vec![version(KUBERNETES, Some(&facts.kubernetes))]
}

pub(super) fn kubevirt(facts: &Facts) -> Vec<Finding> {
    let [needed, _] = NEEDED;
    served(facts, needed, || {
        match read("the version of KubeVirt", &facts.kubevirts) {
            Ok(all) => {
                let found = all.iter().find(|kubevirt| !kubevirt.meta().terminating());
                let running = found.and_then(|kubevirt| kubevirt.status.observed_kube_virt_version.as_deref());
                vec![version(KUBEVIRT, running)]
            }
            Err(finding) => vec![finding],
        }
    })
}

pub(super) fn cdi(facts: &Facts) -> Vec<Finding> {
    let [_, needed] = NEEDED;
    served(facts, needed, || {
        let running = match read("the version of CDI", &facts.cdis) {
            Ok(all) => version(CDI, all.first().and_then(|cdi| cdi.version())),
            Err(finding) => finding,
        };
        vec![running, gate(facts)]
    })
}

/// Whether the resources are served; only then the rest has a meaning.
fn served(facts: &Facts, needed: Needed, rest: impl FnOnce() -> Vec<Finding>) -> Vec<Finding> {
    let name = needed.group_version();
    let finding = match (facts.versions.get(needed.group), facts.resources.get(&name)) {
        (None, _) => Finding::wrong(
            format!("{} is not installed: {} is not served", needed.owner, needed.group),
            needed.hint,
        ),
        (Some(versions), None) => Finding::wrong(
            format!("{name} is not served, only {}", versions.join(", ")),
            format!(
                "update {}: kubectl get crd -o name | grep {}",
                needed.owner, needed.group
            ),
        ),
        (Some(_), Some(resources)) => match read(&name, resources) {
            Err(finding) => finding,
            Ok(resources) => {
                let missing: Vec<&str> = needed
                    .resources
                    .iter()
                    .copied()
                    .filter(|name| !resources.contains(*name))
                    .collect();
                if missing.is_empty() {
                    let mut findings = vec![Finding::fine(format!(
                        "{name} is served: {}",
                        needed.resources.join(", ")
                    ))];
                    findings.extend(rest());
                    return findings;
                }
                Finding::wrong(format!("{name} is served without {}", missing.join(", ")), needed.hint)
            }
        },
    };
    vec![finding]
}

/// Whether a version is one that is known.
fn version(supported: Supported, running: Option<&str>) -> Finding {
    let name = supported.name;
    let Some((text, minor)) = running.and_then(|text| Some((text, Minor::read(text)?))) else {
        let text = match running {
            Some(text) => format!("the version of {name} cannot be read: {text}"),
            None => format!("{name} does not say its version yet"),
        };
        let hint = match supported {
            KUBEVIRT => "see whether its operator runs: kubectl get kubevirt -A -o yaml",
            CDI => "see whether its operator runs: kubectl get cdi -o yaml",
            _ => "see what it says of itself: kubectl get --raw /version",
        };
        return Finding::doubtful(text, hint);
    };
    if supported.has(minor) {
        Finding::fine(format!("version {text}"))
    } else if minor < supported.from {
        let hint = format!("update {name} to {} or newer", supported.from);
        Finding::doubtful(
            format!("version {text} is older than those it is made for: {supported}"),
            hint,
        )
    } else {
        let hint = "update first-consumer; until then what is new in a VM's placement is not heeded";
        Finding::doubtful(
            format!("version {text} is newer than those it is made for: {supported}"),
            hint,
        )
    }
}

/// Without the gate CDI does not let disks wait: it binds them wherever its own worker comes to run.
fn gate(facts: &Facts) -> Finding {
    let configs = match read("CDI's feature gates", &facts.cdi_configs) {
        Ok(configs) => configs,
        Err(finding) => return finding,
    };
    let Some(config) = configs.iter().find(|config| &*config.meta().name == "config") else {
        let hint = "see whether CDI's operator runs: kubectl get cdi -o yaml";
        return Finding::doubtful("CDI has no configuration yet: no cdiconfig/config", hint);
    };
    if config.honours_wait_for_first_consumer() {
        return Finding::fine(format!("the feature gate {HONOURS} is on"));
    }
    let text = format!(
        "the feature gate {HONOURS} is off: CDI does not wait for a first consumer, and fills disks wherever its own \
         worker comes to run"
    );
    Finding::wrong(text, switch_on(facts, config))
}

/// A patch replaces a list, so the gates that are on are in it. CDI's operator makes the CDIConfig from the CDI.
fn switch_on(facts: &Facts, config: &CdiConfig) -> String {
    let on = config.feature_gates().iter().map(|gate| &**gate);
    let gates: Vec<String> = on.chain([HONOURS]).map(|gate| format!("\"{gate}\"")).collect();
    let gates = gates.join(",");
    let cdi = facts.cdis.as_ref().ok().and_then(|cdis| cdis.first());
    match cdi {
        Some(cdi) => format!(
            "switch it on: kubectl patch cdi/{} --type merge -p '{{\"spec\":{{\"config\":{{\"featureGates\":[{gates}]}}}}}}'",
            cdi.meta().name
        ),
        None => format!(
            "switch it on: kubectl patch cdiconfig/config --type merge -p '{{\"spec\":{{\"featureGates\":[{gates}]}}}}'"
        ),
    }
}

/// The binding mode of a class can't be changed, so it needs a twin.
fn late_class(classes: &[StorageClass]) -> String {
    let mut dynamic: Vec<_> = classes.iter().filter(|class| class.provisions()).collect();
    dynamic.sort_by_key(|class| &class.meta().name);
    let Some(class) = dynamic.first() else {
        return "install storage whose volumes belong to nodes: https://github.com/rancher/local-path-provisioner"
            .to_owned();
    };
    let name = &class.meta().name;
    // Annotations and labels say what only one class may be: the default, or what some tool has applied.
    format!(
        "if volumes of {name} belong to a node or a zone, give it a twin that waits: kubectl get storageclass/{name} \
         -o yaml | kubectl patch --local -f - --type merge -p \
         '{{\"metadata\":{{\"name\":\"{name}-late\",\"annotations\":null,\"labels\":null,\"resourceVersion\":null}},\
         \"volumeBindingMode\":\"WaitForFirstConsumer\"}}' -o yaml | kubectl create -f -"
    )
}

/// Which classes bind late, and how CDI fills their claims (design section 2).
pub(super) fn storage(facts: &Facts) -> Vec<Finding> {
    let classes = match read("storage classes", &facts.classes) {
        Ok(classes) => classes,
        Err(finding) => return vec![finding],
    };
    let drivers = match read("the path of CDI's imports", &facts.drivers) {
        Ok(drivers) => drivers,
        Err(finding) => return vec![finding],
    };
    let mut late: Vec<_> = classes.iter().filter(|class| class.late()).collect();
    late.sort_by_key(|class| &class.meta().name);
    if late.is_empty() {
        let text =
            "no StorageClass binds late (volumeBindingMode: WaitForFirstConsumer), so no disk waits for a consumer";
        return vec![Finding::wrong(text, late_class(classes))];
    }
    let finding = |class: &&StorageClass| {
        let (name, provisioner) = (&class.meta().name, &class.provisioner);
        let path = if drivers.iter().any(|driver| driver.meta().name == *provisioner) {
            "has a CSI driver: CDI fills a second claim (populator)"
        } else if class.provisions() {
            "has no CSI driver: CDI fills the claim itself"
        } else {
            "has its volumes made by hand: CDI fills the claim itself"
        };
        Finding::fine(format!("{name} binds late; {provisioner} {path}"))
    };
    late.iter().map(finding).collect()
}

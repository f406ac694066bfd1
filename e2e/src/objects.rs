//! VMs, claims and pods as users write them.

use serde_json::{Value, json};

/// The legacy path, on the real local-path-provisioner.
pub const LOCAL_PATH: &str = "local-path";

/// A VM to be.
#[derive(Clone, Debug)]
pub struct Vm {
    name: String,
    disks: Vec<Value>,
    existing_disks: Vec<(String, bool)>,
    plain_claims: Vec<String>,
    guest_memory: String,
    run_strategy: &'static str,
    annotations: Value,
    disk_annotations: Value,
    labels: Value,
    instancetype: Value,
    spec: Value,
}

impl Vm {
    /// A halted VM without disks that asks for nothing.
    #[must_use]
    pub fn halted(name: &str) -> Self {
        Self {
            name: name.into(),
            disks: Vec::new(),
            existing_disks: Vec::new(),
            plain_claims: Vec::new(),
            guest_memory: "1Gi".into(),
            run_strategy: "Halted",
            annotations: json!({}),
            disk_annotations: json!({}),
            labels: json!({"vm": name}),
            instancetype: Value::Null,
            spec: json!({}),
        }
    }

    /// A VM that shall run.
    #[must_use]
    pub fn started(name: &str) -> Self {
        Self {
            run_strategy: "Always",
            ..Self::halted(name)
        }
    }

    /// With a DataVolume of its own, on a class.
    #[must_use]
    pub fn disk(self, name: &str, class: &str) -> Self {
        self.data_volume(data_volume(name, class))
    }

    /// With this DataVolume of its own.
    #[must_use]
    pub fn data_volume(mut self, data_volume: Value) -> Self {
        self.disks.push(data_volume);
        self
    }

    /// With the two disks `NAME-root` and `NAME-data` on one class.
    #[must_use]
    pub fn two_disks(self, class: &str) -> Self {
        let [root, data] = [format!("{}-root", self.name), format!("{}-data", self.name)];
        self.disk(&root, class).disk(&data, class)
    }

    /// With a DataVolume that exists beside it.
    #[must_use]
    pub fn existing_disk(mut self, name: &str) -> Self {
        self.existing_disks.push((name.into(), false));
        self
    }

    /// With a DataVolume that exists beside it and is plugged in while it runs.
    #[must_use]
    pub fn hotplugged(mut self, name: &str) -> Self {
        self.existing_disks.push((name.into(), true));
        self
    }

    /// With so much memory.
    #[must_use]
    pub fn guest_memory(mut self, quantity: &str) -> Self {
        self.guest_memory = quantity.into();
        self
    }

    /// With a claim that exists beside it.
    #[must_use]
    pub fn plain_claim(mut self, name: &str) -> Self {
        self.plain_claims.push(name.into());
        self
    }

    /// That asks to be served, or not to be.
    #[must_use]
    pub fn provision(mut self, value: &str) -> Self {
        self.annotations["first-consumer.kubevirt.io/provision"] = json!(value);
        self
    }

    /// Whose DataVolumes carry an annotation.
    #[must_use]
    pub fn disk_annotation(mut self, key: &str, value: &str) -> Self {
        self.disk_annotations[key] = json!(value);
        self
    }

    /// Whose VMI has a label, too.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels[key] = json!(value);
        self
    }

    /// Whose pods must not run where pods with the label `app: APP` run, in one domain of a topology.
    #[must_use]
    pub fn away_from(self, app: &str, topology_key: &str) -> Self {
        self.anti_affinity(&json!({"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": app}}}))
    }

    /// With this term of required pod anti-affinity.
    #[must_use]
    pub fn anti_affinity(mut self, term: &Value) -> Self {
        let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        self.spec["affinity"]["podAntiAffinity"] = terms;
        self
    }

    /// That would rather run on this node.
    #[must_use]
    pub fn rather_on(mut self, node: &str) -> Self {
        let there =
            json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
        let preferred = json!([{"weight": 100, "preference": there}]);
        self.spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred;
        self
    }

    /// That names an instancetype.
    #[must_use]
    pub fn instancetype(mut self, name: &str) -> Self {
        self.instancetype = json!({"kind": "VirtualMachineInstancetype", "name": name});
        self
    }

    /// Whose VMI spec has these fields, too.
    #[must_use]
    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.spec[field] = value;
        self
    }

    /// Names of the claims that it boots with, in spec order.
    #[must_use]
    pub fn claims(&self) -> Vec<String> {
        let disks = self.disks.iter().map(name_of);
        let existing = self.existing_disks.iter().filter(|(_, hotplugged)| !hotplugged);
        let existing = existing.map(|(name, _)| name).chain(&self.plain_claims);
        disks.chain(existing.cloned()).collect()
    }

    /// The spec of its VMI.
    #[must_use]
    pub fn vmi_spec(&self) -> Value {
        let mut spec = self.spec.clone();
        let disks = self
            .disks
            .iter()
            .map(name_of)
            .map(|name| json!({"name": name, "dataVolume": {"name": name}}));
        let existing = self.existing_disks.iter().map(|(name, hotplugged)| {
            let mut volume = json!({"name": name, "dataVolume": {"name": name}});
            if *hotplugged {
                volume["dataVolume"]["hotpluggable"] = json!(true);
            }
            volume
        });
        let claims = self
            .plain_claims
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Value> = disks.chain(existing).chain(claims).collect();
        spec["domain"]["devices"]["disks"] = volumes
            .iter()
            .map(|volume| json!({"name": volume["name"], "disk": {"bus": "virtio"}}))
            .collect();
        spec["volumes"] = json!(volumes);
        spec["domain"]["memory"]["guest"] = json!(self.guest_memory);
        spec
    }

    /// The VirtualMachine.
    #[must_use]
    pub fn object(&self) -> Value {
        let templates = self.disks.iter().map(|disk| {
            let mut template = json!({"metadata": disk["metadata"], "spec": disk["spec"]});
            for (key, value) in self.disk_annotations.as_object().into_iter().flatten() {
                template["metadata"]["annotations"][key] = value.clone();
            }
            template
        });
        let mut vm = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": self.name, "annotations": self.annotations},
            "spec": {
                "runStrategy": self.run_strategy,
                "dataVolumeTemplates": templates.collect::<Value>(),
                "template": {"metadata": {"labels": self.labels}, "spec": self.vmi_spec()},
            },
        });
        if !self.instancetype.is_null() {
            vm["spec"]["instancetype"] = self.instancetype.clone();
        }
        vm
    }

    /// A VirtualMachineInstance without a VM, whose DataVolumes [`Vm::data_volumes`] somebody has to make.
    #[must_use]
    pub fn bare_vmi(&self) -> Value {
        json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {"name": self.name, "labels": self.labels, "annotations": self.annotations},
            "spec": self.vmi_spec(),
        })
    }

    /// Its DataVolumes as objects of their own.
    #[must_use]
    pub fn data_volumes(&self) -> Vec<Value> {
        self.disks.clone()
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// A DataVolume that imports from an address that nobody reads.
#[must_use]
pub fn data_volume(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": name},
        "spec": {
            "source": {"http": {"url": "http://images.example/disk.img"}},
            "storage": {
                "storageClassName": class,
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    })
}

/// A claim that no DataVolume controls.
#[must_use]
pub fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// A ValidatingAdmissionPolicy that lets no pod of ours into a namespace, and its binding.
#[must_use]
pub fn policy_against_us(name: &str, namespace: &str, message: &str) -> [Value; 2] {
    let policy = |kind: &str, spec: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            "spec": spec})
    };
    let refuse = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "!object.metadata.name.startsWith('first-consumer-')", "message": message}],
    });
    let bind = json!({
        "policyName": name, "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
    });
    [
        policy("ValidatingAdmissionPolicy", refuse),
        policy("ValidatingAdmissionPolicyBinding", bind),
    ]
}

/// A pod of somebody else that lists a claim, on nodes with a label.
#[must_use]
pub fn pod(name: &str, claim: &str, node_selector: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": node_selector,
            "containers": [{"name": "main", "image": "pause"}],
            "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}],
        },
    })
}

//! What concerns many subjects at once, and changes rarely: storage classes, Namespaces and their quotas, the KubeVirt
//! object, network attachment definitions, Nodes.

use std::sync::Arc;

use super::{Changed, Index, Indexed, Link, Table};
use crate::api::{KubeVirt, Namespace, NetworkAttachmentDefinition, Node, ResourceQuota, StorageClass, View as _};
use crate::name::Key;

impl Indexed for StorageClass {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.classes
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        let class = Some(&self.meta().name);
        let claims = index
            .claims
            .iter()
            .filter(|(_, claim)| claim.spec.storage_class_name.as_ref() == class);
        changed.extend(claims.flat_map(|(key, _)| index.subjects_by_claim.of(key)).cloned());
    }
}

impl Indexed for Namespace {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.namespaces
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        changed.extend(index.subjects_in(&self.meta().name).cloned());
    }
}

impl Indexed for ResourceQuota {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.quotas
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        changed.extend(index.subjects_in(&self.meta().namespace).cloned());
    }
}

impl Indexed for KubeVirt {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.kubevirts
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        changed.extend(index.subjects());
    }
}

impl Indexed for NetworkAttachmentDefinition {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.networks
    }

    fn link(&self, _: &mut Index, _: Link) {}

    /// Any VM may use it, from any Namespace.
    fn concerns(&self, index: &Index, changed: &mut Changed) {
        changed.extend(index.subjects());
    }
}

impl Indexed for Node {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.nodes
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        // Who looks for a node: peers by where a volume can be reached from, and whoever needs a TSC frequency.
        changed.extend(index.subjects());
    }
}

impl Index {
    /// The subjects of one Namespace.
    pub(super) fn subjects_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Key> {
        let vms = in_namespace(&self.vms, namespace).map(|(key, _)| key);
        vms.chain(in_namespace(&self.vmis, namespace).map(|(key, _)| key))
    }
}

/// The objects of one Namespace.
pub(super) fn in_namespace<'a, V>(
    table: &'a Table<V>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Key, &'a Arc<V>)> {
    table
        .range(Key::new(namespace, "")..)
        .take_while(move |(key, _)| *key.namespace == *namespace)
}

//! Storage classes, Namespaces and nodes: they concern many subjects at once, and change rarely.

use super::{Changed, Index, Indexed, Link, Table};
use crate::api::{Namespace, Node, StorageClass, View as _};
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

impl Indexed for Node {
    fn table(index: &mut Index) -> &mut Table<Self> {
        &mut index.nodes
    }

    fn link(&self, _: &mut Index, _: Link) {}

    fn concerns(&self, index: &Index, changed: &mut Changed) {
        let claims = index.claims_by_node.of(&self.meta().key());
        changed.extend(claims.flat_map(|claim| index.subjects_by_claim.of(claim)).cloned());
        // Whose bound volume can be reached from this node shows only where it is looked for.
        changed.extend(index.with_anti_affinity().cloned());
    }
}

impl Index {
    /// The subjects of one Namespace.
    pub(super) fn subjects_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Key> {
        fn from<'a, V>(table: &'a Table<V>, namespace: &'a str) -> impl Iterator<Item = &'a Key> {
            table
                .range(Key::new(namespace, "")..)
                .map(|(key, _)| key)
                .take_while(move |key| *key.namespace == *namespace)
        }
        from(&self.vms, namespace).chain(from(&self.vmis, namespace))
    }
}

//! What the API server lets into a Namespace, as far as it can be seen: a refused pod may be welcome when that changes.

use std::sync::Arc;

use crate::api::{Namespace, ResourceQuota, View as _};
use crate::index::Index;

/// The quotas that are enforced in a Namespace, and its labels, which set pod security.
#[derive(Clone, Debug, Default)]
pub struct Allowance {
    quotas: Vec<Arc<ResourceQuota>>,
    namespace: Option<Arc<Namespace>>,
}

impl Allowance {
    pub(super) fn of(index: &Index, namespace: &str) -> Self {
        Self {
            quotas: index.quotas(namespace).cloned().collect(),
            namespace: index.namespace(namespace).cloned(),
        }
    }

    /// Whether a quota has got room that it had not in another state of the Namespace.
    #[must_use]
    pub fn has_room_since(&self, before: &Self) -> bool {
        let same = |quota: &ResourceQuota| {
            before
                .quotas
                .iter()
                .find(|other| other.metadata.name == quota.metadata.name)
        };
        let mut quotas = self.quotas.iter();
        quotas.any(|quota| same(quota).is_some_and(|before| quota.is_less_used_than(before)))
    }
}

/// How much of a quota is used makes no difference here: that changes with every pod of the Namespace.
impl PartialEq for Allowance {
    fn eq(&self, other: &Self) -> bool {
        let enforced = |of: &Self| {
            of.quotas
                .iter()
                .map(|quota| quota.enforced().clone())
                .collect::<Vec<_>>()
        };
        let labels = |of: &Self| of.namespace.as_ref().map(|namespace| namespace.meta().labels.clone());
        enforced(self) == enforced(other) && labels(self) == labels(other)
    }
}

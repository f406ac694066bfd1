//! What is known of the controller's flags: its Lease tells them.

use crate::api::{Lease, View as _};
use crate::leader::{self, LEASE};
use crate::name::Key;
use crate::policy::Policy;

/// The controller as its Lease shows it.
#[derive(Debug, Default)]
pub(super) struct Controller {
    /// Whom it serves.
    pub policy: Policy,
    /// Why its flags may be other ones, in one line.
    pub doubt: Option<String>,
    /// The only Namespace that it watches.
    watched: Option<String>,
}

impl Controller {
    /// What the Leases of the controller's Namespace say; `None` if they can't be read.
    pub(super) fn read(leases: Option<&[Lease]>, home: &str) -> Self {
        let ours = leases.into_iter().flatten();
        let ours = ours.filter(|lease| &*lease.meta().name == LEASE);
        // A file may have those of several installations.
        let Some(lease) = ours.max_by_key(|lease| &*lease.meta().namespace == home) else {
            let what = match leases {
                Some(_) => format!("no Lease of the controller is known in {home} (--controller-namespace)"),
                None => format!("the Lease of the controller in {home} cannot be read"),
            };
            return Self {
                doubt: Some(format!("{what}: its flags are taken to be the defaults")),
                ..Self::default()
            };
        };
        let (home, meta) = (&lease.meta().namespace, lease.meta());
        let doubt = if !Policy::marked(meta) {
            Some(format!(
                "the Lease of the controller in {home} does not tell its flags: they are taken to be the defaults"
            ))
        } else if lease.holder().is_none() {
            Some(format!(
                "nobody holds the Lease of the controller in {home}: its flags are taken to be those of its last leader"
            ))
        } else {
            None
        };
        Self {
            policy: Policy::read(meta),
            doubt,
            watched: leader::watched(meta).map(str::to_owned),
        }
    }

    /// The one Namespace that it watches, if that is not the subject's.
    pub(super) fn elsewhere(&self, subject: &Key) -> Option<&str> {
        self.watched
            .as_deref()
            .filter(|watched| *watched != &*subject.namespace)
    }
}

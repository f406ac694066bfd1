//! What is known of the controller's flags: its Lease tells them.

use crate::api::{Lease, OUR_LABEL, View as _};
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
    /// Why it does nothing, if it does not.
    pub idle: Option<Idle>,
}

/// Nobody leads: what only a leader does is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Idle {
    /// How that is known, in one line.
    pub words: String,
    /// The Namespace of its Lease.
    home: String,
}

impl Idle {
    /// What a Lease says of it.
    fn read(lease: &Lease) -> Option<Self> {
        let home = lease.meta().namespace.to_string();
        let words = match (lease.holder(), lease.neglected_since()) {
            (None, _) => format!("nobody holds the Lease of the controller in {home}"),
            (Some(holder), Some(since)) => {
                format!("{holder} has not renewed the Lease of the controller in {home} since {since:.0}")
            }
            (Some(_), None) => return None,
        };
        Some(Self { words, home })
    }

    /// What a person can do about it: the Deployment may have another name than the shipped one, and has its label.
    pub(super) fn next(&self) -> String {
        let (label, value) = OUR_LABEL;
        format!("kubectl describe deployment -l {label}={value} -n {}", self.home)
    }
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
        let idle = Idle::read(lease);
        let doubt = match &idle {
            _ if !Policy::marked(meta) => Some(format!(
                "the Lease of the controller in {home} does not tell its flags: they are taken to be the defaults"
            )),
            Some(Idle { words, .. }) => Some(format!("{words}: its flags are taken to be those of its last leader")),
            None => None,
        };
        Self {
            policy: Policy::read(meta),
            doubt,
            watched: leader::watched(meta).map(str::to_owned),
            idle,
        }
    }

    /// The one Namespace that it watches, if that is not the subject's.
    pub(super) fn elsewhere(&self, subject: &Key) -> Option<&str> {
        self.watched
            .as_deref()
            .filter(|watched| *watched != &*subject.namespace)
    }
}

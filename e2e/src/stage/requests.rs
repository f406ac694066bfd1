//! What may be asked of the API server.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;

use crate::control_plane::Calls;

/// How many requests our controller may make in a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Pods created.
    pub creates: usize,
    /// Pods deleted.
    pub deletes: usize,
    /// Events written, at most.
    pub events: usize,
}

/// What a served VM costs (design section 11).
pub const SERVED_ONCE: Requests = Requests {
    creates: 1,
    deletes: 1,
    events: 3,
};

/// What a VM costs that is not ours to serve.
pub const UNTOUCHED: Requests = Requests {
    creates: 0,
    deletes: 0,
    events: 0,
};

impl Requests {
    /// What so many subjects cost that cost this each.
    #[must_use]
    pub fn times(self, subjects: usize) -> Self {
        Self {
            creates: self.creates * subjects,
            deletes: self.deletes * subjects,
            events: self.events * subjects,
        }
    }

    /// Fails unless the calls since our controller was ready were these, with no read, and none of them failed,
    /// expansions apart.
    pub fn check(self, calls: &Calls, ready_at: Timestamp) -> Result<()> {
        let events = calls.filter(|call| call.resource == "events").len();
        let found = Self {
            creates: calls.succeeded("create", "pods"),
            deletes: calls.succeeded("delete", "pods"),
            events,
        };
        let within = found.creates == self.creates && found.deletes == self.deletes && found.events <= self.events;
        ensure!(within, "{found:?} instead of {self:?}");
        // Of an earlier, killed controller the last request may have failed with it.
        let calls = calls.since(ready_at);
        let failed = calls.filter(|call| !call.is_ok() && call.subresource != "expand-spec");
        ensure!(failed.is_empty(), "failed requests: {failed:?}");
        let reads = calls.filter(|call| matches!(&*call.verb, "get" | "list") && call.subresource != "expand-spec");
        ensure!(reads.is_empty(), "reads after the start: {reads:?}");
        Ok(())
    }
}

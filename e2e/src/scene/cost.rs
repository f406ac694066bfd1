//! What our controller may cost the API server and CDI in a scene.

use anyhow::{Result, ensure};

use super::Scene;
use crate::cluster::ACCOUNT;
use crate::control_plane::Calls;

/// What CDI says when a pod holds it up.
const MET: [&str; 3] = ["ImportTargetInUse", "UploadTargetInUse", "CloneSourceInUse"];

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

impl Requests {
    /// What so many of them cost.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self {
            creates: times * self.creates,
            deletes: times * self.deletes,
            events: times * self.events,
        }
    }
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

impl Scene {
    /// What our controller has asked of the API server in this namespace since it was ready, Events and reads included.
    pub fn calls(&self) -> Result<Calls> {
        Ok(self.cluster.plane.calls()?.by(ACCOUNT).within(&self.namespace))
    }

    /// Fails unless our controller's requests were these, and CDI never met a pod of ours.
    pub async fn expect(&self, expected: Requests) -> Result<()> {
        self.expect_requests(expected)?;
        for reason in MET {
            let mut met = self.events(reason).await?;
            met.retain(|text| text.contains("/first-consumer-"));
            ensure!(met.is_empty(), "CDI met a pod: {met:?}");
        }
        Ok(())
    }

    /// How often our controller has asked for an expansion.
    pub fn expansions(&self) -> Result<usize> {
        Ok(self.calls()?.filter(|call| call.subresource == "expand-spec").len())
    }

    /// Fails unless our controller's requests were these, with no read since it was ready, and none of them failed,
    /// expansions apart.
    pub fn expect_requests(&self, expected: Requests) -> Result<()> {
        let calls = self.calls()?;
        let succeeded = |verb| calls.of(verb, "pods").iter().filter(|call| call.is_ok()).count();
        let events = calls.filter(|call| call.resource == "events").len();
        let found = Requests {
            creates: succeeded("create"),
            deletes: succeeded("delete"),
            events,
        };
        let within =
            found.creates == expected.creates && found.deletes == expected.deletes && found.events <= expected.events;
        ensure!(within, "{found:?} instead of {expected:?}\n{}", self.controller_log());
        // Of an earlier, killed controller the last request may have failed with it.
        let calls = calls.since(self.ready_at);
        let failed = calls.filter(|call| !call.is_ok() && call.subresource != "expand-spec");
        ensure!(failed.is_empty(), "failed requests: {failed:?}");
        let reads = calls.filter(|call| matches!(&*call.verb, "get" | "list") && call.subresource != "expand-spec");
        ensure!(reads.is_empty(), "reads after the start: {reads:?}");
        Ok(())
    }
}

//! States that a recording and its replay need not share, each with its reason. Ignored on both sides.

/// One line of the list.
struct Skip {
    /// Part of the recording's name: `legacy`, `populator`, ...; empty for all.
    path: &'static str,
    /// Object, as `states.rs` calls it; `*` stands for anything.
    object: &'static str,
    /// The state; `*` for all of them.
    state: &'static str,
    /// Why it may be missing, or may be there.
    #[expect(dead_code, reason = "for the reader")]
    why: &'static str,
}

const fn skip(path: &'static str, object: &'static str, state: &'static str, why: &'static str) -> Skip {
    Skip {
        path,
        object,
        state,
        why,
    }
}

const LIST: &[Skip] = &[
    // DataVolumes: phases are computed only when an event arrives.
    skip(
        "",
        "DataVolume *",
        "Pending",
        "shown only if the new claim is not in CDI's cache by then (CDI reference 2.4)",
    ),
    skip("", "Event DataVolume *", "NotFound", "comes with that phase"),
    skip(
        "populator",
        "DataVolume *",
        "ImportScheduled",
        "CDI is not woken by the prime (CDI reference 10.3 P6)",
    ),
    skip(
        "populator",
        "DataVolume *",
        "ImportInProgress",
        "as ImportScheduled: no change of the target in those seconds",
    ),
    skip("populator", "DataVolume *", "UploadScheduled", "as ImportScheduled"),
    skip(
        "",
        "Event DataVolume *",
        "ImportScheduled",
        "told only if the worker's phase is on the claim before the DataVolume's phase changes: a race",
    ),
    skip(
        "deleted-when-bound",
        "*Pod first-consumer-db*",
        "*",
        "the scheduler looks at the bound claims once a second: before or after the pod was deleted",
    ),
    skip(
        "populator",
        "Event DataVolume *",
        "ImportInProgress",
        "comes with that phase",
    ),
    skip(
        "legacy-immediate",
        "DataVolume *",
        "PVCBound",
        "gone at once if the worker was named before (immediate binding)",
    ),
    // What the real components trip over: caches that lag behind their own writes.
    skip(
        "",
        "*",
        "ErrStartingPod",
        "CDI creates a worker that it does not see in its cache yet",
    ),
    skip(
        "",
        "*",
        "ErrCreatingPVCPrime",
        "CDI creates a prime that it does not see in its cache yet",
    ),
    skip(
        "",
        "*",
        "ProvisioningFailed",
        "the PV controller's update of a claim meets somebody else's: a race",
    ),
    skip(
        "",
        "*",
        "ErrResourceMarkedForDeletion",
        "only if CDI looks while the claim terminates: a race",
    ),
    skip(
        "immediate",
        "Event Pod importer-* by default-scheduler",
        "FailedScheduling",
        "the scheduler's update of the claim meets CDI's: a race",
    ),
    skip(
        "immediate",
        "Event DataVolume *",
        "Bound",
        "told after the phase if both change in one patch, else before it: a race between CDI's controllers",
    ),
    skip(
        "immediate",
        "Event Claim *",
        "WaitForFirstConsumer",
        "told only if the PV controller sees the claim before the worker pod that lists it",
    ),
    // Timers of real components.
    skip(
        "",
        "Event Claim * by persistentvolume-controller",
        "WaitForPodScheduled",
        "comes with the 15 s resync",
    ),
    skip(
        "",
        "Claim prime-of-*",
        "Lost on a node",
        "the PV controller sees it with its 15 s resync",
    ),
    skip("", "Claim prime-of-*", "gone", "follows Lost"),
    skip("", "Event Claim prime-of-*", "ClaimMisbound", "comes with Lost"),
    skip(
        "",
        "Event Claim * by persistentvolume-controller",
        "ExternalProvisioning",
        "missing if the PV controller's update lost a race and the claim was bound before its next resync",
    ),
    // Copies of the prime's events: which of them is newest when the populator looks.
    skip(
        "populator",
        "Event Claim * by import-populator",
        "ExternalProvisioning",
        "copied only if seen in time",
    ),
    skip(
        "populator",
        "Event Claim * by import-populator",
        "WaitForFirstConsumer",
        "copied only if seen in time",
    ),
    skip(
        "populator",
        "Event Claim * by import-populator",
        "WaitForPodScheduled",
        "copied only if seen in time",
    ),
    skip(
        "populator",
        "Event Claim * by import-populator",
        "ImportSucceeded",
        "copied only if seen in time",
    ),
    skip(
        "populator",
        "Event Claim * by upload-populator",
        "ExternalProvisioning",
        "copied only if seen in time",
    ),
];

fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    open || rest.is_empty()
}

/// Whether the list names this state.
pub fn is_skippable(path: &str, object: &str, state: &str) -> bool {
    LIST.iter()
        .any(|skip| path.contains(skip.path) && matches(skip.object, object) && matches(skip.state, state))
}

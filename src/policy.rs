//! Annotations and flags: may we serve this subject (design section 4).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;

use crate::api::{Meta, RunStrategy, View, VirtualMachine, VirtualMachineInstance};
use crate::lifecycle::State;
use crate::name::DOMAIN;
use crate::reason::Reason;

/// The flags that say whom the controller serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `--halted-vms`.
    pub halted: HaltedVms,
    /// `--started-vms`.
    pub started: StartedVms,
    /// `--fallback-after`: how long virt-controller is left alone with a started VM.
    pub fallback_after: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            halted: HaltedVms::OptIn,
            started: StartedVms::Fallback,
            fallback_after: Duration::from_secs(10),
        }
    }
}

/// Which halted VMs are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltedVms {
    /// Those that ask for it.
    OptIn,
    /// All but those that opt out.
    All,
    /// None, whatever they ask.
    None,
}

/// Which started VMs are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedVms {
    /// Those that virt-controller has not served after a while.
    Fallback,
    /// All, at once.
    Always,
    /// None.
    None,
}

impl FromStr for HaltedVms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "opt-in" => Ok(Self::OptIn),
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            _ => Err("expected opt-in, all or none".into()),
        }
    }
}

impl FromStr for StartedVms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fallback" => Ok(Self::Fallback),
            "always" => Ok(Self::Always),
            "none" => Ok(Self::None),
            _ => Err("expected fallback, always or none".into()),
        }
    }
}

impl fmt::Display for HaltedVms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OptIn => "opt-in",
            Self::All => "all",
            Self::None => "none",
        })
    }
}

impl fmt::Display for StartedVms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fallback => "fallback",
            Self::Always => "always",
            Self::None => "none",
        })
    }
}

impl Policy {
    /// The flags as annotations of our Lease, where `explain` finds them: `halted-vms`, `started-vms`, `fallback-after`.
    #[must_use]
    pub fn marks(&self) -> [(String, String); 3] {
        let fallback_after = SignedDuration::try_from(self.fallback_after).unwrap_or(SignedDuration::MAX);
        [
            (format!("{DOMAIN}/halted-vms"), self.halted.to_string()),
            (format!("{DOMAIN}/started-vms"), self.started.to_string()),
            (format!("{DOMAIN}/fallback-after"), format!("{fallback_after:#}")),
        ]
    }

    /// Whether the Lease tells them all.
    #[must_use]
    pub fn marked(lease: &Meta) -> bool {
        Self::default()
            .marks()
            .iter()
            .all(|(key, _)| lease.annotation(key).is_some())
    }

    /// Reads them from the Lease's metadata; what is missing or can't be read is as the flag's default.
    #[must_use]
    pub fn read(lease: &Meta) -> Self {
        let mark = |name: &str| lease.annotation(&format!("{DOMAIN}/{name}"));
        let default = Self::default();
        let after = mark("fallback-after").and_then(|text| text.parse::<SignedDuration>().ok());
        Self {
            halted: mark("halted-vms")
                .and_then(|text| text.parse().ok())
                .unwrap_or(default.halted),
            started: mark("started-vms")
                .and_then(|text| text.parse().ok())
                .unwrap_or(default.started),
            fallback_after: after
                .and_then(|after| after.try_into().ok())
                .unwrap_or(default.fallback_after),
        }
    }
}

/// What a pod is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeFor {
    /// A VM that is not meant to run.
    Halted,
    /// A VM that is meant to run.
    Started,
}

/// Whether a subject may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Now.
    Now(MadeFor),
    /// A started one, when virt-controller has had its time.
    After(Duration),
    /// Not at all.
    No(Reason),
}

impl Permission {
    /// Whether anybody wants the subject served, by us or by virt-controller.
    #[must_use]
    pub fn wanted(self) -> bool {
        use Reason::{MigrationTarget, NotAskedFor, OptedOut, SwitchedOff};
        !matches!(self, Self::No(OptedOut | NotAskedFor | SwitchedOff | MigrationTarget))
    }
}

/// Whether flags and annotations allow to serve the subject. `state` is its state, `namespace` the metadata of its
/// Namespace.
#[must_use]
pub fn permission(
    policy: Policy,
    state: State,
    vm: Option<&VirtualMachine>,
    vmi: Option<&VirtualMachineInstance>,
    namespace: Option<&Meta>,
) -> Permission {
    let receives = vm.is_some_and(|vm| vm.run_strategy() == RunStrategy::WaitAsReceiver);
    if receives || vmi.is_some_and(VirtualMachineInstance::migration_target) {
        return Permission::No(Reason::MigrationTarget);
    }
    let subject = vm.map(View::meta).or_else(|| vmi.map(View::meta));
    let asked = subject.and_then(asked).or_else(|| namespace.and_then(asked));
    match (state, asked) {
        (State::Halted, _) if policy.halted == HaltedVms::None => Permission::No(Reason::SwitchedOff),
        (State::Starting | State::Pending, _) if policy.started == StartedVms::None => {
            Permission::No(Reason::SwitchedOff)
        }
        (State::Halted | State::Starting | State::Pending, Some(false)) => Permission::No(Reason::OptedOut),
        (State::Halted, None) if policy.halted == HaltedVms::OptIn => Permission::No(Reason::NotAskedFor),
        (State::Halted, _) => Permission::Now(MadeFor::Halted),
        (State::Starting | State::Pending, _) if policy.started == StartedVms::Always => {
            Permission::Now(MadeFor::Started)
        }
        (State::Starting | State::Pending, _) => Permission::After(policy.fallback_after),
        (State::Running | State::Final | State::Deleting | State::Unknown, _) => {
            Permission::No(Reason::LeftToVirtController)
        }
    }
}

/// What the opt-in annotation says; any value but `"true"` and `"false"` counts as absent.
#[must_use]
pub fn asked(meta: &Meta) -> Option<bool> {
    match provision(meta)? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The value of an opt-in annotation that counts as absent, which who wrote it can't see.
#[must_use]
pub fn unreadable(meta: &Meta) -> Option<&str> {
    provision(meta).filter(|_| asked(meta).is_none())
}

fn provision(meta: &Meta) -> Option<&str> {
    meta.annotation(&format!("{DOMAIN}/provision"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_of_the_flags_is_understood_and_no_other() {
        let halted = ["opt-in", "all", "none"].map(str::parse::<HaltedVms>);
        assert_eq!(halted, [HaltedVms::OptIn, HaltedVms::All, HaltedVms::None].map(Ok));
        let started = ["fallback", "always", "none"].map(str::parse::<StartedVms>);
        assert_eq!(
            started,
            [StartedVms::Fallback, StartedVms::Always, StartedVms::None].map(Ok)
        );
        assert_eq!("some".parse::<HaltedVms>().unwrap_err(), "expected opt-in, all or none");
        assert_eq!(
            "".parse::<StartedVms>().unwrap_err(),
            "expected fallback, always or none"
        );
    }

    #[test]
    fn the_lease_tells_the_flags_and_what_it_does_not_tell_is_as_usual() {
        let policy = Policy {
            halted: HaltedVms::All,
            started: StartedVms::None,
            fallback_after: Duration::from_secs(90),
        };
        let lease = |marks: Vec<(String, String)>| {
            let marks = marks.iter().map(|(key, value)| (&**key, &**value));
            annotated(&marks.collect::<Vec<_>>())
        };
        assert_eq!(Policy::read(&lease(policy.marks().into())), policy);
        assert_eq!(
            Policy::read(&lease(Policy::default().marks().into())),
            Policy::default()
        );
        let odd = policy.marks().map(|(key, _)| (key, "odd".to_owned()));
        assert_eq!(Policy::read(&lease(odd.into())), Policy::default());
        assert_eq!(Policy::read(&Meta::default()), Policy::default());
        assert!(Policy::marked(&lease(policy.marks().into())) && !Policy::marked(&Meta::default()));
        assert!(!Policy::marked(&lease(policy.marks()[..2].to_vec())));
    }

    #[test]
    fn an_opt_in_is_true_or_false_and_anything_else_is_shown_to_who_wrote_it() {
        let key = "first-consumer.kubevirt.io/provision";
        let read = |value: &str| {
            let meta = annotated(&[(key, value)]);
            (asked(&meta), unreadable(&meta).map(str::to_owned))
        };
        assert_eq!(read("true"), (Some(true), None));
        assert_eq!(read("false"), (Some(false), None));
        for odd in ["yes", "True", ""] {
            assert_eq!(read(odd), (None, Some(odd.to_owned())));
        }
        assert_eq!((asked(&Meta::default()), unreadable(&Meta::default())), (None, None));
    }

    /// One that is left to virt-controller waits all the same.
    #[test]
    fn nobody_waits_who_has_not_asked() {
        let refused = [
            Reason::OptedOut,
            Reason::NotAskedFor,
            Reason::SwitchedOff,
            Reason::MigrationTarget,
        ];
        assert!(refused.iter().all(|reason| !Permission::No(*reason).wanted()));
        let delay = Permission::After(Duration::ZERO);
        let left = Permission::No(Reason::LeftToVirtController);
        let wanted = [Permission::Now(MadeFor::Halted), delay, left];
        assert!(wanted.iter().all(|permission| permission.wanted()));
    }

    fn annotated(annotations: &[(&str, &str)]) -> Meta {
        Meta {
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            ..Meta::default()
        }
    }
}

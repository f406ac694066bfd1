//! Judges a cluster: facts in, findings out.

mod installation;
mod namespaces;
mod neighbours;

use super::facts::{Facts, Read};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// As it should be.
    Fine,
    /// May become a problem, or could not be found out.
    Doubtful,
    /// Has to be repaired.
    Wrong,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// How bad it is.
    pub mark: Mark,
    /// What was found.
    pub text: String,
    /// What to do about it; empty if there is nothing to do.
    pub hint: String,
}

impl Finding {
    fn fine(text: impl Into<String>) -> Self {
        Self {
            mark: Mark::Fine,
            text: text.into(),
            hint: String::new(),
        }
    }

    fn doubtful(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            mark: Mark::Doubtful,
            text: text.into(),
            hint: hint.into(),
        }
    }

    fn wrong(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            mark: Mark::Wrong,
            text: text.into(),
            hint: hint.into(),
        }
    }
}

/// Findings about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// What they are about.
    pub title: &'static str,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// Everything that `check` has to say, in order.
pub(super) fn sections(facts: &Facts) -> Vec<Section> {
    let section = |title, findings| Section { title, findings };
    vec![
        section("Kubernetes", neighbours::kubernetes(facts)),
        section("KubeVirt", neighbours::kubevirt(facts)),
        section("CDI", neighbours::cdi(facts)),
        section("Storage", neighbours::storage(facts)),
        section("Rights", installation::rights(facts)),
        section("Installation", installation::installations(facts)),
        section("Namespaces and VMs", namespaces::findings(facts)),
    ]
}

/// What was read, or the finding that it could not be.
fn read<'a, T>(what: &str, read: &'a Read<T>) -> Result<&'a T, Finding> {
    read.as_ref().map_err(|error| {
        let hint = "ask somebody who may read it, or name another account with --as";
        Finding::doubtful(format!("{what} cannot be checked: {error}"), hint)
    })
}

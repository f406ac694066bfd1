//! Which minor versions of its neighbours first-consumer is made for: `version` says them, `check` compares with them.

use std::fmt;

pub use crate::api::Minor;
use crate::placement::KNOWN_MINORS;

/// A neighbour, and the minors that are known, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supported {
    /// Its name.
    pub name: &'static str,
    /// The oldest.
    pub from: Minor,
    /// The newest.
    pub to: Minor,
}

/// Those whose rules for a launcher are known (`src/placement/gates.rs`).
pub const KUBEVIRT: Supported = Supported {
    name: "KubeVirt",
    from: KNOWN_MINORS[0],
    to: KNOWN_MINORS[KNOWN_MINORS.len() - 1],
};

/// From the one that was current with KubeVirt 1.5 to the one whose rules were read and recorded.
pub const CDI: Supported = Supported {
    name: "CDI",
    from: Minor(1, 62),
    to: Minor(1, 66),
};

/// From the first one that serves the shipped admission policy (`admissionregistration.k8s.io/v1`, KEP-3488), which is
/// also KubeVirt 1.5's oldest (kubevirt/sig-release `releases/k8s-support-matrix.md`), to the newest that the client
/// library knows. The tests run with 1.36.
pub const KUBERNETES: Supported = Supported {
    name: "Kubernetes",
    from: Minor(1, 30),
    to: Minor(1, 37),
};

/// All of them, as `version` lists them.
pub const ALL: [Supported; 3] = [KUBEVIRT, CDI, KUBERNETES];

impl Supported {
    /// Whether a minor is one of them.
    #[must_use]
    pub fn has(&self, minor: Minor) -> bool {
        (self.from..=self.to).contains(&minor)
    }
}

impl fmt::Display for Supported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} to {}", self.name, self.from, self.to)
    }
}

/// The version of this build, with its commit where it is known (`build.rs`).
pub const VERSION: &str = env!("FIRST_CONSUMER_VERSION");

/// What `first-consumer version` prints.
#[must_use]
pub fn report() -> String {
    let lines = ALL.map(|supported| format!("  {supported}\n")).concat();
    format!("first-consumer {VERSION}\nmade for\n{lines}")
}

/// The build script runs before there are tests.
#[cfg(test)]
#[path = "../../hack/build.rs"]
#[allow(dead_code)]
mod build;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_version_of_a_checkout_has_its_commit() {
        let folder = std::env::temp_dir().join(format!("first-consumer-version-{}", std::process::id()));
        let inner = folder.join("inner");
        std::fs::create_dir_all(&inner).expect("folders");
        let git = |words: &str| {
            let mut git = Command::new("git");
            git.current_dir(&folder)
                .args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            let output = git.args(words.split(' ')).output().expect("git");
            assert!(output.status.success(), "git {words}: {output:?}");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        git("init --quiet");
        git("commit --quiet --allow-empty --message=first");
        let head = git("rev-parse HEAD");
        let commit = build::checked_out(&folder).expect("a commit");
        assert!(commit.len() == 12 && head.starts_with(&commit), "{commit}: {head}");
        assert_eq!(build::checked_out(&inner), None, "part of somebody else's checkout");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(build::checked_out(&folder), None);

        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        assert_eq!(build::version(Some(commit.clone())), format!("{version} ({commit})"));
        assert_eq!(build::version(None), version);
    }

    #[test]
    fn the_ends_are_in_and_their_neighbours_are_not() {
        for supported in ALL {
            let Supported { from, to, .. } = supported;
            assert!(supported.has(from) && supported.has(to), "{supported}");
            assert!(!supported.has(Minor(from.0, from.1 - 1)) && !supported.has(Minor(to.0, to.1 + 1)));
        }
        // Not as decimal fractions.
        assert!(KUBEVIRT.has(Minor(1, 10)) && !KUBEVIRT.has(Minor(1, 1)));
    }

    #[test]
    fn the_report_names_the_version_and_all_neighbours() {
        let report = report();
        assert!(report.starts_with(&format!("first-consumer v{}", env!("CARGO_PKG_VERSION"))));
        assert!(report.contains("KubeVirt 1.5 to 1.10"), "{report}");
    }
}

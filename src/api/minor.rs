//! Versions, as far as rules depend on them.

use std::fmt;

/// Major and minor of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minor(pub u32, pub u32);

impl Minor {
    /// Reads the beginning of a version such as `v1.8.2`, `1.36` or `v1.33.4+k3s1`.
    #[must_use]
    pub fn read(version: &str) -> Option<Self> {
        let mut parts = version.trim_start_matches('v').splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?;
        let end = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        Some(Self(major, minor[..end].parse().ok()?))
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_is_read_of_any_version_that_the_neighbours_report() {
        for (text, minor) in [
            ("v1.8.2", Minor(1, 8)),
            ("1.36", Minor(1, 36)),
            ("v1.9.0-rc.0", Minor(1, 9)),
            ("v1.33.4+k3s1", Minor(1, 33)),
            ("1.31+", Minor(1, 31)),
        ] {
            assert_eq!(Minor::read(text), Some(minor), "{text}");
        }
        for text in ["", "v1", "latest", "1.x"] {
            assert_eq!(Minor::read(text), None, "{text}");
        }
    }
}

//! The scheduler's verdict on a pod, in the words of somebody who runs VMs.

use crate::api::{BY_NODE, BY_TAINT};

/// A verdict taken apart: what stands before and behind it, and for how many nodes what is in the way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict<'a> {
    /// What stands before it.
    pub before: &'a str,
    /// One line a requirement, such as `2 of 4 nodes: too little memory is left`.
    pub lines: Vec<String>,
    /// What stands behind it.
    pub behind: &'a str,
}

/// Takes a text with a verdict apart (kube-scheduler `framework/types.go`: `FitError`): `0/4 nodes are available: 2 ...,
/// 2 .... preemption: ...`. `None` if there is none in it.
pub(super) fn verdict(text: &str) -> Option<Verdict<'_>> {
    const SAYS: &str = " nodes are available: ";
    let (head, rest) = text.split_once(SAYS)?;
    let (before, count) = head
        .rsplit_once(' ')
        .map_or(("", head), |(before, count)| (before, count));
    let (_, all) = count.split_once('/')?;
    // A peer's explanation follows behind a semicolon; the scheduler's own texts have none.
    let (words, behind) = rest.split_once("; ").unwrap_or((rest, ""));
    // How preemption would not help either is no news.
    let words = words.split(" preemption: ").next().unwrap_or_default();
    let words = words
        .trim_end_matches(',')
        .trim_end_matches("no new claims to deallocate");
    let words = words.trim_end_matches(['.', ' ']);
    let mut lines: Vec<String> = Vec::new();
    for part in words.split(", ") {
        match part.split_once(' ') {
            Some((count, why)) if count.parse::<u32>().is_ok() => {
                lines.push(format!("{count} of {all} nodes: {}", translated(why)));
            }
            // A taint or a resource may have a comma in it.
            _ => match lines.last_mut() {
                Some(line) => line.extend([", ", part]),
                None => return None,
            },
        }
    }
    Some(Verdict { before, lines, behind })
}

/// One requirement.
fn translated(why: &str) -> String {
    let known = [
        (
            "didn't match PersistentVolume's node affinity",
            "a disk cannot be reached from there",
        ),
        (
            "had volume node affinity conflict",
            "a disk cannot be reached from there",
        ),
        (BY_NODE, "lacks what the pod asks for (node selector or affinity)"),
        (
            "didn't match pod anti-affinity rules",
            "a pod is there that it must not run beside",
        ),
        (
            "didn't satisfy existing pods anti-affinity rules",
            "a pod is there that must not run beside it",
        ),
        (
            "didn't match pod affinity rules",
            "no pod is there that it must run beside",
        ),
        (
            "didn't match pod topology spread constraints",
            "too many of its group are there (topology spread)",
        ),
        (
            "didn't find available persistent volumes to bind",
            "no volume for a disk is there",
        ),
        ("did not have enough free storage", "too little storage is left"),
        ("were unschedulable", "cordoned"),
    ];
    let own = why.strip_prefix("node(s) ").unwrap_or(why);
    if let Some((_, words)) = known.iter().find(|(theirs, _)| own.starts_with(theirs)) {
        return (*words).to_owned();
    }
    match why.strip_prefix("Insufficient ") {
        // Resources of device plugins have a domain in their name (Kubernetes `v1helper.IsExtendedResourceName`).
        Some(device) if device.contains('/') => return format!("no device {device} is free, or there is none"),
        Some(resource) => return format!("too little {resource} is left"),
        None => {}
    }
    // Kubernetes 1.36 does not say which.
    let taint = own.strip_prefix(BY_TAINT);
    let taint = taint.map(|taint| taint.strip_prefix("(s)").unwrap_or(taint));
    taint.map_or_else(
        || own.to_owned(),
        |taint| format!("a taint that the pod does not tolerate{taint}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_translated_and_preemption_is_left_out() {
        let text = "pod x: 0/9 nodes are available: 1 Insufficient memory, 1 Insufficient example.com/gpu, 1 node(s) had untolerated taint {a: b, c}, \
            1 node(s) had untolerated taint(s), \
            2 node(s) didn't match Pod's node affinity/selector, 4 something new. no new claims to deallocate, \
            preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.; kept out of zone a";
        let verdict = verdict(text).expect("a verdict");
        assert_eq!((verdict.before, verdict.behind), ("pod x:", "kept out of zone a"));
        let lines = [
            "1 of 9 nodes: too little memory is left",
            "1 of 9 nodes: no device example.com/gpu is free, or there is none",
            "1 of 9 nodes: a taint that the pod does not tolerate {a: b, c}",
            "1 of 9 nodes: a taint that the pod does not tolerate",
            "2 of 9 nodes: lacks what the pod asks for (node selector or affinity)",
            "4 of 9 nodes: something new",
        ];
        assert_eq!(verdict.lines, lines);
    }

    #[test]
    fn other_words_are_no_verdict() {
        for text in [
            "",
            "no quota",
            "nodes are available: 1 x",
            "0/1 nodes are available: none",
        ] {
            assert_eq!(verdict(text), None, "{text}");
        }
    }
}

//! How a text is laid out, also for the widest names that Kubernetes lets a Namespace and KubeVirt a VM have.

use super::*;
use crate::cli::layout::{WIDTH, width};

fn long(letter: &str) -> String {
    letter.repeat(63)
}

#[test]
fn a_tree_is_a_hundred_columns_wide_whatever_the_names() {
    let (namespace, name) = (long("n"), long("v"));
    let waiting = vm(&namespace, &name, true);
    let left = waiting.replace("\"true\"", "\"false\"");
    let filling = waiting
        .replace("\"WaitForFirstConsumer\"}}", "\"Paused\"}}")
        .replace("\"Pending\"", "\"Bound\"");
    for text in [&waiting, &left, &filling] {
        let found = told(text, &format!("vm/{name}")).text;
        for line in found.lines() {
            assert!(width(line) <= WIDTH, "{line}");
        }
        assert!(
            found.starts_with(&format!("vm/{name} in\n  {namespace}: Halted\n")),
            "{found}"
        );
    }
}

/// Names are copied, so a table cuts the message alone, and leaves enough of it to tell one from another.
#[test]
fn a_table_cuts_nothing_but_the_message() {
    let (namespace, name) = (long("n"), long("v"));
    let found = told(&vm(&namespace, &name, true), "-A").text;
    let line = found.lines().nth(1).expect("a row");
    let words: Vec<&str> = line.split_whitespace().take(4).collect();
    assert_eq!(
        words,
        [&*namespace, &format!("vm/{name}"), "Halted", "FirstConsumerNeeded"]
    );
    assert!(line.ends_with("   a disk waits for it…"), "{line}");
    let short = told(&vm("ns", "db", true), "-A").text;
    assert!(short.lines().all(|line| width(line) <= WIDTH), "{short}");
}

#[test]
fn the_schedulers_own_words_are_in_the_tree_and_what_they_mean_below() {
    let text = vm("ns", "db", true) + &own_pod(&[("db-root", "claim")]);
    let text = text.replace("v1:of what", "v0:of what");
    let found = told(&text, "vm/db").text;
    let (tree, cause) = found.split_once("Cause:").expect("a cause");
    let own = "no node fits: 0/1 nodes are available: 1 Insufficient cpu.";
    assert!(
        tree.split_whitespace().collect::<Vec<_>>().join(" ").contains(own),
        "{tree}"
    );
    assert!(
        tree.contains("\n       1 of 1 nodes: too little cpu is left\n"),
        "{tree}"
    );
    assert!(!cause.contains("0/1"), "{cause}");
}

/// What a container says when it ends is anybody's text.
#[test]
fn what_the_cluster_says_makes_no_line_and_moves_no_cursor() {
    let words = "gone\nCause:  Nothing\u{1b}[2J\r\tNext:   stop looking";
    let refused = event("FirstConsumerRefused", "CreateRefused", words, 10);
    let text = vm("ns", "db", true) + &refused;
    for found in [told(&text, "vm/db"), told(&text, "-n ns")] {
        assert!(found.text.contains("gone"), "{}", found.text);
        let odd = |c: char| c.is_control() && c != '\n';
        assert!(!found.text.contains(odd), "{:?}", found.text);
        let causes = found.text.lines().filter(|line| line.starts_with("Cause:"));
        assert!(causes.count() <= 1, "{}", found.text);
    }
}

#[test]
fn colour_is_only_in_the_two_words() {
    let scene = scene(&vm("ns", "db", true));
    let plain = explain(&scene, &scene.subjects(), &flags("vm/db"), false, at(600)).text;
    let painted = explain(&scene, &scene.subjects(), &flags("vm/db"), true, at(600)).text;
    assert!(!plain.contains('\u{1b}'));
    assert!(
        painted.contains("\u{1b}[31mCause:\u{1b}[0m  First") && painted.contains("\u{1b}[34mNext:\u{1b}[0m   wait"),
        "{painted}"
    );
    let stripped = ["\u{1b}[31m", "\u{1b}[34m", "\u{1b}[0m"]
        .iter()
        .fold(painted, |text, code| text.replace(code, ""));
    assert_eq!(stripped, plain);
}

//! `explain -f` on situations that were saved from a running stack: `explain/NAME.json` is what `kubectl get` gave, and
//! `explain/NAME.txt` what a person has to read of it. `EXPLAIN_WRITE=1` writes the texts anew, to be read before they
//! are committed.

// All of this file is a test; clippy only knows the functions that are marked as one.
#![allow(clippy::expect_used, clippy::panic)]

mod situations;

use std::path::{Path, PathBuf};

use clap::Parser as _;
use first_consumer::cli::explain::{Explained, run_at};
use first_consumer::cli::{Cli, Command, files};
use first_consumer::decide::{Settings, turn};
use first_consumer::diagnose::{Evidence, diagnose};
use first_consumer::memory::Memory;
use first_consumer::name::Key;
use first_consumer::reason::Reason;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use situations::SITUATIONS;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("explain")
}

fn path(name: &str, ending: &str) -> PathBuf {
    folder().join(format!("{name}.{ending}"))
}

/// Some hours after everything was saved.
fn now() -> Timestamp {
    "2026-12-01T00:00:00Z".parse().expect("a time")
}

async fn explain(name: &str, words: &[&str]) -> Explained {
    explain_file(&path(name, "json"), words).await
}

async fn explain_file(file: &Path, words: &[&str]) -> Explained {
    let file = file.to_string_lossy();
    let flags = ["first-consumer", "explain", "-f", &file]
        .into_iter()
        .chain(words.iter().copied());
    match Cli::try_parse_from(flags).expect("flags").command {
        Command::Explain(flags) => run_at(&flags, false, now()).await.expect("explained"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_situation_has_its_cause_and_its_next_step() {
    for expected in SITUATIONS {
        let file = expected.file;
        let found = explain(file, &[expected.vm, "-o", "json"]).await;
        let account: Value = serde_json::from_str(&found.text).expect("JSON");
        assert_eq!(
            [&account["action"], &account["reason"]],
            [expected.action, expected.reason],
            "{file}"
        );
        let diagnosis = account.pointer("/diagnosis/0/reason").and_then(Value::as_str);
        assert_eq!(diagnosis.unwrap_or_default(), expected.diagnosis, "{file}");
        assert_eq!(found.code, 1, "{file}");

        let text = explain(file, &[expected.vm]).await.text;
        for name in expected.names {
            assert!(text.contains(name), "{file} does not name {name}:\n{text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{file}: {line}");
        }
        for word in ["Cause:  ", "Next:   "] {
            assert_eq!(
                text.lines().filter(|line| line.starts_with(word)).count(),
                1,
                "{file}:\n{text}"
            );
        }
        // Deleting our pod at selected-node leaves this Event behind.
        assert!(!text.contains("does not exist any more"), "{file}:\n{text}");
        let snapshot = path(file, "txt");
        if std::env::var_os("EXPLAIN_WRITE").is_some() {
            std::fs::write(&snapshot, &text).expect("written");
        }
        let kept = std::fs::read_to_string(&snapshot).unwrap_or_default();
        assert_eq!(kept, text, "{}", snapshot.display());
    }
}

#[test]
fn every_file_is_a_situation_and_the_readme_lists_them() {
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .expect("the folder")
        .filter_map(|entry| {
            let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            name.strip_suffix(".json").map(str::to_owned)
        })
        .collect();
    files.sort();
    let mut known: Vec<&str> = SITUATIONS.iter().map(|expected| expected.file).collect();
    known.sort_unstable();
    assert_eq!(files, known);

    let readme = std::fs::read_to_string(folder().join("README.md")).expect("the README");
    let mut rows: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, known);
    assert!(readme.contains(&format!("\n{} of them. ", known.len())));
}

/// The controller, which has no Events and counts from when it has seen something first, comes to the same as `explain`
/// where there are no Events.
#[tokio::test]
async fn the_controller_says_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    for expected in SITUATIONS {
        let text = std::fs::read_to_string(path(expected.file, "json")).expect("readable");
        let mut list: Value = serde_json::from_str(&text).expect("JSON");
        let items = list["items"].as_array_mut().expect("items");
        items.retain(|item| item["kind"] != "Event");
        let file = folder.path().join(expected.file);
        std::fs::write(&file, list.to_string()).expect("written");

        let (index, _) = files::load(std::slice::from_ref(&file), "default").expect("readable");
        let named = |subject: &Key| expected.vm == format!("vm/{}", subject.name);
        let subject = index.subjects().into_iter().find(named).expect("a VM");
        let mut memory = Memory::default();
        let mut look = |now: Timestamp| {
            let turn = turn(&index, &subject, &Settings::default(), &mut memory, now);
            let onsets = Some(&mut memory.onsets);
            let diagnosis = diagnose(&index, &turn.observed, &Evidence::default(), onsets, now);
            (turn.decision, diagnosis, turn.observed.unexpanded.is_some())
        };
        let (_, first, _) = look(now());
        // It wakes up by itself when something has lasted too long.
        let (decision, diagnosis, unexpanded) = look(first.wake_at.unwrap_or_else(now));
        let told = explain_file(&file, &[expected.vm, "-o", "json"]).await;
        let missing = |remark: &String| remark.starts_with("the input has no ") && remark.contains("events");
        assert!(
            told.remarks.iter().any(missing),
            "{}: {:?}",
            expected.file,
            told.remarks
        );
        let told: Value = serde_json::from_str(&told.text).expect("JSON");
        let found: Vec<Value> = diagnosis
            .findings
            .iter()
            .map(|finding| json!([finding.trouble.name(), finding.message()]))
            .collect();
        let wrongs = told["diagnosis"].as_array().expect("a list").iter();
        let wrongs: Vec<Value> = wrongs.map(|wrong| json!([wrong["reason"], wrong["message"]])).collect();
        assert_eq!(found, wrongs, "{}", expected.file);
        // The controller asks virt-api first; a file can't, and says so.
        if unexpanded {
            assert_eq!(decision.reason, Reason::ExpansionPending, "{}", expected.file);
            assert!(
                told["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("instancetype")),
                "{told}"
            );
            continue;
        }
        let decided = [format!("{:?}", decision.action), decision.reason.name()];
        assert_eq!(
            [&told["action"], &told["reason"]],
            [&*decided[0], &*decided[1]],
            "{}",
            expected.file
        );
    }
}

/// Who saves only what is in the VM's Namespace hears what is missing, and never that all is well.
#[tokio::test]
async fn what_a_file_leaves_out_is_told() {
    const INSIDE: [&str; 6] = [
        "VirtualMachine",
        "VirtualMachineInstance",
        "DataVolume",
        "PersistentVolumeClaim",
        "Pod",
        "Event",
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for expected in SITUATIONS {
        let text = std::fs::read_to_string(path(expected.file, "json")).expect("readable");
        let mut list: Value = serde_json::from_str(&text).expect("JSON");
        let items = list["items"].as_array_mut().expect("items");
        items.retain(|item| item["kind"].as_str().is_some_and(|kind| INSIDE.contains(&kind)));
        let file = folder.path().join(expected.file);
        std::fs::write(&file, list.to_string()).expect("written");
        let found = explain_file(&file, &[expected.vm]).await;
        let left_out = found
            .remarks
            .iter()
            .any(|remark| remark.starts_with("the input has no namespaces, nodes"));
        assert!(left_out, "{}: {:?}", expected.file, found.remarks);
        let going = expected.reason == "SubjectDeleted";
        let all_clear = found.code == 0 && !found.text.contains("in what could be read");
        assert!(going || !all_clear, "{}:\n{}", expected.file, found.text);
    }
}

#[tokio::test]
async fn a_disk_means_its_vm_and_without_a_name_comes_a_table() {
    let by_name = explain("worker-crashing", &["vm/db"]).await;
    for disk in ["dv/db-disk0", "pvc/db-disk0"] {
        assert_eq!(explain("worker-crashing", &[disk]).await, by_name, "{disk}");
    }
    let table = explain("worker-crashing", &[]).await;
    assert_eq!(table.code, 0);
    let lines: Vec<Vec<&str>> = table
        .text
        .lines()
        .map(|line| line.split_whitespace().take(4).collect())
        .collect();
    assert_eq!(
        lines,
        [
            ["NAMESPACE", "NAME", "STATE", "CAUSE"],
            ["m-worker-crashing", "vm/db", "Halted", "WorkerFailing"]
        ]
    );
}

/// The README shows five of them, word for word.
#[tokio::test]
async fn the_transcripts_of_the_readme_are_true() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).expect("the README");
    let command = "$ first-consumer explain vm/db -n ";
    let transcripts: Vec<&str> = readme.split(command).skip(1).collect();
    assert_eq!(transcripts.len(), 5);
    for transcript in transcripts {
        let (namespace, rest) = transcript.split_once('\n').expect("a line");
        // The first Namespaces begin with the letter of their cluster, ours with the name of the command.
        let (_, file) = namespace.split_once('-').expect("a prefix");
        let text = explain(file, &["vm/db", "-n", namespace]).await.text;
        assert!(rest.starts_with(&text), "{file}:\n{text}");
    }
}

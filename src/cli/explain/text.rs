//! What people read: a short tree a subject, or a table.

use super::account::{Account, DiskAccount};
use super::scheduler::verdict;
use crate::cli::layout::{WIDTH, cut, paint, plain, push, unbroken, width, wrapped};

/// Trees, with an empty line between them.
pub(super) fn trees(accounts: &[Account], colour: bool) -> String {
    accounts
        .iter()
        .map(|account| tree(account, colour))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The subject, its disks and what each waits for, the pods, and then the one cause and the one next step.
fn tree(account: &Account, colour: bool) -> String {
    let mut text = String::new();
    let subject = format!(
        "{}/{} in {}: {}",
        account.word, account.name, account.namespace, account.shown_state
    );
    for (position, line) in wrapped(&subject, WIDTH - 2).iter().enumerate() {
        push(&mut text, if position == 0 { "" } else { "  " }, line);
    }
    let disks = account
        .disks
        .iter()
        .map(|disk| (format!("disk {}", disk.claim), of_disk(disk)));
    let pods = account
        .pods
        .iter()
        .map(|(name, words)| (format!("pod {name}"), words.clone()));
    let branches: Vec<(String, String)> = disks.chain(pods).collect();
    for (position, (name, words)) in branches.iter().enumerate() {
        let last = position + 1 == branches.len();
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        branch_lines(&mut text, branch, below, name, words);
    }
    let (tint, next) = if account.fine { ("32", "34") } else { ("31", "34") };
    let message = match verdict(&account.message) {
        Some(verdict) => {
            let said = format!("{} {}", verdict.before, verdict.lines.join(", "));
            let parts = [said.trim_start(), verdict.behind];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            parts.join("; ")
        }
        None => account.message.clone(),
    };
    for (word, code, words) in [
        ("Cause:", tint, format!("{}: {message}", account.cause)),
        ("Next:", next, account.next.clone()),
    ] {
        let wrapped = unbroken(&words, WIDTH - 8);
        for (position, line) in wrapped.iter().enumerate() {
            let head = if position == 0 {
                format!("{}{}", paint(colour, code, word), " ".repeat(8 - word.len()))
            } else {
                " ".repeat(8)
            };
            push(&mut text, &head, line);
        }
    }
    text
}

/// One branch: its name and words, and below them what a verdict of the scheduler in them means.
fn branch_lines(text: &mut String, branch: &str, below: &str, name: &str, words: &str) {
    for (position, line) in wrapped(&format!("{name}  {words}"), WIDTH - 5).iter().enumerate() {
        let head = if position == 0 {
            branch.to_owned()
        } else {
            format!("{below}  ")
        };
        push(text, &head, line);
    }
    for line in verdict(words).iter().flat_map(|verdict| &verdict.lines) {
        for line in wrapped(line, WIDTH - 7) {
            push(text, &format!("{below}    "), &line);
        }
    }
}

fn of_disk(disk: &DiskAccount) -> String {
    let phase = |kind: &str, phase: &Option<String>| match phase.as_deref() {
        Some("") => Some(format!("{kind} without phase")),
        Some(phase) => Some(format!("{kind} {phase}")),
        None => None,
    };
    let phases = [phase("dv", &disk.data_volume_phase), phase("pvc", &disk.claim_phase)];
    let phases: Vec<String> = phases.into_iter().flatten().collect();
    match &*phases {
        [] => disk.message.clone(),
        phases => format!("{}: {}", phases.join(", "), disk.message),
    }
}

/// The subjects that wait, one a line.
pub(super) fn table(accounts: &[Account], namespaces: bool, headers: bool) -> String {
    if accounts.is_empty() {
        return String::new();
    }
    let heading = ["NAMESPACE", "NAME", "STATE", "CAUSE", "MESSAGE"].map(str::to_owned);
    let row = |account: &Account| {
        let name = format!("{}/{}", account.word, account.name);
        [
            account.namespace.clone(),
            name,
            account.shown_state.clone(),
            account.cause.clone(),
            account.message.clone(),
        ]
        .map(|cell| plain(&cell))
    };
    let rows: Vec<[String; 5]> = headers
        .then_some(heading)
        .into_iter()
        .chain(accounts.iter().map(row))
        .collect();
    let from = usize::from(!namespaces);
    let columns = rows.first().map_or(0, |row| row.len() - 1);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width_of) in row.iter().zip(&widths).skip(from) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width_of - width(cell) + 3));
        }
        let room = WIDTH.saturating_sub(width(&line)).max(20);
        line.push_str(&cut(&row[columns], room));
        push(&mut text, "", line.trim_end());
    }
    text
}

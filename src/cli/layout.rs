//! How texts for people are laid out: lines of at most [`WIDTH`] columns, as far as words allow; colour only for a person.

use std::ffi::OsStr;
use std::io::IsTerminal as _;

/// Columns of a line.
pub(super) const WIDTH: usize = 100;

/// What commands begin with.
const TOOLS: [&str; 2] = ["kubectl", "virtctl"];

/// Whether whoever looks at stdout wants colour (no-color.org).
pub(super) fn wants_colour() -> bool {
    colours(std::io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
}

/// Whether a stdout that is a terminal or not is coloured where `NO_COLOR` has this value.
fn colours(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

/// A word in a colour of the terminal, or as it is.
pub(super) fn paint(colour: bool, code: &str, word: &str) -> String {
    if colour {
        format!("\u{1b}[{code}m{word}\u{1b}[0m")
    } else {
        word.to_owned()
    }
}

pub(super) fn push(text: &mut String, head: &str, line: &str) {
    text.push_str(head);
    text.push_str(line);
    text.push('\n');
}

pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

/// What the cluster or a file says, without what would move a terminal's cursor or begin a line of its own.
pub(super) fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

pub(super) fn cut(text: &str, room: usize) -> String {
    let text = &*plain(text);
    if width(text) <= room {
        return text.to_owned();
    }
    text.chars().take(room - 1).chain(['…']).collect()
}

/// As [`wrapped`], but a command has lines of its own if it does not fit behind its explanation: it is copied.
pub(super) fn unbroken(text: &str, room: usize) -> Vec<String> {
    let text = &*plain(text);
    let behind = |tool: &str| {
        text.split_once(&format!(": {tool} "))
            .map(|(why, rest)| (why, format!("{tool} {rest}")))
    };
    match TOOLS.iter().find_map(|tool| behind(tool)) {
        Some((why, command)) if width(text) > room => {
            [wrapped(&format!("{why}:"), room), copied(&command, room)].concat()
        }
        None if TOOLS.iter().any(|tool| text.starts_with(&format!("{tool} "))) => copied(text, room),
        _ => wrapped(text, room),
    }
}

/// A command that a shell understands though it has several lines.
fn copied(command: &str, room: usize) -> Vec<String> {
    if width(command) <= room {
        return vec![command.to_owned()];
    }
    let mut lines = wrapped(command, room - 2);
    let last = lines.len().saturating_sub(1);
    for line in &mut lines[..last] {
        line.push_str(" \\");
    }
    lines
}

/// Lines of at most `room` columns, broken between words; a longer word has its own line.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in plain(text).split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= room => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_is_coloured_and_only_if_nobody_forbids_it() {
        assert!(colours(true, None) && colours(true, Some(OsStr::new(""))));
        assert!(!colours(true, Some(OsStr::new("1"))) && !colours(true, Some(OsStr::new("0"))));
        assert!(!colours(false, None));
    }

    #[test]
    fn a_command_is_kept_together_or_continued() {
        for tool in TOOLS {
            let command = format!("{tool} {}", "word ".repeat(6).trim_end());
            let lines = unbroken(&format!("do it: {command}"), 39);
            assert_eq!(lines, ["do it:", &*command], "{tool}");
            let lines = unbroken(&command, 20);
            assert!(
                lines.len() > 1 && lines.iter().all(|line| width(line) <= 20),
                "{lines:?}"
            );
            assert_eq!(lines.join(" ").replace(" \\", ""), command);
        }
        assert_eq!(unbroken("do it: kubectl x", 39), ["do it: kubectl x"]);
    }
}

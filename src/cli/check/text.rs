//! What people read of `check`: a section for each thing that was looked at, a mark a finding, and a sum.

use super::findings::{Mark, Section};
use crate::cli::layout::{WIDTH, paint, push, unbroken, wrapped};

/// All sections and the sum.
pub(super) fn text(sections: &[Section], colour: bool) -> String {
    let mut text = String::new();
    let (mut wrong, mut doubtful) = (0, 0);
    for section in sections {
        push(&mut text, "", section.title);
        for finding in &section.findings {
            let (mark, tint) = match finding.mark {
                Mark::Fine => ("√", "32"),
                Mark::Doubtful => ("‼", "33"),
                Mark::Wrong => ("×", "31"),
            };
            wrong += usize::from(finding.mark == Mark::Wrong);
            doubtful += usize::from(finding.mark == Mark::Doubtful);
            let head = format!("{} ", paint(colour, tint, mark));
            lines(&mut text, &head, "  ", &wrapped(&finding.text, WIDTH - 2));
            if !finding.hint.is_empty() {
                let head = format!("  {}   ", paint(colour, "34", "Next:"));
                lines(&mut text, &head, "          ", &unbroken(&finding.hint, WIDTH - 10));
            }
        }
        text.push('\n');
    }
    let sum = match (wrong, doubtful) {
        (0, 0) => "All is as it should be.".to_owned(),
        (0, doubtful) => format!("Nothing is wrong; to be looked at: {doubtful}"),
        (wrong, 0) => format!("Wrong: {wrong}"),
        (wrong, doubtful) => format!("Wrong: {wrong}; to be looked at: {doubtful}"),
    };
    push(&mut text, "", &sum);
    text
}

fn lines(text: &mut String, first: &str, others: &str, lines: &[String]) {
    for (position, line) in lines.iter().enumerate() {
        push(text, if position == 0 { first } else { others }, line);
    }
}

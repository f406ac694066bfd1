//! `--help` of every command is a text of its own, to be read by a person: `help/COMMAND.txt`. `HELP_WRITE=1` writes them
//! anew, to be read before they are committed.

use std::path::Path;

use clap::{Command, CommandFactory as _};

use super::Cli;

/// Columns.
const WIDTH: usize = 100;

fn text(command: &mut Command) -> String {
    let help = command.clone().term_width(WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n"))
}

#[test]
fn the_helps_are_as_they_were_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/help");
    let mut cli = Cli::command().term_width(WIDTH);
    cli.build();
    let mut helps = vec![("first-consumer".to_owned(), text(&mut cli))];
    for command in cli.get_subcommands_mut() {
        helps.push((command.get_name().to_owned(), text(command)));
    }
    for (name, help) in &helps {
        let file = folder.join(name).with_extension("txt");
        if std::env::var_os("HELP_WRITE").is_some() {
            std::fs::write(&file, help).expect("written");
        }
        let read = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(
            *help, read,
            "--help of {name} has changed; to write the new texts:\nHELP_WRITE=1 cargo test --package first-consumer help"
        );
        for line in help.lines() {
            assert!(line.chars().count() <= WIDTH, "{name}: {line}");
        }
    }
    let texts = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(texts, helps.len(), "a text in src/cli/help has no command");
}

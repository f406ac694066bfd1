//! `first-consumer completion`: what a shell needs to complete commands and flags.

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{Shell as Generator, generate};

use super::Cli;

/// Flags of `completion`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = "\
Examples:
  source <(first-consumer completion bash)
  first-consumer completion zsh > \"${fpath[1]}/_first-consumer\"
  first-consumer completion fish > ~/.config/fish/completions/first-consumer.fish")]
pub struct Completion {
    /// The shell.
    pub shell: Shell,
}

/// The shells that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

/// The script for a shell.
#[must_use]
pub fn script(shell: Shell) -> String {
    let generator = match shell {
        Shell::Bash => Generator::Bash,
        Shell::Zsh => Generator::Zsh,
        Shell::Fish => Generator::Fish,
    };
    let mut script = Vec::new();
    generate(generator, &mut Cli::command(), "first-consumer", &mut script);
    // clap_complete 4.6.12 spells a hyphen of the program's name in two ways in one script for bash, which then completes
    // no flags. A test plays bash.
    String::from_utf8_lossy(&script).replace("first__subcmd__consumer", "first__consumer")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn every_shell_learns_every_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for command in Cli::command().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell:?}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn bash_completes_commands_flags_and_values() {
        let complete = |words: &[&str]| {
            let last = words.last().expect("a word");
            let before = words.get(words.len() - 2).expect("two words");
            let test = format!(
                "{}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_first__consumer first-consumer '{last}' '{before}'\necho \"${{COMPREPLY[@]}}\"",
                script(Shell::Bash),
                words
                    .iter()
                    .map(|word| format!("'{word}'"))
                    .collect::<Vec<_>>()
                    .join(" "),
                words.len() - 1,
            );
            let output = Command::new("bash").arg("-c").arg(test).output().expect("bash");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        assert_eq!(complete(&["first-consumer", "exp"]), "explain");
        assert_eq!(complete(&["first-consumer", "explain", "--all"]), "--all-namespaces");
        assert_eq!(complete(&["first-consumer", "completion", "fi"]), "fish");
    }
}

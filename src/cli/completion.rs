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

    /// What a shell's script has between two texts.
    fn between<'a>(script: &'a str, start: &str, end: &str) -> &'a str {
        let (_, rest) = script
            .split_once(start)
            .unwrap_or_else(|| panic!("{start} is not in {script}"));
        rest.split_once(end).map_or(rest, |(part, _)| part)
    }

    #[test]
    fn zsh_and_fish_learn_every_command_and_its_flags() {
        let (zsh, fish) = (script(Shell::Zsh), script(Shell::Fish));
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands() {
            let name = command.get_name();
            let offered = format!("-a \"{name}\" -d ");
            assert!(fish.contains(&offered), "fish: {name}");
            let mine = format!("-n \"__fish_first_consumer_using_subcommand {name}\"");
            let of_fish: Vec<&str> = fish.lines().filter(|line| line.contains(&mine)).collect();
            let of_zsh = between(&zsh, &format!("({name})\n_arguments"), "\n;;\n");
            assert!(
                between(&zsh, "_first-consumer_commands()", "\n}").contains(&format!("'{name}:")),
                "zsh: {name}"
            );
            let flags: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            assert!(flags.contains(&"help"), "{flags:?}");
            for flag in flags {
                let known = of_fish.iter().any(|line| line.contains(&format!(" -l {flag} ")));
                assert!(known, "fish: {name} --{flag}");
                let mut quoted = of_zsh.lines().filter_map(|line| line.split_once(&format!("--{flag}")));
                let known = quoted.any(|(_, rest)| rest.starts_with(['=', '[']));
                assert!(known, "zsh: {name} --{flag}");
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

//! An empty value is none, as for kubectl: a Deployment sets what a patch can only empty.

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command, CommandFactory as _, FromArgMatches as _};

use super::Cli;

/// Reads a command line, the program's name first, and the environment. A flag or variable with an empty value counts
/// as not given; one that may come several times, such as `--filename`, does not.
pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command().mut_subcommands(|command| command.mut_args(without_empty_variable));
    command.build();
    let words = given(&command, words.into_iter().collect());
    Cli::from_arg_matches(&command.try_get_matches_from_mut(words)?)
}

fn without_empty_variable(flag: Arg) -> Arg {
    let name = flag
        .get_env()
        .filter(|name| std::env::var_os(name).is_some_and(|value| value.is_empty()));
    if name.is_some() {
        flag.env(Resettable::Reset)
    } else {
        flag
    }
}

/// The words without the flags whose value is empty.
fn given(command: &Command, words: Vec<OsString>) -> Vec<OsString> {
    let subcommand = words.get(1).and_then(|name| command.find_subcommand(name));
    let Some(subcommand) = subcommand else {
        return words;
    };
    let mut given = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            given.push(word);
            break;
        }
        match single(subcommand, &word) {
            Some(Value::Inside { empty: true }) => {}
            Some(Value::Follows) => {
                if let Some(value) = words.next_if(|value| !value.is_empty()) {
                    given.extend([word, value]);
                } else if words.next().is_none() {
                    given.push(word);
                }
            }
            Some(Value::Inside { empty: false }) | None => given.push(word),
        }
    }
    given.extend(words);
    given
}

/// Where the value of a flag is.
enum Value {
    Inside { empty: bool },
    Follows,
}

/// Where a word's value is, if it is a flag that takes one value.
fn single(command: &Command, word: &OsStr) -> Option<Value> {
    let word = word.to_str()?;
    let (name, value) = word
        .split_once('=')
        .map_or((word, None), |(name, value)| (name, Some(value)));
    let names = |flag: &&Arg| match name.strip_prefix("--") {
        Some(long) => flag
            .get_long_and_visible_aliases()
            .is_some_and(|all| all.contains(&long)),
        None => name
            .strip_prefix('-')
            .is_some_and(|short| flag.get_short().is_some_and(|letter| short.chars().eq([letter]))),
    };
    let flag = command.get_arguments().find(names)?;
    match value {
        _ if matches!(flag.get_action(), ArgAction::Append) => None,
        Some(value) => Some(Value::Inside {
            empty: value.is_empty(),
        }),
        None => matches!(flag.get_action(), ArgAction::Set).then_some(Value::Follows),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command as What;
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        let words = ["first-consumer"].into_iter().chain(text.split(' '));
        words.map(|word| word.replace("''", "").into()).collect()
    }

    #[test]
    fn an_empty_value_is_none() {
        let text = "run --watch-namespace= --context '' --halted-priority-class= --pod-image= --create-rate '' --leader-elect=";
        let What::Run(run) = read(words(text)).expect("readable").command else {
            panic!("run")
        };
        assert_eq!((run.watch_namespace, run.context, run.create_rate), (None, None, 20));
        assert_eq!(run.pod.settings(), crate::pod::Settings::default());
        let What::Explain(explain) = read(words("explain -n '' --context= -A -n="))
            .expect("readable")
            .command
        else {
            panic!("explain")
        };
        assert!(explain.connection.namespace.is_none() && explain.connection.cluster.context.is_none());
        let missing = read(words("run --leader-elect --pod-name=")).expect_err("a name is needed");
        assert!(missing.to_string().contains("--pod-name"), "{missing}");
    }

    #[test]
    fn what_is_not_empty_stays() {
        let What::Explain(explain) = read(words("status vm/db --context a -n=b --request-timeout 5"))
            .expect("readable")
            .command
        else {
            panic!("explain")
        };
        assert_eq!(explain.names, ["vm/db"]);
        let connection = explain.connection;
        assert_eq!(connection.namespace.as_deref(), Some("b"));
        assert_eq!(connection.cluster.context.as_deref(), Some("a"));
        // A file without a name is a mistake, and a flag without its value, too.
        for wrong in ["explain -f ''", "explain --context", "explain -A --bogus="] {
            let read = read(words(wrong));
            assert!(
                read.map_or(true, |cli| match cli.command {
                    What::Explain(explain) => explain.files.len() == 1,
                    _ => false,
                }),
                "{wrong}"
            );
        }
    }
}

//! The `first-consumer` binary: parses the command line, calls the library, and maps an error to an exit code.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use first_consumer::cli::render::{self, Rendered};
use first_consumer::cli::{self, Command, check, completion, explain, supported};
use first_consumer::cluster::client::ConnectError;
use first_consumer::run::{Broken, run};
use first_consumer::telemetry;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let command = match cli::read(std::env::args_os()) {
        Ok(cli) => cli.command,
        Err(error) => error.exit(),
    };
    let ended = match command {
        Command::Run(flags) => match telemetry::init(flags.log_format, &flags.log_level) {
            Ok(()) => run(*flags).await.map(|()| 0).map_err(|error| {
                // Anything else is wrong use, such as a port that is taken.
                let code = match &error {
                    error if error.is::<ConnectError>() => 3,
                    error if error.is::<Broken>() => 1,
                    _ => 2,
                };
                (code, error)
            }),
            Err(error) => Err((2, error)),
        },
        Command::Explain(flags) => match explain::run(&flags).await {
            Ok(explained) => print(&explained.text, &explained.remarks, explained.code),
            Err(failure) => Err((failure.code, failure.into())),
        },
        Command::Render(flags) => match render::run(&flags).await {
            Ok(Rendered {
                text,
                refused,
                unreadable,
            }) => print(&text, &[&*refused, &unreadable].concat(), u8::from(!refused.is_empty())),
            Err(failure) => Err((failure.code, failure.into())),
        },
        Command::Check(flags) => match check::run(&flags).await {
            Ok((text, code)) => print(&text, &[], code),
            Err(failure) => Err((failure.code, failure.into())),
        },
        Command::Completion(flags) => print(&completion::script(flags.shell), &[], 0),
        Command::Version => print(&supported::report(), &[], 0),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err((code, error)) => {
            say(&format!("{error:#}"));
            ExitCode::from(code)
        }
    }
}

/// Prints a text, and remarks beside it; the exit code. A text that can't be written is a failure.
fn print(text: &str, remarks: &[String], code: u8) -> Result<u8, (u8, anyhow::Error)> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever has closed the pipe has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err((2, anyhow::Error::new(error).context("cannot write the output")));
        }
        _ => {}
    }
    for remark in remarks {
        say(remark);
    }
    Ok(code)
}

/// One line on stderr, whether or not anybody reads it.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "first-consumer: {line}");
}

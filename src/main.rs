//! The `first-consumer` binary: parses the command line, calls the library, and maps an error to an exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use first_consumer::cli::render::{self, Rendered};
use first_consumer::cli::{Cli, Command, check, completion, explain, supported};
use first_consumer::run::run;
use first_consumer::telemetry;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Run(flags) => match telemetry::init(flags.log_format, &flags.log_level) {
            Ok(()) => run(*flags).await.map(|()| 0).map_err(|error| (3, error)),
            Err(error) => Err((2, error)),
        },
        Command::Explain(flags) => match explain::run(&flags).await {
            Ok(explained) => Ok(print(&explained.text, &explained.remarks, explained.code)),
            Err(failure) => Err((failure.code, failure.into())),
        },
        Command::Render(flags) => match render::run(&flags).await {
            Ok(Rendered { text, refused }) => Ok(print(&text, &refused, u8::from(!refused.is_empty()))),
            Err(failure) => Err((failure.code, failure.into())),
        },
        Command::Check(flags) => match check::run(&flags).await {
            Ok((text, code)) => Ok(print(&text, &[], code)),
            Err(failure) => Err((failure.code, failure.into())),
        },
        Command::Completion(flags) => Ok(print(&completion::script(flags.shell), &[], 0)),
        Command::Version => Ok(print(&supported::report(), &[], 0)),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err((code, error)) => {
            eprintln!("first-consumer: {error:#}");
            ExitCode::from(code)
        }
    }
}

/// Prints a text, and remarks beside it; the exit code.
fn print(text: &str, remarks: &[String], code: u8) -> u8 {
    // Whoever has closed the pipe has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    for remark in remarks {
        eprintln!("first-consumer: {remark}");
    }
    code
}

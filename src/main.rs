//! The `first-consumer` binary: parses the command line, calls the library, and maps an error to an exit code.

use std::process::ExitCode;

use clap::Parser as _;
use first_consumer::cli::{Cli, Command};
use first_consumer::run::run;
use first_consumer::telemetry;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let Command::Run(flags) = Cli::parse().command;
    let ended = match telemetry::init(flags.log_format, &flags.log_level) {
        Ok(()) => run(flags).await.map_err(|error| (3, error)),
        Err(error) => Err((2, error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            eprintln!("first-consumer: {error:#}");
            ExitCode::from(code)
        }
    }
}

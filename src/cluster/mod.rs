//! How the API server is talked to: clients with time limits, watches that fill the index, what is written, Events.
//! Beside it only the Lease (`leader`) and the questions of `check` have requests of their own.

pub mod client;
pub mod events;
pub mod execute;
pub mod expand;
mod series;
pub mod snapshot;
pub mod watch;
pub mod watched;

#[cfg(test)]
pub(crate) mod test_server;

//! The only place that talks to the API server: clients with time limits, watches that fill the index, Events.

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

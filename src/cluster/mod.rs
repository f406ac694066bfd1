//! The only place that talks to the API server: clients with time limits, watches that fill the index, Events.

pub mod client;
pub mod execute;
pub mod watch;
pub mod watched;

#[cfg(test)]
mod test_server;

//! Waiting for the cluster to become what it should.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

const POLL: Duration = Duration::from_millis(50);
/// Long enough for whatever is wrong only after a minute, on a very busy machine: patience costs only who fails.
const PATIENCE: Duration = Duration::from_mins(3);

/// Asks until there is an answer. Fails if the question itself fails, or after 3 min with the name of `what` was
/// awaited.
pub async fn wait_for<T>(what: &str, ask: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    wait_within(PATIENCE, what, ask).await
}

/// As [`wait_for`], for what takes longer or shorter.
pub async fn wait_within<T>(limit: Duration, what: &str, mut ask: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let until = Instant::now() + limit;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if Instant::now() > until {
            bail!("not within {} s: {what}", limit.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
}

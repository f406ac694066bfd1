//! Waiting for the cluster to become what it should.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

const POLL: Duration = Duration::from_millis(50);

/// Asks until there is an answer. Fails if the question itself fails, or after `limit` with the name of `what` was
/// awaited.
pub async fn wait_for<T>(limit: Duration, what: &str, mut ask: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
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

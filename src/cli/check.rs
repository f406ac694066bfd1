//! `first-consumer check`: whether a cluster has what first-consumer needs, with one hint for whatever it lacks. What the
//! cluster says becomes [`facts::Facts`]; [`findings`] judges them without asking anybody.

mod facts;
mod findings;
mod gather;
mod rights;
#[cfg(test)]
mod tests;
mod text;

use clap::Args;

use super::connection::Cluster;
use super::{Failure, layout};

use findings::Mark;

/// Flags of `check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  first-consumer check --pre    # before it is installed: has the cluster what it needs, and may you install it
  first-consumer check          # afterwards, or when something is odd

√ is fine, ‼ may become a problem or could not be checked, × is wrong. It reads as you, not as the controller.

Exit code: 0 nothing is wrong; 1 something is (×); 3 the cluster cannot be reached.")]
pub struct Check {
    /// Before first-consumer is installed: what it needs, and whether you may install it.
    #[arg(long)]
    pub pre: bool,
    /// Namespace of the controller.
    #[arg(long, value_name = "NAME", default_value = "first-consumer")]
    pub controller_namespace: String,
    /// The cluster.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// Looks at a cluster: a text for stdout and the exit code.
pub async fn run(flags: &Check) -> Result<(String, u8), Failure> {
    let (client, _, limit) = flags.cluster.open().await?;
    let facts = gather::gather(&client, &flags.controller_namespace, flags.pre, limit).await?;
    let sections = findings::sections(&facts);
    let wrong = sections
        .iter()
        .flat_map(|section| &section.findings)
        .any(|finding| finding.mark == Mark::Wrong);
    Ok((text::text(&sections, layout::wants_colour()), u8::from(wrong)))
}

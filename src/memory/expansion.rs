//! What is remembered of `expand-spec` for one VM: the last result, and what failed and when to ask again.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::Growing;
use crate::api::Template;
use crate::observe::Expanded;

/// How long to wait for a spec that could not be expanded.
const DELAY: Growing = Growing {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};
/// How long a refused expansion counts; what it lacks may be outside of the VM.
const REFUSED_FOR: Duration = Duration::from_mins(5);

/// What is known of the expansion of the VM's template.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    last: Option<Expanded>,
    /// What is being expanded.
    running: Option<String>,
    failed: Option<Unexpanded>,
}

/// An expansion that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexpanded {
    /// Of what ([`crate::observe::Observed::unexpanded`]).
    inputs: String,
    /// The API server's text.
    pub text: String,
    /// Whether it was a definite refusal.
    pub refused: bool,
    /// When it is tried again.
    pub until: Timestamp,
    /// Since when it has failed again and again.
    pub since: Timestamp,
    /// How many in a row.
    times: u32,
}

/// What came of an expansion.
#[derive(Clone, Debug)]
pub enum Expanding {
    /// The template, expanded.
    Expanded(Box<Template>),
    /// It never will be as it is; the API server's text.
    Refused(String),
    /// Nobody can do it just now; what is known of why.
    Unanswered(String),
}

impl Expansion {
    /// The last expansion of the VM's template, current or not.
    #[must_use]
    pub fn last(&self) -> Option<&Expanded> {
        self.last.as_ref()
    }

    /// Whether an expansion of `inputs` shall begin now: none runs, and none has failed a short time ago.
    #[must_use]
    pub fn due(&self, inputs: &str, now: Timestamp) -> bool {
        self.running.is_none() && self.failure(inputs).is_none_or(|failed| failed.until <= now)
    }

    /// Why the last expansion of `inputs` failed.
    #[must_use]
    pub fn failure(&self, inputs: &str) -> Option<&Unexpanded> {
        self.failed.as_ref().filter(|failed| failed.inputs == inputs)
    }

    /// Notes that an expansion has begun.
    pub fn begin(&mut self, inputs: String) {
        self.running = Some(inputs);
    }

    /// Notes what came of the expansion that has begun.
    pub fn end(&mut self, outcome: Expanding, now: Timestamp) {
        let Some(inputs) = self.running.take() else {
            return;
        };
        let (text, refused) = match outcome {
            Expanding::Expanded(template) => {
                *self = Self {
                    last: Some(Expanded {
                        inputs,
                        template: *template,
                    }),
                    ..Self::default()
                };
                return;
            }
            Expanding::Refused(text) => (text, true),
            Expanding::Unanswered(text) => (text, false),
        };
        let (times, since) = self
            .failure(&inputs)
            .map_or((1, now), |failed| (failed.times + 1, failed.since));
        let delay = if refused { REFUSED_FOR } else { DELAY.after(times) };
        self.failed = Some(Unexpanded {
            inputs,
            text,
            refused,
            since,
            times,
            until: now.checked_add(delay).unwrap_or(Timestamp::MAX),
        });
    }
}

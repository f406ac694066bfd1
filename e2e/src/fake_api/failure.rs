//! What the API server answers when it does not do what it was asked.

use serde_json::{Value, json};

/// A failure, as a `Status` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
    /// The header Retry-After, in seconds.
    pub retry_after: Option<u32>,
}

impl Failure {
    /// A failure with a text.
    #[must_use]
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Self {
            code,
            reason,
            message: message.into(),
            retry_after: None,
        }
    }

    /// There is no such object.
    #[must_use]
    pub fn not_found(plural: &str, name: &str) -> Self {
        Self::new(404, format!("{plural} \"{name}\" not found"))
    }

    /// The object is there already.
    #[must_use]
    pub fn already_exists(plural: &str, name: &str) -> Self {
        Self {
            reason: "AlreadyExists",
            ..Self::new(409, format!("{plural} \"{name}\" already exists"))
        }
    }

    /// A precondition or a version does not hold any more.
    #[must_use]
    pub fn conflict(plural: &str, name: &str, why: &str) -> Self {
        Self::new(
            409,
            format!("Operation cannot be fulfilled on {plural} \"{name}\": {why}"),
        )
    }

    /// A version that is not known any more.
    #[must_use]
    pub fn too_old(version: u64, oldest: u64) -> Self {
        Self::new(410, format!("too old resource version: {version} ({oldest})"))
    }

    /// To be asked again after some seconds.
    #[must_use]
    pub fn later(self, seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// The `Status`.
    #[must_use]
    pub fn status(&self) -> Value {
        let details = self.retry_after.map(|seconds| json!({"retryAfterSeconds": seconds}));
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
            "reason": self.reason, "details": details.unwrap_or(json!({})), "code": self.code,
        })
    }
}

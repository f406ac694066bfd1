//! Does what was decided, with its preconditions, and tells what came of it.

use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::{PartialObjectMeta, Request};
use kube::{Api, Client, ResourceExt as _};

use super::client::{CALL_LIMIT, CallError, timed};
use super::watched::Watched;
use crate::api::Pod;
use crate::decide::Effect;
use crate::memory::Outcome;
use crate::name::{Key, Uid};

/// Writes what an effect asks for. `None` if it asks for no write.
pub async fn execute(client: &Client, subject: &Key, effect: Effect) -> Option<Outcome> {
    match effect {
        Effect::Nothing | Effect::Expand { .. } => None,
        Effect::Create(pod) => Some(create(client, subject, &pod).await),
        Effect::Delete { name, uid, replaced } => Some(match delete(client, subject, &name, &uid).await {
            Ok(held) => Outcome::Deleted { uid, held, replaced },
            Err(error) => Outcome::Unanswered(error.to_string()),
        }),
    }
}

/// A create never overwrites: a pod of that name, ours or not, is found by the watch.
async fn create(client: &Client, subject: &Key, pod: &serde_json::Value) -> Outcome {
    let path = format!("/api/v1/namespaces/{}/pods", subject.namespace);
    let parameters = PostParams {
        field_manager: Some("first-consumer".into()),
        ..PostParams::default()
    };
    let request = match Request::new(path).create(&parameters, pod.to_string().into_bytes()) {
        Ok(request) => request,
        Err(error) => return Outcome::Refused(error.to_string()),
    };
    match timed(CALL_LIMIT, client.request::<Watched<Pod>>(request)).await {
        Ok(Watched { view: Ok(pod), .. }) => Outcome::Created(Box::new(pod)),
        Ok(Watched { view: Err(fault), .. }) => Outcome::Unanswered(fault.to_string()),
        // Quota, limits, pod security, admission, priority class: the same pod would be refused again.
        Err(error) if matches!(error.code(), Some(400 | 403 | 422)) => Outcome::Refused(error.to_string()),
        Err(error) => Outcome::Unanswered(error.to_string()),
    }
}

/// Deletes the pod if it is still the one that was decided about; one that is gone is deleted already. A conflict may be
/// the name of another pod by now, or anything else: the watch will show which, and it is decided again.
/// Whether a finalizer holds it.
async fn delete(client: &Client, subject: &Key, name: &str, uid: &Uid) -> Result<bool, CallError> {
    let parameters = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_string()),
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    };
    let api = Api::<PartialObjectMeta<k8s_openapi::api::core::v1::Pod>>::namespaced(client.clone(), &subject.namespace);
    match timed(CALL_LIMIT, api.delete(name, &parameters)).await {
        // The answer is the pod as it was; one without finalizers is gone by now.
        Ok(answer) => Ok(answer.left().is_some_and(|pod| !pod.finalizers().is_empty())),
        Err(error) if error.code() == Some(404) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::*;
    use crate::cluster::test_server::{TestServer, status};

    async fn deleted(code: u16) -> Outcome {
        let server = TestServer::start(move |_| status(code, "no")).await;
        let client = Client::try_from(server.config()).unwrap();
        let effect = Effect::Delete {
            name: "first-consumer-db-1".to_owned(),
            uid: "u-1".into(),
            replaced: false,
        };
        let outcome = execute(&client, &Key::new("ns", "db"), effect).await;
        let asked = &server.requests()[0];
        assert_eq!(
            (&asked.method, &asked.body["preconditions"]["uid"]),
            (&Method::DELETE, &"u-1".into())
        );
        outcome.expect("a write")
    }

    #[tokio::test]
    async fn a_delete_that_meets_a_conflict_has_not_deleted() {
        assert!(matches!(deleted(409).await, Outcome::Unanswered(text) if text.contains("409")));
        assert!(matches!(deleted(500).await, Outcome::Unanswered(_)));
        assert!(matches!(deleted(404).await, Outcome::Deleted { held: false, .. }));
    }
}

//! Has KubeVirt expand the template of a VM that names an instancetype or preference.

use std::time::Duration;

use kube::Client;
use kube::core::Request;

use super::client::{CALL_LIMIT, CallError, timed};
use super::watched::Watched;
use crate::api::{View as _, VirtualMachine};
use crate::memory::Expanding;

/// Asks virt-api, through the API server, what the VM's template amounts to. It answers about the VM that is stored; if
/// that is another one by now, there is no answer.
pub async fn expand(client: &Client, vm: &VirtualMachine) -> Expanding {
    let forbidden = |error: CallError| Expanding::Refused(error.to_string());
    expand_for(client, vm, CALL_LIMIT).await.unwrap_or_else(forbidden)
}

/// As [`expand`], within a limit, for somebody who may be forbidden to ask, which says nothing of the VM: an error then.
pub async fn expand_for(client: &Client, vm: &VirtualMachine, limit: Duration) -> Result<Expanding, CallError> {
    let subject = vm.meta().key();
    let path = format!(
        "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines",
        subject.namespace
    );
    let request = match Request::new(path).get_subresource("expand-spec", &subject.name) {
        Ok(request) => request,
        Err(error) => return Ok(Expanding::Refused(error.to_string())),
    };
    Ok(
        match timed(limit, client.request::<Watched<VirtualMachine>>(request)).await {
            Ok(Watched { view: Ok(answer), .. }) if !answer.is_as(vm) => {
                Expanding::Unanswered("the VM was edited while its template was expanded".to_owned())
            }
            Ok(Watched { view: Ok(vm), .. }) => Expanding::Expanded(Box::new(vm.template().clone())),
            Ok(Watched { view: Err(fault), .. }) => Expanding::Unanswered(fault.to_string()),
            Err(error) if error.code() == Some(403) => return Err(error),
            Err(error) if error.code().is_some_and(definite) => Expanding::Refused(error.to_string()),
            Err(error) => Expanding::Unanswered(error.to_string()),
        },
    )
}

/// Whether the same question would get the same answer. Not found is the API of an absent virt-api: we know that the VM
/// is there.
fn definite(code: u16) -> bool {
    matches!(code, 400..500) && !matches!(code, 401 | 404 | 408 | 409 | 429)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::client::{Clients, Observer};
    use crate::cluster::test_server::{Answer, Asked, TestServer, status};

    fn vm(metadata: &Value) -> VirtualMachine {
        let mut vm = json!({"metadata": metadata, "spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}});
        vm["metadata"]["namespace"] = json!("ns");
        vm["metadata"]["name"] = json!("db");
        serde_json::from_value(vm).unwrap()
    }

    async fn asked(answer: impl Fn() -> Answer + Send + Sync + 'static) -> (Expanding, String) {
        let server = TestServer::start(move |_| answer()).await;
        let clients = Clients::from_config(&server.config(), &(Arc::new(|_, _| ()) as Observer)).unwrap();
        let outcome = expand(&clients.write, &vm(&json!({"uid": "one", "generation": 1}))).await;
        (outcome, server.requests()[0].path.clone())
    }

    #[tokio::test]
    async fn the_expanded_template_comes_back() {
        let vm = json!({"kind": "VirtualMachine", "metadata": {"name": "db"},
            "spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}});
        let (outcome, path) = asked(move || (200, vm.to_string())).await;
        let Expanding::Expanded(template) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(&*template.spec.json, r#"{"nodeSelector":{"zone":"b"}}"#);
        assert_eq!(
            path.trim_end_matches('?'),
            "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachines/db/expand-spec"
        );
    }

    /// What is edited and edited back while virt-api looks must not be taken for what we asked about.
    #[tokio::test]
    async fn an_answer_about_another_state_of_the_vm_is_none() {
        for (metadata, counts) in [
            (json!({"uid": "one", "generation": 1}), true),
            (json!({}), true),
            (json!({"uid": "one", "generation": 2}), false),
            (json!({"uid": "two", "generation": 1}), false),
        ] {
            let answer = json!({"kind": "VirtualMachine", "metadata": metadata, "spec": {"template": {"spec": {}}}});
            let (outcome, _) = asked(move || (200, answer.to_string())).await;
            assert_eq!(
                matches!(outcome, Expanding::Expanded(_)),
                counts,
                "{metadata}: {outcome:?}"
            );
            assert_eq!(
                matches!(outcome, Expanding::Unanswered(_)),
                !counts,
                "{metadata}: {outcome:?}"
            );
        }
    }

    #[tokio::test]
    async fn only_a_definite_answer_is_a_refusal() {
        for (code, refused) in [
            (400, true),
            (403, true),
            (422, true),
            (404, false),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let (outcome, _) = asked(move || status(code, "no")).await;
            assert_eq!(matches!(outcome, Expanding::Refused(_)), refused, "{code}: {outcome:?}");
        }
    }

    /// Whoever may not ask has learned nothing of the VM.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_person_may_be_forbidden_to_ask_and_says_how_long_to_wait() {
        let asked = async |answer: fn(&Asked) -> Answer| {
            let server = TestServer::start(answer).await;
            let clients = Clients::from_config(&server.config(), &(Arc::new(|_, _| ()) as Observer)).unwrap();
            let limit = Duration::from_millis(50);
            expand_for(&clients.write, &vm(&json!({})), limit).await
        };
        let forbidden = asked(|_| status(403, "no")).await;
        assert_eq!(forbidden.unwrap_err().code(), Some(403));
        let refused = asked(|_| status(422, "no")).await;
        assert!(matches!(refused, Ok(Expanding::Refused(_))), "{refused:?}");
        let late = asked(|_| {
            std::thread::sleep(Duration::from_millis(400));
            status(422, "no")
        });
        assert!(matches!(late.await, Ok(Expanding::Unanswered(text)) if text.contains("no answer")));
    }
}

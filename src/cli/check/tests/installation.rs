//! Rights, the installation, and whether its controller works.

use super::*;

/// Takes one right away.
fn refuse(facts: &mut Facts, right: &str) {
    let found = facts.rights.iter_mut().find(|(one, _)| one.to_string() == right);
    found.expect(right).1 = Ok(false);
}

#[test]
fn what_is_wrong_with_the_installation_is_found() {
    each_fails(&[
        (
            Wrong,
            "the controller may not list nodes",
            "kubectl apply -k manifests/base",
            |facts| refuse(facts, "list nodes"),
        ),
        (
            Doubtful,
            "cannot be checked: forbidden",
            "subjectaccessreviews",
            |facts| {
                facts.rights[3].1 = Err("forbidden".into());
            },
        ),
        (
            Wrong,
            "you may not create clusterroles.rbac.authorization.k8s.io",
            "let an administrator",
            |facts| {
                facts.pre = true;
                facts.rights = installs();
                refuse(facts, "create clusterroles.rbac.authorization.k8s.io");
            },
        ),
        (
            Wrong,
            "bind clusterroles.rbac.authorization.k8s.io; or else you need all rights",
            "let an administrator",
            |facts| {
                facts.pre = true;
                facts.rights = installs();
                refuse(facts, "bind clusterroles.rbac.authorization.k8s.io");
            },
        ),
        (
            Wrong,
            "is not installed: there is no Deployment",
            "kubectl apply -k",
            |facts| {
                facts.deployments = Ok(vec![]);
                facts.leases = Ok(vec![]);
            },
        ),
        (
            Wrong,
            "2 installations serve the same VMs",
            "kubectl delete deployment/first-consumer -n second",
            |facts| {
                facts.deployments = Ok(vec![deployment("first-consumer", "a"), deployment("second", "")]);
                facts.leases = Ok(vec![lease("first-consumer", "a"), lease("second", "b")]);
            },
        ),
        (
            Doubtful,
            "x holds the Lease of a controller in second",
            "stop what runs there by that name: kubectl get pods -n second",
            |facts| {
                facts.leases = Ok(vec![lease("first-consumer", "a"), lease("second", "x")]);
            },
        ),
    ]);
}

#[test]
fn a_controller_that_does_not_work_is_found() {
    each_fails(&[
        (
            Doubtful,
            "nothing runs: deployment/first-consumer -n first-consumer asks for no replica",
            "kubectl scale deployment/first-consumer -n first-consumer --replicas=2",
            |facts| facts.deployments = Ok(one(&running("first-consumer", "", 0, 0))),
        ),
        (
            Doubtful,
            "no replica of deployment/first-consumer -n first-consumer is ready",
            "kubectl describe pods -n first-consumer -l app.kubernetes.io/name=first-consumer",
            |facts| facts.deployments = Ok(one(&running("first-consumer", "", 2, 0))),
        ),
        (
            Doubtful,
            "no replica leads in first-consumer",
            "kubectl logs -n first-consumer -l app.kubernetes.io/name=first-consumer",
            |facts| facts.leases = Ok(vec![]),
        ),
        (
            Doubtful,
            "no replica leads in first-consumer",
            "kubectl logs",
            |facts| {
                facts.leases = Ok(vec![lease("first-consumer", ""), lease("old", "")]);
            },
        ),
        (
            Doubtful,
            "a leads in first-consumer and has not said so for more than a minute",
            "kubectl logs",
            |facts| facts.leases = Ok(vec![renewed("first-consumer", "a", "2025-12-31T23:58:54Z")]),
        ),
    ]);
}

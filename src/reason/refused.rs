//! What a person can do when the API server has refused a pod: its words say who forbids it.

/// What to do about a refusal in these words, in a Namespace: an object or a command is named.
pub(super) fn next(words: &str, namespace: &str) -> String {
    if let Some(quota) = super::quota(words) {
        return format!("raise it: kubectl edit resourcequota/{quota} -n {namespace}");
    }
    if let Some(quota) = between(words, "failed quota: ", ":") {
        return format!("see what it asks for: kubectl describe resourcequota/{quota} -n {namespace}");
    }
    if let Some(class) = between(words, "no PriorityClass with name ", " was found") {
        return format!("create priorityclass/{class}, or ask for one that exists: kubectl get priorityclass");
    }
    if let Some(policy) = between(words, "ValidatingAdmissionPolicy '", "'") {
        return format!("see what it asks for: kubectl get validatingadmissionpolicy/{policy} -o yaml");
    }
    if let Some(webhook) = between(words, "admission webhook \"", "\" denied") {
        return format!("ask who runs the webhook {webhook}: kubectl get validatingwebhookconfigurations");
    }
    if words.contains("violates PodSecurity") {
        return format!("see which profile it enforces: kubectl get namespace/{namespace} --show-labels");
    }
    if ["Pod", "Container"]
        .iter()
        .any(|of| words.contains(&format!(" per {of} is ")))
    {
        return format!("widen the limits: kubectl describe limitrange -n {namespace}");
    }
    format!("kubectl describe quota,limitrange -n {namespace}")
}

/// The quota that a refusal names (Kubernetes `admission/plugin/resourcequota`: `exceeded quota: NAME, requested: ...`).
#[must_use]
pub fn quota(words: &str) -> Option<&str> {
    between(words, "exceeded quota: ", ",")
}

/// What stands between the first `before` and the next `behind`.
fn between<'a>(words: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = words.split_once(before)?;
    let (name, _) = rest.split_once(behind)?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the words of Kubernetes 1.36 and, for the webhook, of `apiserver/pkg/admission/plugin/webhook/errors`.
    #[test]
    fn whoever_has_refused_it_is_named() {
        for (words, names) in [
            (
                "exceeded quota: small, requested: requests.memory=4Gi, used: 0",
                "edit resourcequota/small -n ns",
            ),
            (
                "failed quota: small: must specify limits.cpu for: main",
                "describe resourcequota/small -n ns",
            ),
            (
                "no PriorityClass with name gone was found",
                "create priorityclass/gone,",
            ),
            (
                "ValidatingAdmissionPolicy 'sunday' with binding 'all' denied request: not on a Sunday",
                "validatingadmissionpolicy/sunday -o yaml",
            ),
            (
                "admission webhook \"pods.example.com\" denied the request: no",
                "webhook pods.example.com:",
            ),
            (
                "violates PodSecurity \"restricted:latest\": seccompProfile",
                "get namespace/ns --show-labels",
            ),
            (
                "maximum memory usage per Pod is 1Gi, but limit is 4Gi",
                "describe limitrange -n ns",
            ),
            (
                "[maximum cpu usage per Container is 1, but limit is 2]",
                "describe limitrange -n ns",
            ),
            ("something else", "kubectl describe quota,limitrange -n ns"),
        ] {
            let words = format!("pods \"first-consumer-db\" is forbidden: {words} (HTTP 403)");
            let next = next(&words, "ns");
            assert!(next.contains(names) && next.contains("kubectl "), "{words}: {next}");
        }
    }
}

//! Asks the API server what `check` judges; everything as the user, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::facts::{Facts, NEEDED, Read};
use super::rights::{self, Need, Right};
use crate::api::{Deployment, Lease, OUR_LABEL, View};
use crate::cli::Failure;
use crate::clock::Clock;
use crate::cluster::client::{CallError, timed};
use crate::cluster::snapshot::{ListError, Objects, objects};
use crate::leader::LEASE;

/// The account that the shipped Deployment has.
const ACCOUNT: &str = "first-consumer";

/// Everything, or that the cluster can't be reached. `limit` is for one request.
pub(super) async fn gather(client: &Client, controllers: &str, pre: bool, limit: Duration) -> Result<Facts, Failure> {
    let unreachable = |error: CallError| Failure::cluster(error.to_string());
    let kubernetes = timed(limit, client.apiserver_version()).await.map_err(unreachable)?;
    let groups = timed(limit, client.list_api_groups()).await.map_err(unreachable)?;
    let versions = groups.groups.into_iter().map(|group| {
        let served = group.versions.into_iter().map(|version| version.version);
        (group.name, served.collect())
    });
    let versions: BTreeMap<String, Vec<String>> = versions.collect();
    let (kubevirts, cdis, cdi_configs) = tokio::join!(
        list(client, None, limit),
        list(client, None, limit),
        list(client, None, limit)
    );
    let (classes, drivers, namespaces) = tokio::join!(
        list(client, None, limit),
        list(client, None, limit),
        list(client, None, limit)
    );
    let (vms, instances, deployments, leases) = tokio::join!(
        list(client, None, limit),
        list(client, None, limit),
        list(client, None, limit),
        list(client, None, limit)
    );
    let deployments = deployments.map(ours);
    let leases = leases.map(|mut leases: Vec<Lease>| {
        leases.retain(|lease| &*lease.meta().name == LEASE);
        leases
    });
    let account = deployments
        .as_ref()
        .ok()
        .and_then(|all: &Vec<Deployment>| all.iter().find(|found| &*found.meta().namespace == controllers))
        .map_or(ACCOUNT, Deployment::service_account)
        .to_owned();
    let needed = if pre {
        rights::of_installer(controllers)
    } else {
        rights::of_controller(controllers).into_iter().map(Need::from).collect()
    };
    let user = (!pre).then(|| format!("system:serviceaccount:{controllers}:{account}"));
    let asked = needed
        .into_iter()
        .map(async |need| {
            let met = met(client, &need, user.as_deref(), limit).await;
            (need.right, met)
        })
        .collect::<Vec<_>>();
    Ok(Facts {
        pre,
        controllers: controllers.to_owned(),
        kubernetes: kubernetes.git_version,
        resources: resources(client, &versions, limit).await,
        versions,
        kubevirts,
        cdis,
        cdi_configs,
        rights: join_all(asked).await,
        classes,
        drivers,
        namespaces,
        vms,
        vmis: instances,
        deployments,
        leases,
        now: Clock::default().now(),
    })
}

/// Objects of a kind; none of a kind that does not exist.
async fn list<V: View>(client: &Client, namespace: Option<&str>, limit: Duration) -> Read<Vec<V>> {
    match objects(client, namespace, limit).await {
        Err(ListError(_, error)) if error.code() == Some(404) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
        Ok(Objects { readable, unreadable }) => match unreadable.first() {
            Some(first) => Err(first.to_string()),
            None => Ok(readable),
        },
    }
}

fn ours(mut deployments: Vec<Deployment>) -> Vec<Deployment> {
    deployments.retain(|deployment| deployment.meta().label(OUR_LABEL.0) == Some(OUR_LABEL.1));
    deployments
}

/// The resources of the needed versions that are served.
async fn resources(
    client: &Client,
    versions: &BTreeMap<String, Vec<String>>,
    limit: Duration,
) -> BTreeMap<String, Read<BTreeSet<String>>> {
    let mut resources = BTreeMap::new();
    for needed in NEEDED {
        let served = versions.get(needed.group);
        if !served.is_some_and(|served| served.iter().any(|version| version == needed.version)) {
            continue;
        }
        let name = needed.group_version();
        let list = timed(limit, client.list_api_group_resources(&name)).await;
        let names = list.map(|list| list.resources.into_iter().map(|resource| resource.name).collect());
        resources.insert(name, names.map_err(|error| error.to_string()));
    }
    resources
}

/// Whether a user, or whoever asks, has the right, or what does instead.
async fn met(client: &Client, need: &Need, user: Option<&str>, limit: Duration) -> Read<bool> {
    let direct = allowed(client, &need.right, user, limit).await?;
    if direct || need.instead.is_empty() {
        return Ok(direct);
    }
    let asked = need.instead.iter().map(|right| allowed(client, right, user, limit));
    let answers: Read<Vec<bool>> = join_all(asked).await.into_iter().collect();
    Ok(answers?.into_iter().all(|allowed| allowed))
}

/// Whether a user, or whoever asks, may do it.
async fn allowed(client: &Client, right: &Right, user: Option<&str>, limit: Duration) -> Read<bool> {
    let attributes = Some(right.attributes());
    let params = PostParams::default();
    let answer = if let Some(user) = user {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups: Some(groups(user)),
                resource_attributes: attributes,
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(client.clone());
        let answer = timed(limit, reviews.create(&params, &review)).await;
        answer.map(|answer| answer.status)
    } else {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: attributes,
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews = Api::<SelfSubjectAccessReview>::all(client.clone());
        let answer = timed(limit, reviews.create(&params, &review)).await;
        answer.map(|answer| answer.status)
    };
    let status = answer.map_err(|error| error.to_string())?;
    Ok(status.is_some_and(|status| status.allowed))
}

/// The groups that the API server puts a ServiceAccount in (Kubernetes `apiserver/pkg/authentication/serviceaccount`).
fn groups(user: &str) -> Vec<String> {
    let mut groups = vec!["system:authenticated".to_owned(), "system:serviceaccounts".to_owned()];
    if let Some(namespace) = user.split(':').nth(2) {
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    groups
}

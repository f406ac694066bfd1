//! Requests and limits: of one container as they are built up, and of all of a launcher's containers together.

use std::collections::BTreeMap;

use crate::quantity::Quantity;

/// Amounts by resource name.
pub(super) type List = BTreeMap<String, Quantity>;

/// The compute container's resources while they are built: what the user gave (and rules changed), and what was
/// calculated, which yields to the former.
#[derive(Clone, Debug, Default)]
pub(super) struct Compute {
    pub user_requests: List,
    pub user_limits: List,
    pub calculated_requests: List,
    pub calculated_limits: List,
}

impl Compute {
    /// The resources in the end: the user's over the calculated.
    ///
    /// Mirrors: pkg/virt-controller/services/renderresources.go::ResourceRequirements
    pub fn finished(self) -> Container {
        let over = |mut calculated: List, user: List| {
            calculated.extend(user);
            calculated
        };
        Container {
            requests: over(self.calculated_requests, self.user_requests),
            limits: over(self.calculated_limits, self.user_limits),
            role: Role::Main,
        }
    }

    /// One more of a device, in requests and limits. A device that the user asked for by name stays as it was.
    ///
    /// Mirrors: pkg/virt-controller/services/renderresources.go::requestResource
    pub fn take_one(&mut self, device: &str) {
        for (calculated, user) in [
            (&mut self.calculated_requests, &self.user_requests),
            (&mut self.calculated_limits, &self.user_limits),
        ] {
            let so_far = user.get(device).or_else(|| calculated.get(device)).copied();
            let more = so_far.unwrap_or_default().plus(Quantity::units(1));
            calculated.insert(device.to_owned(), more);
        }
    }
}

/// What one container of the launcher asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Container {
    pub requests: List,
    pub limits: List,
    pub role: Role,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    /// Beside the others.
    #[default]
    Main,
    /// Before the main ones, and on beside them.
    Sidecar,
    /// Before the main ones, alone but for sidecars that came before it.
    Init,
}

/// What the scheduler and quotas count for a pod: main containers and sidecars together, or an init container with the
/// sidecars before it if that is more. A request that is not given is the limit. Containers in pod order, init
/// containers (and sidecars) among themselves too.
///
/// Mirrors: staging/src/k8s.io/component-helpers/resource/helpers.go::PodRequests
pub(super) fn effective(containers: &[Container]) -> (List, List) {
    let requests = containers.iter().map(|container| {
        let mut requests = container.limits.clone();
        requests.extend(container.requests.iter().map(|(name, amount)| (name.clone(), *amount)));
        (container.role, requests)
    });
    let limits = containers
        .iter()
        .map(|container| (container.role, container.limits.clone()));
    (total(requests), total(limits))
}

fn total(containers: impl Iterator<Item = (Role, List)>) -> List {
    let (mut together, mut sidecars, mut most) = (List::new(), List::new(), List::new());
    for (role, amounts) in containers {
        match role {
            Role::Main => add(&mut together, &amounts),
            Role::Sidecar => {
                add(&mut together, &amounts);
                add(&mut sidecars, &amounts);
            }
            Role::Init => {
                let mut here = sidecars.clone();
                add(&mut here, &amounts);
                raise(&mut most, here);
            }
        }
    }
    raise(&mut most, together);
    most
}

fn add(sum: &mut List, amounts: &List) {
    for (name, amount) in amounts {
        match sum.get_mut(name) {
            Some(sum) => *sum = sum.plus(*amount),
            None => {
                sum.insert(name.clone(), *amount);
            }
        }
    }
}

fn raise(most: &mut List, amounts: List) {
    for (name, amount) in amounts {
        let most = most.entry(name).or_insert(amount);
        *most = amount.max(*most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(role: Role, request: i64, limit: Option<i64>) -> Container {
        let list = |amount| List::from([("cpu".to_owned(), Quantity::milli(amount))]);
        Container {
            requests: list(request),
            limits: limit.map(list).unwrap_or_default(),
            role,
        }
    }

    #[test]
    fn an_init_container_counts_on_top_of_the_sidecars_before_it_and_only_if_it_is_more() {
        let main = container(Role::Main, 100, None);
        let sidecar = container(Role::Sidecar, 5, Some(15));
        let of = |containers: &[Container]| effective(containers).0["cpu"];
        assert_eq!(of(&[main.clone(), sidecar.clone()]), Quantity::milli(105));
        let small = container(Role::Init, 10, None);
        assert_eq!(of(&[main.clone(), sidecar.clone(), small]), Quantity::milli(105));
        let large = container(Role::Init, 500, None);
        assert_eq!(
            of(&[main.clone(), sidecar.clone(), large.clone()]),
            Quantity::milli(505)
        );
        assert_eq!(of(&[main, large, sidecar]), Quantity::milli(500));
    }

    #[test]
    fn a_missing_request_is_the_limit() {
        let mut container = container(Role::Main, 1, Some(15));
        container.requests.clear();
        let (requests, limits) = effective(&[container]);
        assert_eq!(requests, limits);
    }
}

//! Halted peers (design section 8): where the disks of subjects are that ours must not run beside.
//!
//! The scheduler keeps pods apart that exist. Ours are gone in half a second, so their choices have to be remembered for
//! it: each becomes a domain that the next pod keeps out of.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::{Meta, Node, PersistentVolumeClaim, View as _};
use crate::index::{Index, Peer, Standing, own_subject};
use crate::name::{Key, a_few, pod_name};
use crate::placement::{Domains, HASH_VERSION};
use crate::pod::Marks;
use crate::reason::KEPT_APART;

/// So many peers, and so many of their places, are named to a person.
const SHOWN: usize = 5;

/// What required pod anti-affinity says of a subject's surroundings, ours against others and theirs against us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// All of them but those that the scheduler sees, or that are being deleted.
    pub others: BTreeSet<Key>,
    /// Where it must not go.
    pub domains: Domains,
    /// Whose disks are there.
    pub settled: BTreeSet<Key>,
    /// A peer whose pod the scheduler may still place where the subject's own disks are: it was made before these had
    /// their node.
    pub unaware: Option<Key>,
}

impl Peers {
    /// Looks around. `waits` says whether the subject has a pod or needs one; otherwise nobody asks.
    #[must_use]
    pub fn of(index: &Index, subject: &Key, waits: bool) -> Self {
        let mut peers = Self::default();
        if !waits {
            return peers;
        }
        let mut own = None;
        for Peer {
            subject: other,
            topology_key,
        } in index.peers(subject)
        {
            // What runs, the scheduler sees; what is being deleted will not run again.
            let launched = || index.launchers(&other).any(|pod| pod.live());
            if launched() || deleting(index, &other) {
                continue;
            }
            peers.others.insert(other.clone());
            let theirs = Disks::of(index, &other);
            let domains = theirs.domains(index, &topology_key);
            if !domains.is_empty() {
                peers.settled.insert(other.clone());
                let forbidden = peers.domains.entry(Arc::clone(&topology_key)).or_default();
                forbidden.extend(domains);
            }
            let own = own.get_or_insert_with(|| Disks::of(index, subject));
            if theirs.needs && peers.unaware.is_none() && !aware(index, &other, &topology_key, own) {
                peers.unaware = Some(other);
            }
        }
        peers
    }

    /// Why the scheduler was told to keep out of places, for a person; empty if it was not.
    #[must_use]
    pub fn explanation(&self) -> String {
        let Some(some) = a_few(&self.settled, SHOWN) else {
            return String::new();
        };
        let place = |(key, values): (&Arc<str>, &BTreeSet<Arc<str>>)| {
            let values = a_few(values, SHOWN).unwrap_or_default();
            format!("{key} {values}")
        };
        let places = self.domains.iter().map(place).collect::<Vec<_>>().join(" and ");
        format!("kept out of {places}, where the disks of {some} are, which must not run beside it {KEPT_APART}")
    }
}

fn deleting(index: &Index, subject: &Key) -> bool {
    let vm = index.vm(subject).map(|vm| vm.meta());
    let vmi = index.vmi(subject).map(|vmi| vmi.meta());
    vm.into_iter().chain(vmi).any(Meta::terminating)
}

/// Whether nothing of the peer is waiting for the scheduler that may end where our disks are.
fn aware(index: &Index, peer: &Key, topology_key: &str, own: &Disks<'_>) -> bool {
    let knows = |known: &Domains| {
        let known = known.get(topology_key);
        let own = own.domains(index, topology_key);
        own.iter()
            .all(|domain| known.is_some_and(|known| known.contains(domain)))
    };
    let Some(pod) = index.pod(&peer.sibling(&pod_name(peer))) else {
        // One may be on its way to the API server.
        return !matches!(index.standing(peer), Some(Standing::Acting(domains)) if !knows(domains));
    };
    if own_subject(pod).as_ref() != Some(peer) || pod.meta().terminating() || !pod.live() {
        return true;
    }
    let marks = Marks::read(pod.meta());
    // A pod of another version is never compared and never replaced; nothing would come of waiting for it.
    !marks.placement_hash.starts_with(HASH_VERSION) || knows(&marks.domains)
}

/// The boot claims of a subject, as far as they say where it can run.
struct Disks<'a> {
    placed: Vec<&'a PersistentVolumeClaim>,
    /// Whether one of them needs a first consumer.
    needs: bool,
}

impl<'a> Disks<'a> {
    fn of(index: &'a Index, subject: &Key) -> Self {
        let mut disks = Self {
            placed: Vec::new(),
            needs: false,
        };
        let template = index.template(subject);
        let volumes = template.iter().flat_map(|template| &template.spec.volumes);
        for name in volumes
            .filter(|volume| !volume.hotpluggable)
            .filter_map(|volume| volume.claim())
        {
            let Some(claim) = index.claim(&subject.sibling(name)) else {
                continue;
            };
            let read = index.read_claim(claim);
            disks.needs |= read.needs;
            if read.placed {
                disks.placed.push(claim);
            }
        }
        disks
    }

    /// The values of a node label where these disks are: of the nodes that were selected for them, else that of all
    /// nodes that reach the volume, if it is one.
    fn domains(&self, index: &Index, topology_key: &str) -> BTreeSet<Arc<str>> {
        let of_node = |node: &Arc<Node>| node.metadata.labels.get(topology_key).cloned();
        let mut domains = BTreeSet::new();
        for claim in &self.placed {
            let selected = claim
                .selected_node()
                .and_then(|node| index.node(node))
                .and_then(of_node);
            if selected.is_some() {
                domains.extend(selected);
                continue;
            }
            let volume = claim
                .spec
                .volume_name
                .as_deref()
                .and_then(|volume| index.volume(volume));
            let Some(volume) = volume.filter(|volume| volume.bound_to_nodes()) else {
                continue;
            };
            let near = |node: &&Arc<Node>| volume.reachable_from(&node.metadata.name, &node.metadata.labels);
            let mut domain: BTreeSet<_> = index.nodes().filter(near).filter_map(of_node).collect();
            if domain.len() == 1 {
                domains.append(&mut domain);
            }
        }
        domains
    }
}

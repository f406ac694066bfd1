//! Subjects that look at each other: they share a claim, or one must not run beside the other.
//!
//! Required pod anti-affinity is found by labels. Nearly every term asks for one label in particular; the subjects that
//! have it are the only ones to look at. Where no subject has such a term, nothing is kept and nothing is searched.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{Changed, Index, Link, Links};
use crate::api::{AntiAffinityTerm, Template};
use crate::name::Key;
use crate::placement::Domains;

/// What our own last turn says of a subject, where the objects do not show it yet or never will.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A pod of it waits for the scheduler, or is being created; it keeps out of these domains.
    Acting(Domains),
    /// It would act, and can't for now.
    HeldBack,
    /// It would act, and can't until somebody changes something, or for minutes: nobody waits for it.
    Stuck,
}

/// A subject that must not run in the same domain of a topology as another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// The subject.
    pub subject: Key,
    /// The node label whose values are the domains.
    pub topology_key: Arc<str>,
}

/// The index behind [`Index::peers`]. It may name too many subjects, never too few.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    /// The labels that terms ask for.
    labels: HashMap<Arc<str>, Asked>,
    /// Subjects with a term that asks for no label in particular.
    wary: Links<()>,
}

/// A label that terms ask for.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// Each value to the subjects with a term that asks for it.
    avoiders: Links<Arc<str>>,
    /// Each value to the subjects that have it.
    bearers: Links<Arc<str>>,
}

impl Neighbours {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.wary.0.is_empty()
    }

    /// Forgets labels that nobody asks for any more. Not while an object is being exchanged for its next version, which
    /// most often asks for the same.
    pub(super) fn sweep(&mut self) {
        self.labels.retain(|_, asked| !asked.avoiders.0.is_empty());
    }
}

impl Index {
    /// Enters what the template says of neighbours, or takes it out.
    pub(super) fn link_neighbour(&mut self, subject: &Key, template: &Template, link: Link) {
        for term in &template.spec.anti_affinity {
            let Some((key, values)) = term.anchor() else {
                self.neighbours.wary.set((), subject.clone(), link);
                continue;
            };
            if link == Link::Enter && !self.neighbours.labels.contains_key(key) {
                let asked = Asked {
                    bearers: self.bearers_of(key),
                    ..Asked::default()
                };
                self.neighbours.labels.insert(Arc::clone(key), asked);
            }
            if let Some(asked) = self.neighbours.labels.get_mut(key) {
                for value in values {
                    asked.avoiders.set(Arc::clone(value), subject.clone(), link);
                }
            }
        }
        let labels = launcher_labels(subject, template);
        for (key, asked) in &mut self.neighbours.labels {
            if let Some(value) = labels(key) {
                asked.bearers.set(value.into(), subject.clone(), link);
            }
        }
    }

    /// Who has which value of a label that nobody has asked for before.
    fn bearers_of(&self, key: &str) -> Links<Arc<str>> {
        let mut bearers = Links::default();
        let vms = self
            .vms
            .iter()
            .map(|(subject, vm)| (subject, Cow::Borrowed(vm.template())));
        let instances = self
            .vmis
            .iter()
            .map(|(subject, vmi)| (subject, Cow::Owned(vmi.template())));
        for (subject, template) in vms.chain(instances) {
            if let Some(value) = launcher_labels(subject, &template)(key) {
                bearers.set(value.into(), subject.clone(), Link::Enter);
            }
        }
        bearers
    }

    /// How many labels terms ask for.
    #[cfg(test)]
    pub(crate) fn labels_asked_for(&self) -> usize {
        self.neighbours.labels.len()
    }

    /// The subjects that required pod anti-affinity keeps apart from this one: by its own terms or by theirs.
    #[must_use]
    pub fn peers(&self, subject: &Key) -> BTreeSet<Peer> {
        let mut peers = BTreeSet::new();
        if self.neighbours.is_empty() {
            return peers;
        }
        let Some(template) = self.template(subject) else {
            return peers;
        };
        let mut add = |other: &Key, term: &AntiAffinityTerm| {
            peers.insert(Peer {
                subject: other.clone(),
                topology_key: Arc::clone(&term.topology_key),
            });
        };
        for term in &template.spec.anti_affinity {
            let candidates = self.bearers_for(term);
            for other in candidates.into_iter().filter(|other| *other != subject) {
                if self
                    .template(other)
                    .is_some_and(|theirs| self.avoids(term, (subject, &template), (other, &theirs)))
                {
                    add(other, term);
                }
            }
        }
        for other in self.avoiders_of(subject, &template) {
            let Some(theirs) = self.template(other).filter(|_| other != subject) else {
                continue;
            };
            for term in &theirs.spec.anti_affinity {
                if self.avoids(term, (other, &theirs), (subject, &template)) {
                    add(other, term);
                }
            }
        }
        peers
    }

    /// Whether a term of one subject's pod selects the other's.
    fn avoids(&self, term: &AntiAffinityTerm, one: (&Key, &Template), other: (&Key, &Template)) -> bool {
        let (home, namespace) = (&one.0.namespace, &other.0.namespace);
        let found = self.namespace(namespace);
        let of_namespace = |key: &str| found.and_then(|namespace| namespace.metadata.label(key));
        term.reaches(home, namespace, &of_namespace)
            && term.selects(&launcher_labels(one.0, one.1), &launcher_labels(other.0, other.1))
    }

    /// The subjects that the term may be about.
    fn bearers_for(&self, term: &AntiAffinityTerm) -> BTreeSet<&Key> {
        match term.anchor() {
            Some((key, values)) => {
                let asked = self.neighbours.labels.get(key).into_iter();
                asked
                    .flat_map(|asked| values.iter().flat_map(|value| asked.bearers.of(value)))
                    .collect()
            }
            None => self.vms.keys().chain(self.vmis.keys()).collect(),
        }
    }

    /// The subjects with a term that may be about this one.
    fn avoiders_of(&self, subject: &Key, template: &Template) -> BTreeSet<&Key> {
        let neighbours = &self.neighbours;
        let labels = launcher_labels(subject, template);
        let named = neighbours.labels.iter().filter_map(|(key, asked)| {
            let value = labels(key)?;
            Some(asked.avoiders.of(&value.into()))
        });
        named.flatten().chain(neighbours.wary.of(&())).collect()
    }

    /// The other subjects that name a claim.
    pub fn sharers<'a>(&'a self, subject: &'a Key, claim: &str) -> impl Iterator<Item = &'a Key> {
        let named = self.subjects_by_claim.of(&subject.sibling(claim));
        named.filter(move |other| *other != subject)
    }

    /// The subjects whose decision looks at this one.
    pub(super) fn onlookers(&self, subject: &Key, changed: &mut Changed) {
        let volumes = self.template(subject);
        let volumes = volumes.iter().flat_map(|template| &template.spec.volumes);
        for claim in volumes.filter_map(|volume| volume.claim()) {
            changed.extend(self.sharers(subject, claim).cloned());
        }
        changed.extend(self.peers(subject).into_iter().map(|peer| peer.subject));
    }

    /// What our last turn said of the subject.
    #[must_use]
    pub fn standing(&self, subject: &Key) -> Option<&Standing> {
        self.standings.get(subject)
    }

    /// Notes what a turn says of the subject. Who looks at it has to be decided again if that is something else.
    pub fn note(&mut self, subject: &Key, standing: Option<Standing>) -> Changed {
        let mut changed = Changed::new();
        let before = match standing {
            Some(standing) => self.standings.insert(subject.clone(), standing),
            None => self.standings.remove(subject),
        };
        if before.as_ref() != self.standing(subject) {
            self.onlookers(subject, &mut changed);
        }
        changed
    }
}

/// The labels that decide about the launcher's neighbours: the template's and KubeVirt's (KubeVirt reference B.2).
fn launcher_labels<'a>(subject: &'a Key, template: &'a Template) -> impl Fn(&str) -> Option<&'a str> {
    move |key| match key {
        "kubevirt.io" => Some("virt-launcher"),
        "vm.kubevirt.io/name" | "vmi.kubevirt.io/id" => Some(&*subject.name),
        _ => template.metadata.labels.get(key).map(AsRef::as_ref),
    }
}

//! The joined projection of all watched kinds: objects in, changed subjects out.
//!
//! Each kind has a file that says which subjects an object concerns. The index never decides and never reads a clock.

mod claims;
mod cluster;
mod neighbours;
mod pods;
mod subjects;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::api::{
    DataVolume, KubeVirt, Namespace, NetworkAttachmentDefinition, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    ResourceQuota, StorageClass, View, VirtualMachine, VirtualMachineInstance,
};
use crate::name::Key;

use neighbours::Neighbours;
pub use neighbours::{Peer, Standing};
pub use pods::own_subject;
pub use subjects::sidecar_claims;

/// Subjects whose decision may have changed.
pub type Changed = BTreeSet<Key>;

/// All objects of one kind.
pub type Table<V> = BTreeMap<Key, Arc<V>>;

/// Everything that is known of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Index {
    vms: Table<VirtualMachine>,
    vmis: Table<VirtualMachineInstance>,
    data_volumes: Table<DataVolume>,
    claims: Table<PersistentVolumeClaim>,
    volumes: Table<PersistentVolume>,
    pods: Table<Pod>,
    classes: Table<StorageClass>,
    namespaces: Table<Namespace>,
    kubevirts: Table<KubeVirt>,
    quotas: Table<ResourceQuota>,
    networks: Table<NetworkAttachmentDefinition>,
    nodes: Table<Node>,
    /// Claim to the subjects whose VM or VMI names it.
    subjects_by_claim: Links,
    /// The name that a subject's pod has or would have, to the subject.
    subjects_by_pod_name: Links,
    /// Subject to the claims that keep its TPM and EFI state.
    state_claims_by_subject: Links,
    /// Claim to the pods that list it.
    pods_by_claim: Links,
    /// Subject to its launchers.
    launchers_by_subject: Links,
    /// Subject to its own pods.
    own_pods_by_subject: Links,
    /// Who must not run beside whom.
    neighbours: Neighbours,
    /// What our own last turns say of subjects.
    standings: HashMap<Key, Standing>,
    /// Kinds that the API server does not know.
    absent: BTreeSet<&'static str>,
    /// Kinds that exist and that nobody has shown us, by their plural.
    unseen: BTreeSet<&'static str>,
}

/// A kind that the index holds.
pub trait Indexed: View {
    /// Its objects.
    fn table(index: &mut Index) -> &mut Table<Self>;

    /// Enters the object into the secondary maps, or takes it out.
    fn link(&self, index: &mut Index, link: Link);

    /// Adds the subjects whose decision reads this object.
    fn concerns(&self, index: &Index, changed: &mut Changed);
}

/// Something that is done for every kind that the index holds.
pub trait Kinds {
    /// Does it for one kind.
    fn visit<V: Indexed>(&mut self);
}

/// Does something for every kind: the one list of what is read from a cluster.
pub fn kinds(visitor: &mut impl Kinds) {
    visitor.visit::<VirtualMachine>();
    visitor.visit::<VirtualMachineInstance>();
    visitor.visit::<DataVolume>();
    visitor.visit::<PersistentVolumeClaim>();
    visitor.visit::<PersistentVolume>();
    visitor.visit::<Pod>();
    visitor.visit::<StorageClass>();
    visitor.visit::<Namespace>();
    visitor.visit::<KubeVirt>();
    visitor.visit::<ResourceQuota>();
    visitor.visit::<NetworkAttachmentDefinition>();
    visitor.visit::<Node>();
}

/// Whether an object enters the secondary maps or leaves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It enters.
    Enter,
    /// It leaves.
    Leave,
}

/// A secondary map from one key to many.
#[derive(Clone, Debug)]
struct Links<K = Key>(HashMap<K, BTreeSet<Key>>);

impl<K> Default for Links<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Links<K> {
    fn set(&mut self, from: K, to: Key, link: Link) {
        match link {
            Link::Enter => {
                self.0.entry(from).or_default().insert(to);
            }
            Link::Leave => {
                if let Some(set) = self.0.get_mut(&from) {
                    set.remove(&to);
                    if set.is_empty() {
                        self.0.remove(&from);
                    }
                }
            }
        }
    }

    fn of<'a>(&'a self, from: &K) -> impl Iterator<Item = &'a Key> + use<'a, K> {
        self.0.get(from).into_iter().flatten()
    }
}

impl Index {
    /// Enters an object that was added or modified. Nothing has changed if the view of it is the same as before.
    pub fn apply<V: Indexed>(&mut self, object: V) -> Changed {
        let key = object.meta().key();
        let old = V::table(self).get(&key).cloned();
        let mut changed = Changed::new();
        if old.as_deref() == Some(&object) {
            return changed;
        }
        if let Some(old) = old {
            self.affected(&*old, &mut changed);
            old.link(self, Link::Leave);
        }
        object.link(self, Link::Enter);
        self.neighbours.sweep();
        let object = Arc::new(object);
        V::table(self).insert(key, Arc::clone(&object));
        self.affected(&*object, &mut changed);
        changed
    }

    /// Takes an object out.
    pub fn delete<V: Indexed>(&mut self, key: &Key) -> Changed {
        let mut changed = Changed::new();
        if let Some(old) = V::table(self).get(key).cloned() {
            self.affected(&*old, &mut changed);
            V::table(self).remove(key);
            old.link(self, Link::Leave);
            self.neighbours.sweep();
        }
        changed
    }

    /// The subjects whose decision reads the object, and those that look at these subjects.
    fn affected<V: Indexed>(&self, object: &V, changed: &mut Changed) {
        let mut subjects = Changed::new();
        object.concerns(self, &mut subjects);
        for subject in &subjects {
            self.onlookers(subject, changed);
        }
        changed.extend(subjects);
    }

    /// Ends a list: whatever of this kind was not in it has vanished unseen.
    pub fn retain<V: Indexed>(&mut self, listed: &HashSet<Key>) -> Changed {
        let vanished: Vec<Key> = V::table(self)
            .keys()
            .filter(|key| !listed.contains(*key))
            .cloned()
            .collect();
        vanished.iter().flat_map(|key| self.delete::<V>(key)).collect()
    }

    /// Notes whether the API server knows a kind. It does, until somebody says otherwise.
    pub fn note_kind<V: Indexed>(&mut self, exists: bool) {
        if exists {
            self.absent.remove(V::KIND);
        } else {
            self.absent.insert(V::KIND);
        }
    }

    /// Whether the API server knows a kind.
    #[must_use]
    pub fn has_kind<V: Indexed>(&self) -> bool {
        !self.absent.contains(V::KIND)
    }

    /// Notes that a kind exists and can't be seen: whoever asks may not read it, or a file has left it out. The controller
    /// sees all.
    pub fn note_unseen<V: Indexed>(&mut self) {
        self.unseen.insert(V::PLURAL);
    }

    /// The kinds that exist and can't be seen, by their plural.
    #[must_use]
    pub fn unseen(&self) -> &BTreeSet<&'static str> {
        &self.unseen
    }

    /// Every subject: the names of VMs, of VMIs, and of what own pods were made for.
    #[must_use]
    pub fn subjects(&self) -> BTreeSet<Key> {
        self.vms
            .keys()
            .chain(self.vmis.keys())
            .chain(self.own_pods_by_subject.0.keys())
            .cloned()
            .collect()
    }

    /// The VM of a subject.
    #[must_use]
    pub fn vm(&self, subject: &Key) -> Option<&Arc<VirtualMachine>> {
        self.vms.get(subject)
    }

    /// The VMI of a subject.
    #[must_use]
    pub fn vmi(&self, subject: &Key) -> Option<&Arc<VirtualMachineInstance>> {
        self.vmis.get(subject)
    }

    /// A DataVolume.
    #[must_use]
    pub fn data_volume(&self, key: &Key) -> Option<&Arc<DataVolume>> {
        self.data_volumes.get(key)
    }

    /// A claim.
    #[must_use]
    pub fn claim(&self, key: &Key) -> Option<&Arc<PersistentVolumeClaim>> {
        self.claims.get(key)
    }

    /// A volume.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.volumes.get(&Key::new("", name))
    }

    /// A node.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Arc<Node>> {
        self.nodes.get(&Key::new("", name))
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, key: &Key) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// A storage class.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(&Key::new("", name))
    }

    /// The storage classes.
    pub fn classes(&self) -> impl Iterator<Item = &Arc<StorageClass>> {
        self.classes.values()
    }

    /// A Namespace.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<&Arc<Namespace>> {
        self.namespaces.get(&Key::new("", name))
    }

    /// The KubeVirt object. Of several, which KubeVirt does not allow, the first that is not being deleted.
    #[must_use]
    pub fn kubevirt(&self) -> Option<&Arc<KubeVirt>> {
        self.kubevirts.values().find(|kubevirt| !kubevirt.meta().terminating())
    }

    /// The quotas of a Namespace.
    pub fn quotas<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<ResourceQuota>> {
        cluster::in_namespace(&self.quotas, namespace).map(|(_, quota)| quota)
    }

    /// A network attachment definition.
    #[must_use]
    pub fn network(&self, key: &Key) -> Option<&Arc<NetworkAttachmentDefinition>> {
        self.networks.get(key)
    }

    /// The Nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// The pods that list a claim.
    pub fn pods_of_claim(&self, claim: &Key) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods_by_claim.of(claim).filter_map(|key| self.pods.get(key))
    }

    /// The subjects whose VM or VMI names a claim.
    pub fn subjects_of_claim(&self, claim: &Key) -> impl Iterator<Item = &Key> {
        self.subjects_by_claim.of(claim)
    }

    /// The launchers of a subject, temporary and real.
    pub fn launchers(&self, subject: &Key) -> impl Iterator<Item = &Arc<Pod>> {
        self.launchers_by_subject
            .of(subject)
            .filter_map(|key| self.pods.get(key))
    }

    /// The claims that keep a subject's TPM and EFI state.
    pub fn state_claims(&self, subject: &Key) -> impl Iterator<Item = &Arc<PersistentVolumeClaim>> {
        self.state_claims_by_subject
            .of(subject)
            .filter_map(|key| self.claims.get(key))
    }
}

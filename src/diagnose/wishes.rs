//! What a VM or its pod asks of its node, one requirement at a time, and how many nodes lack each.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::api::{Node, NodeNeeds, NodeSelectorTerm, Operator, Pod, Requirement, Strings};
use crate::name::a_few;
use crate::placement::Domains;

/// The requirements of `nodeSelector` and of the required node affinity. Those on labels that are not kept of a node are
/// not compared: it counts as having them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeWishes(Vec<Wish>);

/// One requirement.
#[derive(Clone, Debug, PartialEq)]
enum Wish {
    /// Of a label.
    Label(Requirement),
    /// Of the node's name.
    Field(Requirement),
    /// One of several terms, each of which is enough; of none, if there are none.
    Terms(Vec<NodeSelectorTerm>),
}

/// A requirement that some nodes do not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The label; empty if it is about several, or about the node's name.
    pub key: Arc<str>,
    /// How many nodes do not meet it.
    pub nodes: usize,
    /// The same in words: `6 of 6 nodes lack kubevirt.io/schedulable=true`.
    pub text: String,
    /// Whether it is of a label that KubeVirt gives to nodes.
    pub kubevirt: bool,
}

impl NodeWishes {
    /// Reads a VMI's spec; `None` if it asks for nothing. Most do not, and are not parsed for it.
    #[must_use]
    pub fn of_spec(spec: &str) -> Option<Self> {
        if !spec.contains("\"nodeSelector\"") && !spec.contains("\"nodeAffinity\"") {
            return None;
        }
        serde_json::from_str(spec).ok().map(Self::new)
    }

    /// What a pod without node asks for, without the domains that its peers keep it out of.
    #[must_use]
    pub fn of_pod(pod: &Pod, peers: &Domains) -> Self {
        let mut wishes = pod.needs().cloned().map(Self::new).unwrap_or_default();
        let of_peers = |wish: &Wish| matches!(wish, Wish::Label(Requirement { key, operator: Operator::NotIn, .. }) if peers.contains_key(key));
        wishes.0.retain(|wish| !of_peers(wish));
        wishes
    }

    fn new(needs: NodeNeeds) -> Self {
        let terms = needs.terms().map(<[_]>::to_vec);
        let pair = |(key, value)| {
            Wish::Label(Requirement {
                key,
                operator: Operator::In,
                values: vec![value],
            })
        };
        let mut wishes: Vec<Wish> = needs.node_selector.into_iter().map(pair).collect();
        match terms.as_deref() {
            None => {}
            Some([term]) if !term.match_expressions.is_empty() || !term.match_fields.is_empty() => {
                wishes.extend(term.match_expressions.iter().cloned().map(Wish::Label));
                wishes.extend(term.match_fields.iter().cloned().map(Wish::Field));
            }
            Some(terms) => wishes.push(Wish::Terms(terms.to_vec())),
        }
        Self(wishes)
    }

    /// Whether a node has all of it.
    #[must_use]
    pub fn take(&self, node: &Node) -> bool {
        self.0.iter().all(|wish| wish.takes(node))
    }

    /// Those that some of these nodes do not meet. What the VM `own` asks for itself is not KubeVirt's.
    #[must_use]
    pub fn lacking(&self, own: &Self, nodes: &[&Arc<Node>]) -> Vec<Lack> {
        let lack = |wish: &Wish| {
            let without = nodes.iter().filter(|node| !wish.takes(node)).count();
            let key = wish.key();
            (without > 0).then(|| Lack {
                nodes: without,
                text: format!("{without} of {} nodes {}", nodes.len(), wish.lacking()),
                kubevirt: !own.0.contains(wish) && of_kubevirt(&key),
                key,
            })
        };
        self.0.iter().filter_map(lack).collect()
    }

    /// Those that not all of these nodes meet, in words.
    #[must_use]
    pub fn unmet(&self, nodes: &[&Arc<Node>]) -> String {
        let excluding = self.0.iter().filter(|wish| nodes.iter().any(|node| !wish.takes(node)));
        excluding.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Those that can't be compared, because the labels are not kept; a few of them.
    #[must_use]
    pub fn unknown(&self) -> Option<String> {
        self.words(|wish| !wish.known())
    }

    /// A few of all.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        self.words(|_| true)
    }

    fn words(&self, of: impl Fn(&Wish) -> bool) -> Option<String> {
        let words = self.0.iter().filter(|wish| of(wish)).map(ToString::to_string);
        a_few(&words.collect::<BTreeSet<_>>(), 3)
    }
}

/// Whether it is a label that KubeVirt gives to nodes, or asks of them by itself.
fn of_kubevirt(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain == "kubevirt.io" || domain.ends_with(".kubevirt.io") || key == "kubernetes.io/arch"
}

impl Wish {
    fn takes(&self, node: &Node) -> bool {
        let meta = &node.metadata;
        let labels: &Strings = &meta.labels;
        !self.known()
            || match self {
                Self::Label(requirement) => requirement.holds(meta.label(&requirement.key)),
                Self::Field(requirement) => requirement.holds(Some(&meta.name)),
                Self::Terms(terms) => terms.iter().any(|term| term.takes(&meta.name, labels)),
            }
    }

    fn known(&self) -> bool {
        match self {
            Self::Label(requirement) => Node::keeps_label(&requirement.key),
            Self::Field(_) => true,
            Self::Terms(terms) => terms
                .iter()
                .flat_map(|term| &term.match_expressions)
                .all(|requirement| Node::keeps_label(&requirement.key)),
        }
    }

    fn key(&self) -> Arc<str> {
        match self {
            Self::Label(requirement) => Arc::clone(&requirement.key),
            Self::Field(_) | Self::Terms(_) => "".into(),
        }
    }

    /// What is wrong with nodes that it excludes.
    fn lacking(&self) -> String {
        match self {
            Self::Label(requirement) => match requirement.operator {
                Operator::NotIn | Operator::DoesNotExist => format!("have {}", requirement.opposite()),
                _ => format!("lack {requirement}"),
            },
            Self::Field(_) | Self::Terms(_) => format!("are not what it asks for by {self}"),
        }
    }
}

/// As `kubectl` takes label selectors.
impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(requirement) | Self::Field(requirement) => requirement.fmt(f),
            Self::Terms(_) => f.write_str("its required node affinity"),
        }
    }
}

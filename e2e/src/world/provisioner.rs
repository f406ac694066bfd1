//! A CSI-like external provisioner with a `CSIDriver` object (CDI reference 10.1; sig-storage-lib): it makes one volume
//! with node affinity for a claim whose node was chosen, and leaves claims with a foreign data source alone. Where the
//! claim's data source is that of somebody else's populator, it is that populator, too: of its pod and its own helper
//! claim only the outcome is modelled, a volume on the chosen node.

use super::objects::Note;

/// What the provisioner reads of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID: names the volume.
    pub uid: String,
    /// Annotation `volume.kubernetes.io/storage-provisioner` (or its beta form) is our name. The PV controller sets it
    /// for a late claim only after a node was chosen.
    pub asked: bool,
    /// The class binds late.
    pub late: bool,
    /// selected-node.
    pub node: Option<String>,
    /// `spec.volumeName` is set.
    pub bound: bool,
    /// `spec.dataSourceRef` is of a kind that is neither a claim nor a snapshot nor its own populator's.
    pub foreign_source: bool,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// The volume exists.
    pub volume: bool,
    /// `Provisioning` was announced and the driver has had its time.
    pub begun: bool,
    /// The fault that is switched on for this claim.
    pub fault: Option<Fault>,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// `ProvisioningFailed`, and the node is given back: selected-node is removed, so that the scheduler chooses again.
    GivesNodeBack,
    /// `ProvisioningFailed` for ever; selected-node stays.
    Fails,
    /// Never a word.
    Silent,
}

/// One write of the provisioner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// An event on the claim.
    Event(Note),
    /// The driver works: the same claim again after its time, with [`View::begun`].
    Begin,
    /// The volume `pvc-<UID>`, with node affinity to `node`.
    CreateVolume {
        /// Value of `kubernetes.io/hostname`; none for a class that binds at once.
        node: Option<String>,
    },
    /// Removal of selected-node from the claim.
    RemoveNode,
    /// Again after a back-off.
    RetryLater,
}

/// Name of a claim's volume.
#[must_use]
pub fn volume_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

/// One pass over a claim.
#[must_use]
pub fn next(view: &View) -> Vec<Write> {
    let ready = view.asked && (view.node.is_some() || !view.late);
    if !ready || view.bound || view.foreign_source || view.deleting || view.volume {
        return Vec::new();
    }
    if view.fault == Some(Fault::Silent) {
        return Vec::new();
    }
    if !view.begun {
        let text = format!(
            "External provisioner is provisioning volume for claim \"{}/{}\"",
            view.namespace, view.name
        );
        return vec![Write::Event(Note::normal("Provisioning", text)), Write::Begin];
    }
    let failed = |text: &str| Write::Event(Note::warning("ProvisioningFailed", text));
    match view.fault {
        Some(Fault::GivesNodeBack) => {
            let text = "failed to provision volume: rpc error: code = ResourceExhausted desc = not enough free space";
            vec![failed(text), Write::RemoveNode]
        }
        Some(_) => {
            let text = "failed to provision volume: rpc error: code = Internal desc = the storage does not answer";
            vec![failed(text), Write::RetryLater]
        }
        None => {
            let text = format!("Successfully provisioned volume {}", volume_name(&view.uid));
            vec![
                Write::CreateVolume {
                    node: view.node.clone(),
                },
                Write::Event(Note::normal("ProvisioningSucceeded", text)),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> View {
        View {
            uid: "u".into(),
            asked: true,
            late: true,
            node: Some("n1".into()),
            ..View::default()
        }
    }

    #[test]
    fn leaves_alone_what_is_not_its_own() {
        for view in [
            View {
                asked: false,
                ..claim()
            },
            View { node: None, ..claim() },
            View { bound: true, ..claim() },
            View {
                foreign_source: true,
                ..claim()
            },
            View {
                deleting: true,
                ..claim()
            },
            View {
                volume: true,
                ..claim()
            },
            View {
                fault: Some(Fault::Silent),
                ..claim()
            },
        ] {
            assert!(next(&view).is_empty(), "{view:?}");
        }
    }

    #[test]
    fn announces_then_makes_the_volume_on_the_chosen_node() {
        assert!(matches!(next(&claim()).as_slice(), [Write::Event(_), Write::Begin]));
        let made = next(&View { begun: true, ..claim() });
        assert_eq!(
            made[0],
            Write::CreateVolume {
                node: Some("n1".into())
            }
        );
        let at_once = View {
            late: false,
            node: None,
            begun: true,
            ..claim()
        };
        assert_eq!(next(&at_once)[0], Write::CreateVolume { node: None });
    }

    #[test]
    fn faults() {
        let gives_back = View {
            begun: true,
            fault: Some(Fault::GivesNodeBack),
            ..claim()
        };
        assert_eq!(next(&gives_back)[1], Write::RemoveNode);
        let fails = View {
            begun: true,
            fault: Some(Fault::Fails),
            ..claim()
        };
        assert_eq!(next(&fails)[1], Write::RetryLater);
    }
}

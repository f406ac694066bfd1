//! Names on the command line, as kubectl takes them: `vm/NAME`, or `vm NAME`.

use std::collections::BTreeSet;

use super::Failure;
use crate::cluster::snapshot::Skipped;
use crate::index::Index;
use crate::name::Key;

/// What a name on the command line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A VirtualMachine.
    Vm,
    /// A VirtualMachineInstance.
    Vmi,
    /// A DataVolume.
    DataVolume,
    /// A claim.
    Claim,
}

/// The kinds that are subjects themselves.
pub const SUBJECTS: &[Kind] = &[Kind::Vm, Kind::Vmi];

/// These, and what belongs to a subject.
pub const SUBJECTS_AND_DISKS: &[Kind] = &[Kind::Vm, Kind::Vmi, Kind::DataVolume, Kind::Claim];

impl Kind {
    fn read(word: &str, allowed: &[Self]) -> Result<Self, Failure> {
        // As `kubectl get -o name` prints them, too: with the group behind, in whatever case.
        let resource = word.split('.').next().unwrap_or_default().to_lowercase();
        let kind = match &*resource {
            "vm" | "vms" | "virtualmachine" | "virtualmachines" => Some(Self::Vm),
            "vmi" | "vmis" | "virtualmachineinstance" | "virtualmachineinstances" => Some(Self::Vmi),
            "dv" | "dvs" | "datavolume" | "datavolumes" => Some(Self::DataVolume),
            "pvc" | "pvcs" | "persistentvolumeclaim" | "persistentvolumeclaims" => Some(Self::Claim),
            _ => None,
        };
        kind.filter(|kind| allowed.contains(kind)).ok_or_else(|| {
            let words: Vec<&str> = allowed.iter().map(|kind| kind.short()).collect();
            Failure::unusable(format!("{word} is none of {}", words.join(", ")))
        })
    }

    /// As in `kubectl get`.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Self::Vm => "vm",
            Self::Vmi => "vmi",
            Self::DataVolume => "dv",
            Self::Claim => "pvc",
        }
    }

    /// As in manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vm => "VirtualMachine",
            Self::Vmi => "VirtualMachineInstance",
            Self::DataVolume => "DataVolume",
            Self::Claim => "PersistentVolumeClaim",
        }
    }

    fn exists(self, index: &Index, key: &Key) -> bool {
        match self {
            Self::Vm => index.vm(key).is_some(),
            Self::Vmi => index.vmi(key).is_some(),
            Self::DataVolume => index.data_volume(key).is_some(),
            Self::Claim => index.claim(key).is_some(),
        }
    }
}

/// `KIND/NAME ...` or `KIND NAME ...`.
pub fn parse(words: &[String], allowed: &[Kind]) -> Result<Vec<(Kind, String)>, Failure> {
    let (kind, names) = match words {
        [kind, names @ ..] if !kind.contains('/') => (Some(Kind::read(kind, allowed)?), names),
        _ => (None, words),
    };
    if names.is_empty() {
        return Err(Failure::unusable("a name is missing: vm/NAME"));
    }
    let one = |word: &String| match (kind, word.split_once('/')) {
        (None, Some((kind, name))) if !name.is_empty() && !name.contains('/') => {
            Ok((Kind::read(kind, allowed)?, name.to_owned()))
        }
        (Some(kind), None) if !word.is_empty() => Ok((kind, word.clone())),
        _ => Err(Failure::unusable(format!("{word:?} is no name: vm/NAME or vm NAME"))),
    };
    names.iter().map(one).collect()
}

/// The subjects that names mean in a Namespace: they themselves, or those that use the disk. A failure says which name
/// means nobody.
pub fn find(index: &Index, namespace: &str, names: &[(Kind, String)]) -> Result<BTreeSet<Key>, Failure> {
    let mut found = BTreeSet::new();
    for (kind, name) in names {
        let key = Key::new(namespace, name);
        if !kind.exists(index, &key) {
            return Err(Failure::cluster(format!("{} {key} does not exist", kind.name())));
        }
        match kind {
            Kind::Vm | Kind::Vmi => found.extend([key]),
            Kind::DataVolume | Kind::Claim => {
                // A prime claim is used by whoever uses the claim that is filled through it.
                let filled = index.claim(&key).and_then(|claim| claim.fills());
                let users: Vec<Key> = index
                    .subjects_of_claim(filled.as_ref().unwrap_or(&key))
                    .cloned()
                    .collect();
                if users.is_empty() {
                    let text = format!(
                        "no VirtualMachine and no VirtualMachineInstance uses {}/{name}",
                        kind.short()
                    );
                    return Err(Failure::cluster(text));
                }
                found.extend(users);
            }
        }
    }
    Ok(found)
}

/// Fails if what a name means can't be read: the VM and the VMI of a name are one subject.
pub fn readable(unreadable: &[Skipped], namespace: &str, names: &[(Kind, String)]) -> Result<(), Failure> {
    let subject = |kind: &str| SUBJECTS.iter().any(|subject| subject.name() == kind);
    let meant = |object: &&Skipped| {
        *object.key.namespace == *namespace
            && names.iter().any(|(kind, name)| {
                let same = kind.name() == object.kind || (SUBJECTS.contains(kind) && subject(object.kind));
                same && *object.key.name == **name
            })
    };
    let first = unreadable.iter().find(meant);
    first.map_or(Ok(()), |object| Err(Failure::unusable(object.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::files;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn names_are_written_as_for_kubectl() {
        let vm = |name: &str| (Kind::Vm, name.to_owned());
        for text in [
            "vm/a vm/b",
            "vm a b",
            "virtualmachine/a vms/b",
            "virtualmachine.kubevirt.io/a VM/b",
        ] {
            assert_eq!(
                parse(&words(text), SUBJECTS).expect("names"),
                [vm("a"), vm("b")],
                "{text}"
            );
        }
        assert_eq!(
            parse(&words("dv/x"), SUBJECTS_AND_DISKS).expect("a name"),
            [(Kind::DataVolume, "x".to_owned())]
        );
        for (text, says) in [
            ("vm", "a name is missing"),
            ("vm/", "is no name"),
            ("vm/a b", "is no name"),
            ("vm/a/b", "is no name"),
            ("pod/a", "pod is none of vm, vmi, dv, pvc"),
        ] {
            let failure = parse(&words(text), SUBJECTS_AND_DISKS).expect_err(text);
            assert!(failure.code == 2 && failure.message.contains(says), "{text}: {failure}");
        }
        assert!(parse(&words("dv/x"), SUBJECTS).is_err());
    }

    #[test]
    fn a_disk_means_whoever_uses_it() {
        let mut index = Index::default();
        let text = r#"{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db"},"spec":{"template":
                {"spec":{"volumes":[{"name":"r","dataVolume":{"name":"root"}}]}}}}
            {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"root","uid":"u"}}
            {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"prime-u","ownerReferences":
                [{"kind":"PersistentVolumeClaim","name":"root","uid":"u","controller":true}]}}
            {"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"alone"}}"#;
        files::read(&mut index, text, "ns").expect("readable");
        let find = |text: &str| find(&index, "ns", &parse(&words(text), SUBJECTS_AND_DISKS).expect("names"));
        let db = BTreeSet::from([Key::new("ns", "db")]);
        for text in ["vm/db", "pvc/root", "pvc/prime-u", "pvc root prime-u"] {
            assert_eq!(find(text).expect("found"), db, "{text}");
        }
        for (text, says) in [
            ("pvc/alone", "uses pvc/alone"),
            ("dv/root", "DataVolume ns/root does not exist"),
        ] {
            let failure = find(text).expect_err(text);
            assert!(failure.code == 3 && failure.message.contains(says), "{text}: {failure}");
        }
    }
}

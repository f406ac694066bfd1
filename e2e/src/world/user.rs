//! People, and scripts that act for them: what they may do to a VM and its disks at any moment.

use super::virt_controller::vm::RunStrategy;

/// A VM as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vm {
    /// Run strategy.
    pub strategy: RunStrategy,
    /// The opt-in annotation's value.
    pub asks: Option<bool>,
    /// Has a deletion timestamp.
    pub deleting: bool,
}

/// Something that is done to a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ToVm {
    /// `virtctl start`, `virtctl stop`, on a VM with `spec.running`.
    Run(RunStrategy),
    /// The opt-in annotation.
    Ask(Option<bool>),
    /// Another node selector in the template.
    EditPlacement,
    /// `kubectl delete`.
    Delete,
    /// `kubectl create` of what has been deleted.
    Recreate,
}

/// What can be done to a VM (`None`: deleted and gone).
#[must_use]
pub fn to_vm(vm: Option<Vm>) -> Vec<ToVm> {
    let Some(vm) = vm else {
        return vec![ToVm::Recreate];
    };
    if vm.deleting {
        return Vec::new();
    }
    let other = match vm.strategy {
        RunStrategy::Halted => RunStrategy::Always,
        _ => RunStrategy::Halted,
    };
    let asks = match vm.asks {
        Some(true) => [None, Some(false)],
        Some(false) => [None, Some(true)],
        None => [Some(true), Some(false)],
    };
    let mut acts = vec![ToVm::Run(other), ToVm::EditPlacement, ToVm::Delete];
    acts.extend(asks.map(ToVm::Ask));
    acts
}

/// Something that is done to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ToDisk {
    /// The DataVolume is deleted.
    Delete,
    /// It is created: for the first time if the disk is late, or again.
    Create,
    /// Only its claim is deleted.
    DeleteClaim,
}

/// What can be done to a disk. `claim`: it is there and not being deleted.
#[must_use]
pub fn to_disk(data_volume: bool, claim: bool) -> Vec<ToDisk> {
    let acts = if data_volume { ToDisk::Delete } else { ToDisk::Create };
    std::iter::once(acts)
        .chain(claim.then_some(ToDisk::DeleteClaim))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_deleted_is_left_alone_and_what_is_gone_can_come_back() {
        let vm = Vm {
            strategy: RunStrategy::Halted,
            asks: Some(true),
            deleting: false,
        };
        assert!(to_vm(Some(vm)).contains(&ToVm::Run(RunStrategy::Always)));
        assert!(to_vm(Some(Vm { deleting: true, ..vm })).is_empty());
        assert_eq!(to_vm(None), [ToVm::Recreate]);
        assert_eq!(to_disk(false, false), [ToDisk::Create]);
        assert_eq!(to_disk(true, true), [ToDisk::Delete, ToDisk::DeleteClaim]);
    }
}

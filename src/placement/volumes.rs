//! Claims that the launcher lists, and disks that are reserved.

use std::collections::BTreeSet;

use super::gates::Gate;
use super::spec::{Source, Volume, each, filled};
use super::{PlacedClaim, Refusal, Vmi, sidecars};

/// The claims in the order of the volumes, one entry a volume: boot claims, the claim of TPM and EFI state if it exists,
/// claims of hook sidecars that exist. A boot claim that does not exist is a refusal.
///
/// Mirrors: pkg/virt-controller/services/rendervolumes.go::withVMIVolumes
pub(super) fn claims(vmi: &Vmi<'_>) -> Result<Vec<PlacedClaim>, Refusal> {
    let mut claims = Vec::new();
    for (name, source) in each(vmi.spec.volumes.as_ref()).iter().filter_map(boot_claim) {
        let claim = (vmi.inputs.claim)(name).ok_or_else(|| Refusal::ClaimMissing(name.to_owned()))?;
        claims.push(PlacedClaim {
            read_only: source.read_only == Some(true),
            ..PlacedClaim::new(name, claim.block())
        });
    }
    claims.extend(vmi.inputs.state_claim.map(|name| PlacedClaim::new(name, false)));
    for name in sidecars::hooks(vmi)?.iter().filter_map(sidecars::Hook::claim) {
        claims.extend((vmi.inputs.claim)(name).map(|claim| PlacedClaim::new(name, claim.block())));
    }
    Ok(claims)
}

/// The claim of a volume that is there at boot.
fn boot_claim(volume: &Volume) -> Option<(&str, &Source)> {
    let ephemeral = volume
        .ephemeral
        .as_ref()
        .and_then(|ephemeral| ephemeral.persistent_volume_claim.as_ref());
    let (source, name) = match (&volume.data_volume, &volume.persistent_volume_claim, ephemeral) {
        (Some(source), _, _) => (source, &source.name),
        (None, Some(source), _) | (None, None, Some(source)) => (source, &source.claim_name),
        (None, None, None) => return None,
    };
    // An ephemeral volume has no such field.
    (source.hotpluggable != Some(true)).then_some((name.as_deref().unwrap_or_default(), source))
}

/// Whether a disk is reserved over SCSI.
///
/// Mirrors: pkg/storage/reservation/pr.go::HasVMIPersistentReservation
pub(super) fn reserves(vmi: &Vmi<'_>) -> bool {
    reserved(vmi).next().is_some()
}

fn reserved<'a>(vmi: &'a Vmi<'_>) -> impl Iterator<Item = &'a str> {
    let disks = each(vmi.devices.disks.as_ref()).iter();
    disks
        .filter(|disk| disk.lun.as_ref().is_some_and(|lun| lun.reservation == Some(true)))
        .map(|disk| disk.name.as_deref().unwrap_or_default())
}

/// The label of each reserved claim, by its UID; launchers that share one are kept apart by it.
///
/// Mirrors: pkg/storage/reservation/pr.go::PersistentReservationPVCLabels
pub(super) fn reservation_labels(vmi: &Vmi<'_>) -> BTreeSet<String> {
    let of_disk = |disk: &str| {
        let mut volumes = each(vmi.spec.volumes.as_ref()).iter();
        let volume = volumes.find(|volume| volume.name.as_deref() == Some(disk))?;
        let source = volume
            .data_volume
            .as_ref()
            .and_then(|source| filled(source.name.as_ref()));
        let claim = || filled(volume.persistent_volume_claim.as_ref()?.claim_name.as_ref());
        let claim = (vmi.inputs.claim)(source.or_else(claim)?)?;
        Some(format!("pr.kubevirt.io/{}", claim.metadata.uid))
    };
    reserved(vmi).filter_map(of_disk).collect()
}

/// Refuses volumes that KubeVirt does not render: a shared folder of the launcher's own files, which a gate has to
/// allow, and answers for Windows' set-up without a source.
///
/// Mirrors: pkg/virt-controller/watch/vmi/lifecycle.go::sync
pub(super) fn check(vmi: &Vmi<'_>) -> Result<(), Refusal> {
    let shared: BTreeSet<_> = each(vmi.devices.filesystems.as_ref())
        .iter()
        .map(|shared| &shared.name)
        .collect();
    let allowed = vmi.config.gate(Gate::ContainerPathVolumes);
    for volume in each(vmi.spec.volumes.as_ref()) {
        if volume.container_path.is_some() && shared.contains(&volume.name) && !allowed {
            return Err(Refusal::ContainerPath);
        }
        if volume
            .sysprep
            .as_ref()
            .is_some_and(|sysprep| sysprep.secret.is_none() && sysprep.config_map.is_none())
        {
            return Err(Refusal::Sysprep(volume.name.clone().unwrap_or_default()));
        }
    }
    Ok(())
}

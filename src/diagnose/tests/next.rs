//! Where each diagnosis leads.

use serde_json::{Value, json};

use super::*;

#[test]
fn every_next_step_names_an_object_or_a_command() {
    for (trouble, name, _, edit, ..) in table() {
        let mut world = World::new();
        edit(&mut world);
        let found = world.look(None);
        for finding in &found.findings {
            let next = found.next(finding, "prod");
            let names = ["kubectl ", "scheduler "].iter().any(|word| next.contains(word));
            assert!(
                names && !next.contains("/ ") && !next.ends_with('/'),
                "{trouble}, {name}: {next}"
            );
            assert!(crate::reason::takes_command(&next), "{trouble}, {name}: {next}");
        }
    }
}

/// The next step of the first finding of this name.
fn next_of(world: &World, trouble: Trouble) -> String {
    let found = world.look(None);
    let finding = found.findings.iter().find(|finding| finding.trouble == trouble);
    found.next(finding.expect("a finding"), "prod")
}

#[test]
fn a_node_that_is_gone_has_taken_all_its_disks_and_what_was_empty_has_lost_nothing() {
    let mut world = World::new();
    world.set("pv-root", &affinity("node-9"));
    world.set("pv-data", &affinity("node-9"));
    let next = next_of(&world, Trouble::SelectedNodeMissing);
    assert!(
        next.contains("without what they held: kubectl delete pvc/root pvc/data -n prod"),
        "{next}"
    );
    world.set("pv-data", &affinity("node-8"));
    let next = next_of(&world, Trouble::SelectedNodeMissing);
    assert!(next.ends_with("kubectl delete pvc/root -n prod"), "{next}");
    // What nobody fills may hold anything.
    world.set("root", &json!({"metadata": {"ownerReferences": []}}));
    let next = next_of(&world, Trouble::SelectedNodeMissing);
    assert!(next.contains("without what they held"), "{next}");
    for empty in [World::unfilled, World::pending] {
        let mut world = World::new();
        empty(&mut world, "root");
        world.set("pv-root", &affinity("node-9"));
        world.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-9"));
        let next = next_of(&world, Trouble::SelectedNodeMissing);
        assert!(
            next.contains("empty disks anew: kubectl delete pvc/root -n prod"),
            "{next}"
        );
    }
}

#[test]
fn a_source_that_waits_leads_to_whoever_uses_it() {
    let mut world = World::new();
    world.unfilled("root");
    world.unplaced("data");
    world.set("dv-root", &json!({"spec": {"source": {"pvc": {"name": "data"}}}}));
    let next = |world: &World| next_of(world, Trouble::SourceMissing);
    let alone = next(&world);
    let annotate = "kubectl annotate pvc/data -n prod cdi.kubevirt.io/storage.bind.immediate.requested=true";
    assert!(alone.ends_with(annotate), "the VM itself cannot begin: {alone}");
    let volumes = json!([{"name": "data", "dataVolume": {"name": "data"}}]);
    let spec = json!({"template": {"spec": {"volumes": volumes}}});
    world.add("other", "kubevirt.io/v1", "VirtualMachine", &json!({"spec": spec}));
    let shared = next(&world);
    assert!(
        shared.ends_with("kubectl first-consumer explain dv/data -n prod"),
        "{shared}"
    );
    let about = |world: &World| {
        let found = world.look(None).findings;
        let missing = found.iter().find(|finding| finding.trouble == Trouble::SourceMissing);
        missing.map(|finding| finding.about.clone())
    };
    let itself = "pvc/data in prod waits for a first consumer itself";
    assert_eq!(about(&world).as_deref(), Some(itself));
    // A source that waits for no consumer is its own matter, whoever uses it.
    world.set("dv-data", &json!({"status": {"phase": "Pending"}}));
    let without = "pvc/data in prod has no volume yet";
    assert_eq!(about(&world).as_deref(), Some(without));
}

#[test]
fn a_worker_that_cdi_lets_go_nowhere_is_cdis_matter() {
    let next = |words: &str| {
        let mut world = World::new();
        world.worker(&unschedulable(words, 0));
        next_of(&world, Trouble::WorkerUnschedulable)
    };
    for words in [
        "1 node(s) had untolerated taint {a: b}",
        "1 node(s) didn't match Pod's node affinity/selector",
    ] {
        let next = next(&format!("0/1 nodes are available: {words}."));
        assert!(
            next.contains("spec.workload") && next.ends_with("kubectl edit cdi"),
            "{next}"
        );
    }
    let room = next("0/1 nodes are available: 1 Insufficient memory.");
    assert!(room.ends_with("kubectl describe pod/importer-root -n prod"), "{room}");
}

#[test]
fn the_gate_leads_to_the_disks_that_have_to_be_made_anew() {
    let mut world = World::new();
    world.set("pv-data", &affinity("node-2"));
    world.annotate("data", IMMEDIATE, &json!(""));
    let next = next_of(&world, Trouble::GateOff);
    assert!(
        next.contains("kubectl edit cdi") && next.ends_with("kubectl delete pvc/data -n prod"),
        "{next}"
    );
}

#[test]
fn a_worker_that_does_not_come_leads_to_cdi_or_to_what_it_says() {
    let mut world = World::new();
    world.unfilled("root");
    assert!(next_of(&world, Trouble::WorkerMissing).ends_with("kubectl get pods -n cdi"));
    world.warning(
        "PersistentVolumeClaim",
        "root",
        "ImportTargetInUse",
        "pod x uses it",
        10,
    );
    assert!(next_of(&world, Trouble::WorkerMissing).ends_with("kubectl describe pvc/root -n prod"));
}

#[test]
fn where_a_vm_may_not_run_the_next_step_edits_what_its_user_wrote() {
    let next = |world: &World| next_of(world, Trouble::BoundWhereVmCannotRun);
    let selector = json!({"nodeSelector": {"zone": "b"}});
    let mut world = World::new();
    world.set("db", &json!({"spec": {"template": {"spec": &selector}}}));
    assert!(next(&world).contains("kubectl edit vm/db -n prod"), "{}", next(&world));
    world.launcher(&unschedulable("0/2 nodes", 0));
    world.objects.remove("db");
    world.set(
        "db-vmi",
        &json!({"metadata": {"ownerReferences": []}, "spec": &selector}),
    );
    assert!(next(&world).contains("kubectl edit vmi/db -n prod"), "{}", next(&world));
}

#[test]
fn a_prime_claim_whose_node_was_given_back_is_not_waited_for() {
    let mut world = World::new();
    prime(&mut world, "Pending");
    let prime = "prime-PersistentVolumeClaim-root";
    world.event("PersistentVolumeClaim", prime, "ProvisioningFailed", "no space");
    let next = |world: &World| next_of(world, Trouble::ProvisioningFailed);
    assert!(next(&world).contains(&format!("kubectl describe pvc/{prime}")));
    world.annotate("prime", "volume.kubernetes.io/selected-node", &Value::Null);
    assert!(
        next(&world).ends_with("kubectl delete pvc/root -n prod"),
        "{}",
        next(&world)
    );
}

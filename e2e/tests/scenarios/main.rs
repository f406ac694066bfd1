//! Scenarios on a real control plane: what a user does, what becomes of the disks, and what it costs the API server.

mod cases;
mod check;
mod disks;
mod explain;
mod failures;
mod halted;
mod hand_over;
mod instancetypes;
mod neighbours;
mod peers;
mod rights;
mod sources;
mod stand_ins;
mod started;
mod zones;

use std::process::ExitCode;

use cases::{admission, nodes, not_running, placement, pod_life, schedulers, special_volumes, telling};
use first_consumer_e2e::cluster::{self, Cluster};
use first_consumer_e2e::suite::Suite;

/// Adds tests by the name of their function.
macro_rules! tests {
    ($suite:expr, $how:ident: $($module:ident::$test:ident),+ $(,)?) => {
        $suite$(.$how(concat!(stringify!($module), "::", stringify!($test)), $module::$test))+
    };
}

/// What `explain` has to explain.
fn situations() -> Suite<Cluster> {
    tests!(Suite::default(), shared:
        explain::no_node_matches,
        explain::no_room,
        explain::quota_refuses_ours,
        explain::opt_in_unreadable,
        explain::scheduler_that_nobody_serves,
        explain::claim_missing,
        explain::two_vms_share_a_disk,
        explain::provisioner_fails,
        explain::bound_at_once_elsewhere,
        explain::node_gone,
        explain::selected_node_gone,
        explain::launcher_unschedulable,
        explain::instancetype_missing,
        explain::policy_refuses_ours,
        explain::priority_class_missing,
        explain::device_on_no_node,
        explain::scheduling_gate,
        explain::kubevirt_would_refuse,
        explain::claim_in_use,
        explain::claim_lost,
        explain::namespace_terminating,
        explain::peers_fill_all_nodes,
        explain::clone_waits_for_its_source,
        explain::node_not_ready,
        explain::provisioner_out_of_space,
        explain::bound_unfilled,
        explain::worker_unschedulable,
        explain::worker_refused_by_quota,
        explain::launcher_blocks_import,
        explain::gate_off,
        explain::one_namespace_is_enough,
    )
}

/// On a fake API server, whose time passes as fast as nobody works.
fn in_paused_time(suite: Suite<Cluster>) -> Suite<Cluster> {
    tests!(suite, paused:
        schedulers::c06_custom_scheduler,
        schedulers::c11_runtime_class_and_priority,
        not_running::c15_immediate_binding_by_presence,
        not_running::c21_somebody_elses_populator,
        pod_life::c22_a_pod_that_stays_alive,
        pod_life::c26_the_place_is_lost,
        pod_life::c27_what_is_going,
        pod_life::c28_a_deletion_that_does_not_end,
        pod_life::c32_evicted_after_its_work,
        pod_life::c33_pods_that_fail,
        pod_life::c35_filled_without_us,
        pod_life::c35_a_vm_and_a_node_that_change,
        pod_life::c35_a_class_that_comes_later,
        admission::c36_refusals_at_growing_distances,
        admission::c39_storage_quota,
        telling::c40_each_change_is_told_once,
        telling::c41_a_silent_provisioner,
        nodes::c44_no_node_yet,
        nodes::c45_the_node_is_consolidated_away,
        nodes::c46_no_disk_space,
        nodes::c46_bound_where_the_vm_cannot_run,
        nodes::c47_the_second_disk_is_impossible,
        nodes::c47_the_second_disk_is_given_back,
        nodes::c49_the_selected_node_flaps,
        nodes::c49_the_selected_node_of_a_population_flaps,
        special_volumes::c51_a_hotplugged_disk_alone,
        special_volumes::c51_a_hotplugged_disk_that_waits,
        special_volumes::c52_hotplug_into_a_running_vm,
        special_volumes::c54_scratch_and_prime_go_elsewhere,
        special_volumes::c54_scratch_and_prime_are_in_no_pod,
        special_volumes::c55_a_disk_is_about_to_be_filled,
        special_volumes::c55_a_disk_has_failed_to_be_filled,
        special_volumes::c55_a_disk_is_being_filled,
        special_volumes::c57_the_target_of_a_volume_migration,
        special_volumes::c58_a_disk_that_can_never_be_filled,
        special_volumes::c58_a_failed_disk_among_others,
    )
}

fn main() -> ExitCode {
    let suite = tests!(situations(), shared:
        halted::legacy_two_disks,
        halted::populator_two_disks,
        halted::not_asked_for,
        halted::opted_in_by_namespace_out_by_vm,
        halted::deleted_and_recreated_with_the_same_name,
        halted::selector_corrected_while_stuck,
        started::left_to_virt_controller,
        started::fallback_without_virt_controller,
        started::bare_vmi_fallback,
        started::started_while_our_pod_waits,
        disks::late_disk,
        disks::plain_claim_beside,
        disks::immediate_binding_asked_for,
        sources::legacy_path,
        sources::populator_path,
        sources::a_clone_waits_for_its_source,
        sources::a_clone_that_loses_its_node,
        sources::nobody_fills_it_without_a_csi_driver,
        hand_over::imports_that_fail,
        hand_over::a_node_given_back_is_held_the_next_time,
        neighbours::foreign_consumer,
        peers::three_members_on_three_nodes,
        peers::three_members_in_three_zones,
        peers::a_term_of_one_of_them_is_enough,
        peers::a_shared_disk_has_one_consumer,
        peers::ten_members_and_three_nodes,
        zones::the_only_zone_with_room,
        instancetypes::the_instancetypes_selector_is_heeded,
        instancetypes::without_virt_api_no_pod_comes,
        instancetypes::without_virt_api_no_pod_goes,
        failures::killed_after_the_pod_was_made,
        failures::killed_before_the_node_was_chosen,
        failures::killed_before_the_deletion,
        rights::the_account_can_do_no_more_than_it_needs,
        placement::c01_two_disks_on_one_node,
        placement::c02_node_selector,
        placement::c03_tolerations,
        placement::c04_a_disk_that_was_bound_at_once,
        placement::c05_as_thick_as_the_vm,
        placement::c09_our_pod_does_not_repel_the_launcher,
        not_running::c12_a_stopped_vms_disks_fill,
        not_running::c13_disks_before_their_vm,
        not_running::c17_the_copy_of_a_vm,
        not_running::c19_an_upload,
        not_running::c24_twenty_at_once,
        pod_life::c27_a_finished_pod_and_a_claim_that_goes,
        pod_life::c28_a_deletion_that_takes_its_time,
        pod_life::c32_a_drain_evicts_it,
        pod_life::c35_what_happened_without_us,
        admission::c36_a_quota_refuses_it,
        admission::c36_a_limit_range_refuses_it,
        admission::c37_pod_security,
        telling::c40_what_is_being_waited_for,
        special_volumes::c51_a_hotplugged_disk_is_followed,
        special_volumes::c55_a_disk_is_already_somewhere,
        check::what_people_wrote,
        check::what_cannot_be_read,
        stand_ins::a_vm_runs_stops_and_runs_again,
        stand_ins::virt_controller_catches_up,
        stand_ins::a_node_given_back_is_chosen_again,
        stand_ins::a_failing_driver_holds_a_population_up,
        stand_ins::without_the_gate_nobody_waits,
    );
    let suite = tests!(in_paused_time(suite), alone:
        peers::across_namespaces,
        failures::two_replicas_elect_one,
        failures::the_api_server_restarts,
        neighbours::cdi_comes_later,
        check::each_hint_repairs_what_is_wrong,
    );
    suite.run(cluster::shared)
}

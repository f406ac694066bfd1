//! Scenarios on a real control plane: what a user does, what becomes of the disks, and what it costs the API server.

mod disks;
mod failures;
mod halted;
mod hand_over;
mod instancetypes;
mod neighbours;
mod peers;
mod refusals;
mod rights;
mod sources;
mod started;
mod zones;

use std::process::ExitCode;

use first_consumer_e2e::cluster;
use first_consumer_e2e::suite::Suite;

/// Adds tests by the name of their function.
macro_rules! tests {
    ($suite:expr, $how:ident: $($module:ident::$test:ident),+ $(,)?) => {
        $suite$(.$how(concat!(stringify!($module), "::", stringify!($test)), $module::$test))+
    };
}

fn main() -> ExitCode {
    let suite = tests!(Suite::default(), shared:
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
        refusals::a_quota_that_is_raised,
        neighbours::foreign_consumer,
        peers::three_members_on_three_nodes,
        peers::three_members_in_three_zones,
        peers::a_term_of_one_of_them_is_enough,
        peers::a_shared_disk_has_one_consumer,
        instancetypes::the_instancetypes_selector_is_heeded,
        instancetypes::without_virt_api_no_pod_comes,
        instancetypes::without_virt_api_no_pod_goes,
        failures::killed_after_the_pod_was_made,
        failures::killed_before_the_node_was_chosen,
        failures::killed_before_the_deletion,
        rights::the_account_can_do_no_more_than_it_needs,
    );
    let suite = tests!(suite, alone:
        zones::the_only_zone_with_room,
        peers::ten_members_and_three_nodes,
        peers::across_namespaces,
        failures::two_replicas_elect_one,
        failures::the_api_server_restarts,
        neighbours::cdi_comes_later,
    );
    suite.run(cluster::shared)
}

//! Model checking: the product's own [`turn`](first_consumer::decide::turn) in the world of [`crate::world`], in every
//! interleaving that a budget of disturbances allows.
//!
//! A state holds the API server's objects, what of their history our replicas have not looked at yet, half-done
//! binding cycles of the scheduler, our memories and our requests on the way. Its next steps are
//! listed; [`explore`] visits every state once, breadth first, so that the first trace that breaks a rule is a shortest
//! one. Each step is checked against the rules, and from each state a fair run without disturbances must come to rest with
//! every waiting claim placed.
//!
//! | File | Holds |
//! |---|---|
//! | `objects`, `seen`, `state` | objects in compact form, what we see of them, all of it with our replicas |
//! | `canon`, `identity` | what makes two states one: UIDs by age, times as past, now and to come |
//! | `render` | what we see, as the API objects that the product reads |
//! | `mind` | what a replica remembers, and what comes of a turn |
//! | `turns`, `memo` | turns of the product on what a replica sees, remembered by their input |
//! | `step` | every step that is possible, in words, too |
//! | `neighbours`, `api`, `people` | taking a step |
//! | `rules` | what must hold |
//! | `search` | breadth first, with parent pointers, and the stories that they tell |
//! | `models`, `table` | what a model is, and the table of them |
//!
//! # Why an own explorer
//!
//! Stateright would do, and was tried with an earlier model. Three things of this one do not fit it. A state's identity is
//! not its value: a digest under renaming is (Stateright's `representative` builds a renamed copy of each state
//! and keeps every state's full value while it is queued). A turn is a function worth remembering across states, as it
//! decodes JSON: it needs a memo beside the model. And "from each state a fair run comes to rest" is read off the graph,
//! once for all states: each knows its next step in two fair orders. What remains of an explorer then is a queue and a map.
//!
//! # What is abstracted
//!
//! * Time jumps: a jump of an hour makes every timer due that is running. Between jumps no time passes. So "due" and "not
//!   due" are both explored for each timer, but not one timer due while a longer one is not. An hour is no lag: watches,
//!   requests and turns are done by then, or that is a disturbance.
//! * A model says how many versions of each kind a cache may be behind when a turn is taken; `u8::MAX` is any number.
//! * A replica looks at its caches only when it takes a turn, so a cache's position is a lower bound: a turn may
//!   see any later one, of each kind on its own. Turns that neither write nor remember anything new are no steps, and of
//!   turns to one end only those that have seen least.
//!   A restarted replica may list what its predecessor saw or anything newer, not older than that.
//! * Turns are possible at any time. That somebody wakes the subject for those that matter is a rule of its own: who was
//!   satisfied is woken by the index or by a timer, or decides the same.
//! * Neighbours act on the live objects, one reconcile at a time; CDI's back-off is any delay, as nothing is timed. What
//!   nobody else can tell from a moment earlier (the life of a prime's worker, copies of what is known of it, phases that
//!   nobody tells apart) happens at once: [`step`] says why that loses nothing.
//! * A provisioner fails by giving the node back, or is slow: everybody else may go on before its volume comes. One that
//!   fails for ever and keeps the node is the second without an end: every state of that is checked, but as its volume does
//!   come in a fair run, not what would be left at rest.
//! * A worker of CDI fails in two ways: for good, as the data is not what was ordered, after which the DataVolume of an
//!   import is Failed; or its pod goes, and CDI makes another as soon as nobody uses the claim. One that starts again in its
//!   pod is one that runs longer.
//! * A disk comes from an import or an upload: clones and other people's populators are in [`crate::world`], but not here.
//!   The scratch claim of an upload is always bound.
//! * Namespaces, classes and the flags of ours are as they are at first. Nodes stay, but for what a provisioner says of one
//!   that is gone, and are as good as each other, unless VMs keep apart.
//! * Where VMs keep apart, nothing is slower than a pod's life, and CDI does nothing ([`Model::apart`], [`Model::swift`]).
//! * Which replica is which makes no difference.
//!
//! # What was found
//!
//! Bugs that this, the seeds (`crate::fake_api::seeds`) or a mutant found, and the test that each has become since:
//!
//! | Bug | Test |
//! |---|---|
//! | a pod that was too strict was replaced while a peer's had no node yet, and the next followed it there | `a_pod_that_is_too_strict_is_not_replaced_while_a_peer_is_about_to_get_its_node` |
//! | a pod on its way out got its node, and a peer's that knew nothing of it followed | `a_pod_that_is_taken_back_may_still_get_its_node_for_a_moment` |
//! | a pod of a peer that was being replaced counted as if it knew | `a_pod_that_is_replaced_counts_as_unaware_until_it_is_gone` |
//! | virt-api had expanded a newer VM than it was asked about | `an_answer_about_another_state_of_the_vm_is_none` |
//! | a delete that met a conflict counted as done, and the pod stayed for ever | `a_delete_that_meets_a_conflict_has_not_deleted` |
//! | two anti-affine VMs woke each other for ever | `who_waits_for_a_peer_that_is_about_to_act_does_not_hold_it_up` |
//! | wishes that came back again and again were no reason for a gap | `a_change_back_and_the_pod_after_an_exempt_one_keep_their_distance` |
//! | after a restart ten more pods of a VM that was given up | `given_up_is_until_placement_or_claims_change` |

mod api;
mod canon;
mod identity;
mod memo;
mod mind;
pub mod models;
mod neighbours;
mod objects;
mod people;
mod render;
mod rules;
mod search;
mod seen;
mod state;
mod step;
pub mod table;
mod turns;

pub use mind::{Brain, Product};
pub use models::Model;
pub use search::{Report, Story, explore};

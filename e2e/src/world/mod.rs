//! One pure model of each neighbour: CDI, virt-controller, a CSI-like provisioner, and for model checking also what a
//! real control plane brings along: scheduler, PV controller, kubelet, users.
//!
//! A model is a function from what one reconcile of the real component reads (a small, typed *view*) to the writes that
//! this reconcile would make, in order. No clock, no I/O: time is an argument where a rule needs it. The same models
//! are driven against a real API server by `stand_in`, and can be explored by a model checker: state is
//! `Clone + Eq + Hash + Ord`, and the functions are deterministic.
//!
//! Nothing here is shared with the product: the rules come from the CDI and KubeVirt sources, named at each function
//! as `[file: function]`, never from our own controller. The recordings in `e2e/recordings` are the evidence.

pub mod backoff;
pub mod cdi;
pub mod kubelet;
pub mod objects;
pub mod provisioner;
pub mod scheduler;
pub mod user;
pub mod virt_controller;
pub mod volumes;

/// Time since any fixed start, in milliseconds.
pub type Millis = u64;

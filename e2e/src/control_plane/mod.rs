//! A real control plane on this machine: etcd, kube-apiserver, kube-scheduler, kube-controller-manager and
//! local-path-provisioner, with nodes and kubelets played by kwok. Built from pinned Go modules on first use.

mod access;
mod audit;
mod build;
mod controller;
mod nodes;
pub mod objects;
mod parts;
mod plane;
mod process;
mod run;
mod wait;

pub use access::{User, client};
pub use audit::{Call, Calls};
pub use build::{Programs, programs, workspace};
pub use controller::{Controller, ControllerOptions, build_controller};
pub use nodes::NodeSpec;
pub use plane::{ControlPlane, Options};
pub use process::{Order, Process};
pub use run::kept_logs;
pub use wait::{wait_for, wait_within};

//! Whether a stand-in acts, for the whole cluster and for single namespaces.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

#[derive(Debug)]
struct State {
    on: bool,
    namespaces: HashMap<String, bool>,
}

/// On or off; a namespace's own setting goes before the cluster's.
#[derive(Debug)]
pub struct Switch {
    state: RwLock<State>,
}

impl Switch {
    /// A switch that is on or off everywhere.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Self {
            state: RwLock::new(State {
                on,
                namespaces: HashMap::new(),
            }),
        }
    }

    /// Whether the stand-in acts on objects of this namespace.
    #[must_use]
    pub fn is_on(&self, namespace: &str) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.namespaces.get(namespace).copied().unwrap_or(state.on)
    }

    /// Sets it for the whole cluster (`None`) or for one namespace.
    pub fn set(&self, namespace: Option<&str>, on: bool) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        match namespace {
            None => state.on = on,
            Some(namespace) => {
                state.namespaces.insert(namespace.to_owned(), on);
            }
        }
    }
}

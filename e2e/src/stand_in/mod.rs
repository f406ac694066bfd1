//! Drivers of the models in [`crate::world`] on a real API server.

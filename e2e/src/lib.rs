//! Proof of first-consumer.

#!/bin/sh
# Explores the larger models: one disturbance more than `cargo test` allows, and caches that lag twice as far.
# Takes hours and, for the largest, tens of GiB of memory. Prints what was visited and, if a rule breaks, the story.
set -eu
cd "$(dirname "$0")/.."
EXPLORE_MORE=1 exec cargo test --package first-consumer-explore --test explore -- every_model_holds --nocapture

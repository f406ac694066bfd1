#!/bin/sh
# Explores the largest models: one disturbance more than before a merge, and caches that lag twice as far.
# Takes hours and, for the largest, tens of GiB of memory. Prints what was visited and, if a rule breaks, the story.
# Arguments go to the test program: a part of a model's name, `--test-threads 1`, ...
set -eu
cd "$(dirname "$0")/.."
FIRST_CONSUMER_EXPLORE=hours exec cargo test --package first-consumer-explore --test explore -- models "$@"

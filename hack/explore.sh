#!/bin/sh
# Explores larger models than CI: most with one disturbance more, for the better part of an hour. With
# FIRST_CONSUMER_EXPLORE=hours yet another one, and caches that lag twice as far: hours, and tens of GiB of memory.
# Prints what was visited and, if a rule breaks, the story.
# Arguments go to the test program: a part of a model's name, `--test-threads 1`, ...
set -eu
cd "$(dirname "$0")/.."
FIRST_CONSUMER_EXPLORE=${FIRST_CONSUMER_EXPLORE:-long} exec cargo test --package first-consumer-explore --test explore -- models "$@"

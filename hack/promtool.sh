#!/bin/sh
# What only promtool can tell: whether Prometheus finds fault with the text of /metrics and with the alerts, and whether
# the alerts are raised in the situations of manifests/monitoring/alerts.test.yaml. Prints what is wrong.
set -eu
cd "$(dirname "$0")/.."
if ! command -v promtool >/dev/null; then
    echo "promtool.sh: there is no promtool: install Debian's package prometheus, or Prometheus itself" >&2
    exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The rules are written once, below `spec:` of the PrometheusRule.
sed -n '1,/^spec:$/d; s/^  //p' manifests/monitoring/alerts.yaml >"$folder/rules.yaml"
cp manifests/monitoring/alerts.test.yaml "$folder"
promtool check rules "$folder/rules.yaml"
promtool test rules "$folder/alerts.test.yaml"

FIRST_CONSUMER_METRICS_TO="$folder/metrics.txt" cargo test --quiet --package first-consumer-e2e --test monitoring -- readme
# Nothing to check is nothing wrong, for promtool.
grep -q '^first_consumer_' "$folder/metrics.txt"
promtool check metrics <"$folder/metrics.txt"

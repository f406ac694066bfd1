#!/bin/sh
# Changes the decision in every way that cargo-mutants knows, and fails if a change passes the tests without a line in
# survivors.txt that says why it may. Needs: cargo install cargo-mutants.
set -eu
cd "$(dirname "$0")/../.."
command -v cargo-mutants >/dev/null || { echo 'cargo-mutants is missing: cargo install --locked cargo-mutants' >&2; exit 1; }
rm -rf target/mutants
mkdir -p target
status=0
cargo mutants --config hack/mutants/mutants.toml --output target/mutants "$@" || status=$?
# 2: mutants survived; 3: tests hung, which counts as caught.
case $status in 0 | 2 | 3) ;; *) exit "$status" ;; esac
# Lines and columns move with every edit, so they are no part of a survivor's name.
sed -E 's/:[0-9]+:[0-9]+: /: /' target/mutants/mutants.out/missed.txt | sort -u >target/mutants/missed.txt
grep -v -e '^#' -e '^$' -e '^  ' hack/mutants/survivors.txt | sort -u >target/mutants/explained.txt
comm -23 target/mutants/missed.txt target/mutants/explained.txt >target/mutants/unexplained.txt
comm -13 target/mutants/missed.txt target/mutants/explained.txt >target/mutants/outdated.txt
test ! -s target/mutants/unexplained.txt || { echo 'Survivors that nobody has explained:'; cat target/mutants/unexplained.txt; status=1; }
test $# -gt 0 || test ! -s target/mutants/outdated.txt || { echo 'Explained, but no longer surviving:'; cat target/mutants/outdated.txt; status=1; }
test "$status" -ne 1

#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the random programs of tests/fuzz for a long time, with seeds that no run before had.
# usage: scripts/fuzz.sh BUILDDIR [SECONDS] [FIRST-SEED]
set -eu
build=${1:?usage: scripts/fuzz.sh BUILDDIR [SECONDS] [FIRST-SEED]}
seconds=${2:-1200}
seed=${3:-$(date +%s)000}
top=$(dirname "$0")/..
exec python3 "$top/tests/fuzz/fuzz.py" --shadowprof "$build/shadowprof" \
  --generate "$build/tests/fuzz/fuzz_generate" --runner "$build/tests/fuzz/fuzz_runner" \
  --seed "$seed" --seconds "$seconds"

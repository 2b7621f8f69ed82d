#!/bin/bash
# SPDX-License-Identifier: MIT
#
# What ci/action.yml does. Its inputs are CHECK_*, its outputs go to the file that GITHUB_OUTPUT names.
# Exit status: that of shadowprof check, or of the run where that failed; 0 where there is no baseline yet.
set -u

shadowprof=${CHECK_SHADOWPROF:-shadowprof}
baselines=${CHECK_BASELINES:-.shadowprof/baselines}
work=${RUNNER_TEMP:-$(mktemp -d)}
profile=$work/$CHECK_NAME.json.zst
sarif=$work/$CHECK_NAME.sarif

output() { printf '%s=%s\n' "$1" "$2" >> "${GITHUB_OUTPUT:-/dev/null}"; }

# The words of a command as a shell reads them: quotes and backslashes, nothing is expanded.
words() { printf '%s' "$1" | xargs -r printf '%s\n'; }

mapfile -t command < <(words "$CHECK_COMMAND")
# Machines of one service are not alike: without this each processor has counts of its own.
mapfile -t options < <(words "${CHECK_OPTIONS---cpu-features baseline}")
limits=()
while IFS= read -r line; do
  [[ -n ${line//[[:space:]]/} ]] && limits+=(--limit "$line")
done <<< "${CHECK_LIMITS:-}"

"$shadowprof" run --mode full -q --deterministic --clean-env "${options[@]}" -o "$profile" -- \
  "${command[@]}" || exit

status=0
if [[ -e $baselines/$CHECK_NAME.json.zst ]]; then
  "$shadowprof" check --baseline "$CHECK_NAME" --baseline-dir "$baselines" --github -o "$sarif" \
    "${limits[@]}" "$profile" || status=$?
  case $status in
    0) output result passed ;;
    3) output result regression ;;
    *) output result undecidable ;;
  esac
  [[ -e $sarif ]] && output sarif "$sarif"
else
  echo "::notice title=shadowprof::There is no baseline '$CHECK_NAME' in $baselines yet"
  output result no-baseline
fi
if [[ ${CHECK_UPDATE:-false} == true ]]; then
  "$shadowprof" baseline save "$CHECK_NAME" "$profile" --baseline-dir "$baselines" || exit
fi
exit "$status"

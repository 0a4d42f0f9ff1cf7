#!/usr/bin/env bash
# The step of action.yml: measure if there is a study, take in, gate, comment. Its inputs are variables.
set -euo pipefail

export DRAFTBOARD_WAREHOUSE="${WAREHOUSE:-$RUNNER_TEMP/draftboard-warehouse}"
if [ -n "$WAREHOUSE" ] && [ "$KEEP" != true ]; then
  copy="$RUNNER_TEMP/draftboard-warehouse"
  rm -rf "$copy"
  [ ! -d "$WAREHOUSE" ] || cp -r "$WAREHOUSE" "$copy"
  export DRAFTBOARD_WAREHOUSE="$copy"
fi

# The study is code of the pull request: what measures it gets no token.
[ -z "$STUDY" ] || env -u GITHUB_TOKEN draftboard run "$STUDY" --results "$RESULTS"
env -u GITHUB_TOKEN draftboard ingest "$RESULTS"

read -ra budgets <<< "$MAX_REGRESSION"
words=("${budgets[@]/#/--max-regression=}" "--open-exit=$OPEN_EXIT" "--junit=$JUNIT" "--sarif=$SARIF")
[ -z "$STUDY" ] || words+=("--sarif-at=$STUDY")
[ "$COMMENT" != true ] || words+=(--comment)

status=0
draftboard gate "${words[@]}" > "$RUNNER_TEMP/draftboard-gate.txt" || status=$?
cat "$RUNNER_TEMP/draftboard-gate.txt"
{ echo '~~~~~~text'; cat "$RUNNER_TEMP/draftboard-gate.txt"; echo '~~~~~~'; } >> "$GITHUB_STEP_SUMMARY"
echo "status=$status" >> "$GITHUB_OUTPUT"
exit "$status"

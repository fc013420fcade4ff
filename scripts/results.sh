#!/usr/bin/env bash
# Writes docs/results.md and docs/figures from the recorded cases in results/, and nothing else. Runs no method.
#   scripts/results.sh [PAGE]    PAGE instead of docs/results.md, e.g. to compare
set -euo pipefail
cd "$(dirname "$0")/.."
gpara=${GPARA:-target/release/gpara}

configs=()
for task in radio depth; do
    for part in "" _rivals _rates _ablation _efficiency _robust _guidance; do
        if [ -e "results/eval_$task$part.jsonl.gz" ]; then configs+=("configs/eval_$task$part.toml"); fi
    done
done
"$gpara" eval "${configs[@]}" --from results --table "${1:-docs/results.md}" --quiet >/dev/null

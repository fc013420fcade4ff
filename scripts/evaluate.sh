#!/usr/bin/env bash
# Runs every evaluation and records its cases in results/; stopped at any time, the same command goes on.
#   scripts/evaluate.sh RADIO DEPTH [WEIGHTS]
# GPARA names the program (target/release/gpara); for the sampling methods it is built with `--features train`.
set -uo pipefail
radio=$1 depth=$2 weights=${3:-}
cd "$(dirname "$0")/.."
gpara=${GPARA:-target/release/gpara}

status=0
for part in "" _rivals _efficiency _rates _ablation _robust; do
    for task in radio depth; do
        name=eval_$task$part
        if [ ! -e "configs/$name.toml" ]; then continue; fi
        flags=(--data "${!task}" --out "runs/$name" --record results)
        if [ "$part" = _efficiency ]; then flags+=(--jobs 1); fi
        if [ -n "$weights" ]; then flags+=(--weights "$weights"); fi
        echo "== $name" >&2
        "$gpara" eval "configs/$name.toml" "${flags[@]}" >/dev/null || status=1
    done
done
exit $status

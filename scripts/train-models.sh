#!/usr/bin/env bash
# Trains and exports the networks of a task, one after the other, and goes on where an earlier call stopped:
#   scripts/train-models.sh TASK DATA [SECONDS]
# TASK is radio or depth, DATA the folder of its data set; after SECONDS (default: no limit) training stops, to be resumed
# by the same command. GPARA_TRAIN names the program (default target/release/gpara-train), RUNS the folder of the runs
# (default runs), MODELS that of the exported models (default RUNS/models), PIECE the size of the pieces that weights above
# it are split into (default 15M; `cat NAME.safetensors.part-* > NAME.safetensors` joins them), and STAGES replaces the list
# of stages, e.g. STAGES="prior:radio_best_mean:10000": command, configuration, number of steps, and the name of the exported
# model where it is not the configuration's.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    sed -n 2,8p "$0" >&2
    exit 2
fi
task=$1 data=$2 limit=${3:-}
program=${GPARA_TRAIN:-target/release/gpara-train} runs=${RUNS:-runs} models=${MODELS:-${RUNS:-runs}/models}
case $task in
    radio)
        stages="prior:radio_best_mean:7071 prior:radio_best_mean_long:4800:radio-best-mean prior:radio_best_spread:2500
            prior:radio_paper_prior:12484 graph:radio_paper_graph:1000 scorer:radio_paper_scorer:300
            scorer:radio_paper_scorer_direct:300"
        ;;
    depth)
        stages="prior:depth_best_mean:4800 prior:depth_best_mean_long:11500 prior:depth_best_mean_guided:3101
            prior:depth_best_mean_guided_long:9000:depth-best-mean
            prior:depth_best_spread:2000 prior:depth_paper_prior:3000 graph:depth_paper_graph:800 scorer:depth_paper_scorer:300
            scorer:depth_paper_scorer_direct:300"
        ;;
    *) echo "task $task is not known: radio or depth" >&2; exit 2 ;;
esac
stages=${STAGES:-$stages}
mkdir -p "$runs" "$models"
begin=$(date +%s)
for stage in $stages; do
    IFS=: read -r command name steps model <<<"$stage"
    if [ -e "$runs/$name.finished" ]; then
        continue
    fi
    most=()
    if [ -n "$limit" ]; then
        left=$((limit - $(date +%s) + begin))
        # Loading the data and the first validation take longer than a shorter piece is worth.
        if [ "$left" -lt 45 ]; then
            echo "stopped before $name: the same command goes on" >&2
            break
        fi
        most=(--max-seconds "$((left - 15))")
    fi
    "$program" "$command" "configs/$name.toml" --data "$data" --out "$runs" --steps "$steps" --resume "${most[@]}" 2>&1 |
        tee "$runs/$name.log.new" >&2
    cat "$runs/$name.log.new" >>"$runs/$name.log"
    done=$(grep -c ": finished at step" "$runs/$name.log.new" || true)
    rm "$runs/$name.log.new"
    if [ "$done" -eq 0 ]; then
        break
    fi
    "$program" export "$runs/$name.safetensors" --out "$models" --name "${model:-${name//_/-}}"
    split --bytes="${PIECE:-15M}" --suffix-length=1 "$runs/$name.safetensors" "$runs/$name.safetensors.part-"
    touch "$runs/$name.finished"
done

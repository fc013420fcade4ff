#!/usr/bin/env bash
# Runs evaluations on a machine with a GPU and PyTorch 2.11, from a folder of scripts/gpu-pack.sh, within a time limit:
#   scripts/gpu-evaluate.sh FOLDER OUT SECONDS CONFIG...      CONFIG as in configs/CONFIG.toml
# What is done comes back as OUT/runs.tar.gz; put as FOLDER/runs.tar.gz the next call goes on from it, and
# `tar -xzf runs.tar.gz results` in the root of the project takes over what is recorded. Configurations are begun in their order
# until SECONDS are over; those named `*_efficiency` run one scene at a time, so that seconds and memory mean something.
# GPARA_FLAGS adds arguments to every `gpara eval`, JOBS is the number of scenes at once (default: half of the cores, at most 16).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 4 ]; then
    sed -n 2,8p "$0" >&2
    exit 2
fi
folder=$1 out=$2 seconds=$3
shift 3
begin=$(date +%s)
work=$(mktemp -d)
mkdir -p "$out" "$work/runs" "$work/results"
xz --decompress --stdout "$folder/gpara.xz" >"$work/gpara"
chmod +x "$work/gpara"
eval "$(LIBTORCH_USE_PYTORCH=${LIBTORCH_USE_PYTORCH-1} scripts/get-libtorch.sh "$work/libtorch")"
if [ -e "$folder/runs.tar.gz" ]; then tar -xzf "$folder/runs.tar.gz" -C "$work"; fi
cores=$(nproc)
jobs=${JOBS:-$((cores / 2 > 16 ? 16 : (cores / 2 < 1 ? 1 : cores / 2)))}
# The network of one scene at a time is on the device; libtorch's own threads would only take cores from the other scenes.
export OMP_NUM_THREADS=1

status=0
for name in "$@"; do
    left=$((seconds - $(date +%s) + begin))
    if [ "$left" -le 0 ]; then
        echo "time is over before $name: the next call runs it" >&2
        break
    fi
    at_once=$jobs
    if [[ $name == *_efficiency ]]; then at_once=1; fi
    echo "== $name, $left s left" >&2
    # shellcheck disable=SC2086 # GPARA_FLAGS are several words
    "$work/gpara" eval "configs/$name.toml" --data "$folder/data" --weights "$folder/weights" --jobs "$at_once" \
        --stop-after "$left" --out "$work/runs/$name" --record "$work/results" ${GPARA_FLAGS:-} >"$work/runs/$name.out" || status=1
    # After every configuration: a call that is killed brings back what is there.
    tar -czf "$out/runs.tar.gz.new" -C "$work" runs results
    mv "$out/runs.tar.gz.new" "$out/runs.tar.gz"
done
exit $status

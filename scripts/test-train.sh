#!/usr/bin/env bash
# Tests the training crate on CPU. Uses LIBTORCH or LIBTORCH_USE_PYTORCH when set, else fetches libtorch from PyPI
# (about 530 MB, kept in target/libtorch). Skips, and says so, only where pip has no network.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${LIBTORCH:-}" ] && [ -z "${LIBTORCH_USE_PYTORCH:-}" ]; then
    folder="$PWD/target/libtorch"
    if ! python3 -m pip download --quiet --no-deps --dest "$(mktemp -d)" nvidia-cuda-cupti==13.0.85 \
        --only-binary=:all: --platform manylinux_2_28_x86_64 >/dev/null 2>&1; then
        echo "skipped: gpara-train is not tested because pip cannot reach PyPI for libtorch; set LIBTORCH to test it"
        exit 0
    fi
    scripts/get-libtorch.sh "$folder"
    export LIBTORCH="$folder/torch"
    export LD_LIBRARY_PATH="$folder/torch/lib:$folder/nvidia/cu13/lib:${LD_LIBRARY_PATH:-}"
fi
cargo clippy -p gpara-train --all-targets -- -D warnings
cargo test -p gpara-train

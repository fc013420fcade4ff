#!/usr/bin/env bash
# Tests the training crate, and the command with its feature `train`, on CPU. Uses LIBTORCH or LIBTORCH_USE_PYTORCH when
# set, else fetches libtorch from PyPI into target/libtorch. Skips, and says so, only where pip cannot reach PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${LIBTORCH:-}${LIBTORCH_USE_PYTORCH:-}" ] && [ ! -e target/libtorch/complete ]; then
    probe=$(mktemp -d)
    trap 'rm -rf "$probe"' EXIT
    if ! python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$probe" nvidia-cuda-cupti==13.0.85 \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux2014_x86_64 >/dev/null 2>&1; then
        echo "skipped: gpara-train is not tested because pip cannot reach PyPI for libtorch; set LIBTORCH to test it"
        exit 0
    fi
fi
variables=$(scripts/get-libtorch.sh target/libtorch)
eval "$variables"
cargo clippy -p gpara-train -p gpara-cli --features gpara-cli/train --all-targets -- -D warnings
cargo test -p gpara-train

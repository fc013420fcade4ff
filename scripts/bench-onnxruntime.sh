#!/usr/bin/env bash
# Forward pass of a network in rten and in ONNX Runtime on the same file, one after the other. Needs python3 and pip.
# usage: scripts/bench-onnxruntime.sh [MODEL.onnx]   (default: the first of models/)
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
python=$target/bench-venv/bin/python
if [ $# -gt 0 ]; then
    GPARA_BENCH_MODEL=$(realpath "$1")
    export GPARA_BENCH_MODEL
fi
if [ ! -x "$python" ]; then
    python3 -m venv "$target/bench-venv"
    "$python" -m pip install --quiet onnxruntime numpy
fi
cargo test --release -p gpara-nn --test speed -- --ignored bench_forward_pass --nocapture
"$python" scripts/bench_onnxruntime.py "$target/tmp/forward_rten.csv" 128 128

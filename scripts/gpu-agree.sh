#!/usr/bin/env bash
# Compares the networks on the GPU with the same networks on the CPU, both by libtorch, on a machine with a GPU:
#   scripts/gpu-agree.sh TASK FOLDER [TOLERANCE]
# TASK is radio or depth, FOLDER one of scripts/gpu-pack.sh. Two scenes, 491 random points: the errors of a chain of five steps and
# of one evaluation of the mean network may differ by TOLERANCE (default .0005 gray/255 or m) from GPU to CPU, which rounds
# nothing to TF32. A minute.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    sed -n 2,7p "$0" >&2
    exit 2
fi
task=$1 folder=$2 tolerance=${3:-.0005}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
xz --decompress --stdout "$folder/gpara.xz" >"$work/gpara"
chmod +x "$work/gpara"
eval "$(LIBTORCH_USE_PYTORCH=${LIBTORCH_USE_PYTORCH-1} scripts/get-libtorch.sh "$work/libtorch")"
methods=one-shot/random-491
if [ -e "$folder/weights/${task}_paper_prior.safetensors" ]; then methods+=,ddnm/random-491; fi
run() { # NAME
    "$work/gpara" eval "configs/eval_$task.toml" --data "$folder/data" --weights "$folder/weights" --limit 2 --jobs 1 \
        --only "$methods" --out "$work/$1" >"$work/$1.txt"
}
run gpu
CUDA_VISIBLE_DEVICES='' run cpu
python3 - "$work" "$tolerance" <<'PYTHON'
import json, pathlib, sys
work, tolerance = pathlib.Path(sys.argv[1]), float(sys.argv[2])


def errors(name):
    cases = map(json.loads, (work / name / "results.jsonl").read_text().splitlines())
    return {(case["method"], case["scene"]): case["values"]["rmse"] for case in cases}


gpu, cpu = errors("gpu"), errors("cpu")
assert gpu.keys() == cpu.keys() and gpu, "the two runs have other cases"
worst = max(abs(gpu[key] - cpu[key]) for key in gpu)
for key in sorted(gpu):
    print(*key, f"GPU {gpu[key]:.6f} CPU {cpu[key]:.6f}")
print(f"largest difference {worst:.2e}, allowed {tolerance}")
sys.exit(worst > tolerance)
PYTHON

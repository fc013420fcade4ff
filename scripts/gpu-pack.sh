#!/usr/bin/env bash
# Gathers what scripts/gpu-evaluate.sh needs on a machine with a GPU that sees nothing but the working tree:
#   scripts/gpu-pack.sh TASK DATA FOLDER
# TASK is radio or depth, DATA the folder of its data set, FOLDER the new folder. It holds the program, the networks of the task
# (priors and mean networks for libtorch, all others as exported), the test part of the data and its first 8 validation scenes.
# GPARA names the program, built with `GPARA_EMBED=none cargo build --release -p gpara-cli --features train`;
# GPARA_TRAIN the trainer (`cargo build --release -p gpara-train`).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 3 ] || { [ "$1" != radio ] && [ "$1" != depth ]; }; then
    sed -n 2,8p "$0" >&2
    exit 2
fi
task=$1 data=$2 folder=$3
gpara=${GPARA:-target/release/gpara} trainer=${GPARA_TRAIN:-target/release/gpara-train}
mkdir -p "$folder/weights" "$folder/data"

for card in models/"$task"-*.toml; do
    name=$(basename "$card" .toml)
    # A network that no evaluation and no preset names would only cost megabytes.
    if ! grep -qs "\"$name\"" configs/eval_"$task"*.toml configs/preset_*.toml; then continue; fi
    case $(sed -n 's/^role = "\(.*\)"/\1/p' "$card") in
        prior | mean)
            run=${name//-/_} config=${name//-/_}
            # The last of the runs that made it, whose channels it has.
            if [ "$name" = depth-best-mean ]; then config=depth_best_mean_guided_long; fi
            "$trainer" import "models/$name.onnx" "configs/$config.toml" --out "$folder/weights" >&2
            if [ "$config" != "$run" ]; then mv "$folder/weights/$config.safetensors" "$folder/weights/$run.safetensors"; fi
            ;;
        *) cp "$card" "models/$name.onnx" "$folder/weights" ;;
    esac
done

python3 - "$task" "$data" "$folder/data" <<'PYTHON'
import json, pathlib, shutil, sys
task, data, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
split = json.loads((data / "split.json").read_text())


def validation():
    if task == "radio":
        return split["val"]
    # As gpara_tasks::depth::DepthDataset: whole runs of frames, the shortest first, up to a tenth.
    runs = []
    for frame in sorted(split["train"]):
        if runs and runs[-1][-1] + 1 == frame:
            runs[-1].append(frame)
        else:
            runs.append([frame])
    taken = []
    for run in sorted(runs, key=lambda run: (len(run), run[0])):
        if 10 * (len(taken) + len(run)) > len(split["train"]):
            break
        taken += run
    return sorted(taken)


files = ["split.json"]
for id in split["test"] + validation()[:8]:
    if task == "radio":
        map = id.split("_")[0]
        files += [f"antenna/{map}.json", f"png/buildings_complete/{map}.png", f"gain/RayLaunch/{id}.png"]
    else:
        files += [f"rgb/{id:04}.jpg", f"depth/{id:04}.png"]
for file in dict.fromkeys(files):
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(data / file, folder / file)
PYTHON

xz -6 --stdout "$gpara" >"$folder/gpara.xz"
du -sh "$folder"/* >&2

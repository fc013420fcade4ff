#!/usr/bin/env bash
# Fetches libtorch 2.11 from PyPI into a folder and prints the variables that building and running gpara-train need:
#   eval "$(scripts/get-libtorch.sh target/libtorch)"
# An installation that LIBTORCH names, or with LIBTORCH_USE_PYTORCH=1 the PyTorch of python3, is taken as it is.
# About 550 MB to download; 1.4 GB are unpacked. Needs python3 with pip, and unzip or python3's zipfile.
set -euo pipefail

torch=2.11.0
# What libtorch_cpu.so of that wheel loads even without a GPU.
runtime=(nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96)
platforms=(--platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux2014_x86_64)

exports() { # TORCH_FOLDER LIBRARY_FOLDERS
    printf 'export LIBTORCH=%q\nexport LD_LIBRARY_PATH=%q"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n' "$1" "$2"
}

if [ -n "${LIBTORCH_USE_PYTORCH:-}" ]; then
    installed=$(python3 -c 'import os, torch; print(torch.__version__.split("+")[0], os.path.dirname(torch.__file__))') || {
        echo "LIBTORCH_USE_PYTORCH is set, but python3 cannot import torch" >&2
        exit 1
    }
    if [ "${installed%% *}" != "$torch" ]; then
        echo "python3 has PyTorch ${installed%% *}, $torch is needed: unset LIBTORCH_USE_PYTORCH to fetch it" >&2
        exit 1
    fi
    printf 'export LIBTORCH_USE_PYTORCH=1\n'
    printf 'export LD_LIBRARY_PATH=%q"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n' "${installed#* }/lib"
    exit 0
fi
if [ -n "${LIBTORCH:-}" ]; then
    if [ ! -e "$LIBTORCH/lib/libtorch_cpu.so" ]; then
        echo "LIBTORCH = $LIBTORCH has no lib/libtorch_cpu.so" >&2
        exit 1
    fi
    cuda=$(dirname "$LIBTORCH")/nvidia/cu13/lib
    exports "$LIBTORCH" "$LIBTORCH/lib$([ -d "$cuda" ] && printf ':%s' "$cuda")"
    exit 0
fi

if [ $# -ne 1 ]; then
    echo "usage: scripts/get-libtorch.sh FOLDER   (or LIBTORCH=FOLDER_OF_TORCH, or LIBTORCH_USE_PYTORCH=1)" >&2
    exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
if [ ! -e "$folder/complete" ]; then
    wheels=$(mktemp -d "$folder/wheels.XXXXXX")
    trap 'rm -rf "$wheels"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
        "${platforms[@]}" --dest "$wheels" "torch==$torch" "${runtime[@]}" >&2
    # Only what building and running need: headers and libraries.
    python3 - "$folder" "$wheels"/*.whl <<'PYTHON'
import sys, zipfile
folder, *wheels = sys.argv[1:]
for wheel in wheels:
    with zipfile.ZipFile(wheel) as archive:
        wanted = ("torch/lib/", "torch/include/", "nvidia/cu13/lib/")
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(wanted)])
PYTHON
    touch "$folder/complete"
fi
exports "$folder/torch" "$folder/torch/lib:$folder/nvidia/cu13/lib"

#!/usr/bin/env python3
"""ONNX Runtime on the network file that `bench_forward_pass` of gpara-nn has just timed, side by side.

usage: bench_onnxruntime.py FORWARD_RTEN.csv ROWS COLS
"""
import csv
import statistics
import sys
import time

import numpy
import onnxruntime

RUNS = 15


def median_milliseconds(model, threads, rows, cols):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    channels = next(each.shape[1] for each in session.get_inputs() if each.name == "context")
    random = numpy.random.default_rng(1)
    inputs = {
        "x": random.standard_normal((1, 1, rows, cols), dtype=numpy.float32),
        "t": numpy.array([500], numpy.float32),
        "context": random.random((1, channels, rows, cols), dtype=numpy.float32),
    }
    times = []
    for run in range(RUNS + 1):
        begin = time.perf_counter()
        (output,) = session.run(["output"], inputs)
        times.append((time.perf_counter() - begin) * 1e3)
    assert numpy.isfinite(output).all()
    # The first run warms up.
    return statistics.median(times[1:])


def main():
    table, rows, cols = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(f"| threads | rten, ms | ONNX Runtime {onnxruntime.__version__}, ms | ratio |")
    print("|---|---|---|---|")
    with open(table, newline="") as file:
        for row in csv.DictReader(file):
            if row["batch"] != "1":
                continue
            rten, runtime = float(row["median_ms"]), median_milliseconds(row["model"], int(row["threads"]), rows, cols)
            print(f"| {row['threads']} | {rten:.0f} | {runtime:.0f} | {rten / runtime:.2f} |")


if __name__ == "__main__":
    main()

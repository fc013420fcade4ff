"""Times solves of SciPy's SuperLU on one system: superlu.py SYSTEM.json prints {"solve_ms": [...]}.

The system is symmetric, given by its lower half and an elimination order; each answer is checked.
"""

import json
import sys
import time

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import splu

RUNS = 15


def main():
    with open(sys.argv[1]) as file:
        system = json.load(file)
    rows, cols, values = (np.array(column) for column in zip(*system["entries"]))
    order = np.array(system["order"])
    position = np.empty_like(order)
    position[order] = np.arange(order.size)
    rows, cols = position[rows], position[cols]
    below = rows != cols
    size = order.size
    matrix = coo_matrix(
        (
            np.concatenate([values, values[below]]),
            (np.concatenate([rows, cols[below]]), np.concatenate([cols, rows[below]])),
        ),
        shape=(size, size),
    ).tocsc()
    # The order of elimination is given; pivots stay on the diagonal, as for a Cholesky factorisation.
    factor = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    rhs, expected = np.array(system["rhs"])[order], np.array(system["expected"])[order]
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        solution = factor.solve(rhs)
        times.append(1e3 * (time.perf_counter() - start))
        error = np.abs(solution - expected).max() / np.abs(expected).max()
        if not error < 1e-5:
            sys.exit(f"SuperLU is off by {error}")
    print(json.dumps({"solve_ms": times}))


if __name__ == "__main__":
    main()

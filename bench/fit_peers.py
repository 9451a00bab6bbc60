"""The peers' side of the benchmark of fits: reads a job per line, answers with its CPU seconds.

Each job is the whole way from nothing to a factored system by the paper's recipe: draw N points of the uniform prior, evaluate
their features, multiply, add the ridge, factor. Jobs with gram in their names do the product alone, with features given.
"""

import functools
import json
import os
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import scipy.linalg  # noqa: E402
import scipy.sparse  # noqa: E402

N, D, PAIRS, R, W, BINS, RIDGE = 100_000, 10, 100, 80, 80, 100, 1e-5
rng = np.random.default_rng(0)


def factor(gram):
    gram[np.diag_indices_from(gram)] += RIDGE
    return scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)


class Jobs:
    def __init__(self):
        self.omega = rng.standard_normal((D, PAIRS))
        self.a = rng.standard_normal((D, R))
        self.b = rng.random(R)

    def rff_numpy(self):
        t = rng.random((N, D)) @ self.omega
        p = np.hstack([np.cos(t), np.sin(t)])
        factor(p.T @ p / N)

    def rff_numpy_chunks(self):
        gram, p = np.zeros((2 * PAIRS, 2 * PAIRS)), np.empty((1000, 2 * PAIRS))
        for _ in range(0, N, 1000):
            t = rng.random((1000, D)) @ self.omega
            np.cos(t, out=p[:, :PAIRS])
            np.sin(t, out=p[:, PAIRS:])
            gram += p.T @ p
        factor(gram / N)

    def _one_hot(self):
        h = np.floor(rng.random((N, D)) @ self.a + self.b).astype(np.int64) % W + np.arange(R) * W
        indptr = np.arange(0, N * R + 1, R)
        return scipy.sparse.csr_matrix((np.ones(N * R), h.ravel(), indptr), shape=(N, R * W))

    def race_scipy_full(self):
        p = self._one_hot()
        factor((p.T @ p).toarray() / N)

    def race_scipy_active(self):
        p = self._one_hot()
        hit = np.flatnonzero(np.asarray(p.sum(0)).ravel())
        p = p[:, hit]
        factor((p.T @ p).toarray() / N)

    def _bins(self):
        return [(rng.random(N) * BINS).astype(np.int64) for _ in range(D)]

    def hist_numpy_matmul(self):
        p = np.zeros((N, D * BINS), dtype=np.float32)
        for k, bins in enumerate(self._bins()):
            p[np.arange(N), k * BINS + bins] = 1
        factor((p.T @ p).astype(float) / N)

    def hist_numpy_add_at(self):
        gram = np.zeros((D * BINS, D * BINS))
        bins = [k * BINS + bins for k, bins in enumerate(self._bins())]
        for i in range(D):
            for j in range(i + 1):
                np.add.at(gram, (bins[i], bins[j]), 1)
        factor(gram / N)

    def hist_numpy_bincount(self):
        gram = np.zeros((D * BINS, D * BINS))
        bins = self._bins()
        for i in range(D):
            for j in range(i + 1):
                pairs = np.bincount(bins[i] * BINS + bins[j], minlength=BINS * BINS)
                gram[i * BINS : (i + 1) * BINS, j * BINS : (j + 1) * BINS] = pairs.reshape(BINS, BINS)
        factor(gram / N)

    @functools.cached_property
    def bins(self):
        return self._bins()

    @functools.cached_property
    def one_hot(self):
        p = np.zeros((N, D * BINS), dtype=np.float32)
        for k, bins in enumerate(self.bins):
            p[np.arange(N), k * BINS + bins] = 1
        return p

    def hist_gram_matmul(self):
        self.one_hot.T @ self.one_hot / N

    def hist_gram_bincount(self):
        gram = np.zeros((D * BINS, D * BINS))
        for i in range(D):
            for j in range(i + 1):
                pairs = np.bincount(self.bins[i] * BINS + self.bins[j], minlength=BINS * BINS)
                gram[i * BINS : (i + 1) * BINS, j * BINS : (j + 1) * BINS] = pairs.reshape(BINS, BINS)
        gram / N

    def hist_factor(self):
        """The factorisation alone: what no way of counting pairs can save."""
        factor(np.eye(D * BINS) + 0.1)


def main():
    jobs = Jobs()
    for line in sys.stdin:
        job = getattr(jobs, line.strip())
        start = time.process_time()
        job()
        print(json.dumps({"cpu": time.process_time() - start, "records": 1}), flush=True)


main()

"""The peers: each turns a coded table into synthetic rows of codes under a budget.

Run by itself (`systems.py JOB.json`), it makes one such table and prints its scores and its cost.
"""

import itertools
import json
import os
import resource
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
from numpy.polynomial.hermite_e import hermeval  # noqa: E402
from scipy.optimize import brentq  # noqa: E402
from scipy.special import gammaln, ndtr, ndtri  # noqa: E402

import sets  # noqa: E402

# Synthetic rows that are asked: enough that drawing them adds next to nothing to any error.
ROWS = 200_000


def gaussian_mu(epsilon, delta):
    """The largest L2 sensitivity over standard deviation that is (ε, δ)-private (Balle and Wang, 2018)."""
    spent = lambda mu: ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu) - delta
    return brentq(spent, 1e-6 * epsilon, 10 * np.sqrt(epsilon) + 10 * epsilon)


def noise(rng, size, share, l1, l2, epsilon, delta):
    """Noise for sums on which one record weighs at most `l1` and `l2`, for a share of the budget.

    Gaussian mechanisms of μ₁ and μ₂ are together one of √(μ₁² + μ₂²), so with δ the shares are of μ²; without, of ε.
    """
    if delta:
        return rng.normal(0, l2 / (gaussian_mu(epsilon, delta) * np.sqrt(share)), size)
    return rng.laplace(0, l1 / (epsilon * share), size)


def simplex(v):
    """The nearest probabilities."""
    u = np.sort(v)[::-1]
    over = np.cumsum(u) - 1
    k = np.nonzero(u - over / np.arange(1, len(u) + 1) > 0)[0][-1]
    return np.maximum(v - over[k] / (k + 1), 0)


def marginals(codes, sizes, share, epsilon, delta, rng):
    """Noisy marginals; the number of rows is taken for known, which helps this peer a little."""
    n, d = codes.shape
    draw = lambda m: noise(rng, m, share, d, np.sqrt(d), epsilon, delta)
    laws = [simplex((np.bincount(c, minlength=m) + draw(m)) / n) for c, m in zip(codes.T, sizes)]
    return [law / law.sum() for law in laws]


def independent(codes, sizes, epsilon, delta, rng):
    """Every column by itself."""
    laws = marginals(codes, sizes, 1.0, epsilon, delta, rng)
    return np.array([rng.choice(m, ROWS, p=law) for m, law in zip(sizes, laws)]).T


def copula(codes, sizes, epsilon, delta, rng, share, clip):
    """DP-Copula (Li, Xiong and Jiang, 2014) with a Gaussian copula.

    A cell's score is the normal quantile of its middle rank under the released marginals, clipped; products of scores
    are summed with noise. What they would be for a latent correlation ρ is Σ ρᵏ aᵢₖ aⱼₖ with a the Hermite coefficients
    of a column's scores, so that ρ is found by solving for it, and atoms and clipping do not bias it.
    """
    n, d = codes.shape
    laws = marginals(codes, sizes, share, epsilon, delta, rng)
    latent = np.linspace(-6, 6, 4001)
    weight = np.exp(-(latent**2) / 2)
    weight /= weight.sum()
    orders = np.arange(21)
    hermite = [hermeval(latent, np.eye(k + 1)[k]) / np.exp(gammaln(k + 1) / 2) for k in orders]
    scores, coefficients = [], []
    for code, law in zip(codes.T, laws):
        upper = np.cumsum(law)
        middle = np.clip(upper - law / 2, 1e-6, 1 - 1e-6)
        score = np.clip(ndtri(middle), -clip, clip)
        at = np.clip(np.searchsorted(upper, ndtr(latent)), 0, len(law) - 1)
        mean = law @ score
        scores.append(np.clip(score[code] - mean, -clip, clip))
        centred = np.clip(score[at] - mean, -clip, clip)
        coefficients.append(np.array([weight @ (centred * h) for h in hermite]))
    pairs = list(itertools.combinations(range(d), 2))
    z = noise(rng, len(pairs), 1 - share, clip**2 * len(pairs), clip**2 * np.sqrt(len(pairs)), epsilon, delta)
    found = np.eye(d)
    for (i, j), extra in zip(pairs, z):
        product, powers = (scores[i] @ scores[j] + extra) / n, coefficients[i] * coefficients[j]
        miss = lambda rho: powers @ rho**orders - product
        low, high = -0.995, 0.995
        rho = low if miss(low) >= 0 else high if miss(high) <= 0 else brentq(miss, low, high)
        found[i, j] = found[j, i] = rho
    values, vectors = np.linalg.eigh(found)
    found = (vectors * np.maximum(values, 1e-4)) @ vectors.T
    scale = np.sqrt(np.diag(found))
    normal = rng.standard_normal((ROWS, d)) @ np.linalg.cholesky(found / np.outer(scale, scale)).T
    ranks = ndtr(normal)
    return np.array([np.clip(np.searchsorted(np.cumsum(law), u), 0, len(law) - 1) for law, u in zip(laws, ranks.T)]).T


# Steps of mirror descent: of dpmm's thousands most change nothing in any score (MST on LifeSci: 500 as good as 5000).
STEPS = {"mst": 500, "priv-bayes": 500, "aim": 200}


def dpmm(model, codes, sizes, epsilon, delta, rng, **settings):
    """A graphical model of dpmm, on our cells."""
    import pandas as pd
    from dpmm.models import mst
    from dpmm.pipelines import PIPELINE_DICT

    # MST chooses its tree by a model of single columns, for which the number of steps is no setting.
    inference = mst.FactoredInference
    mst.FactoredInference = lambda *all, iters, **others: inference(*all, iters=min(iters, STEPS[model]), **others)
    names = [f"c{at}" for at in range(len(sizes))]
    frame = pd.DataFrame(codes, columns=names).astype(int)
    budget = dict(epsilon=epsilon, delta=delta)
    steps = dict(n_iters=STEPS[model])
    pipeline = PIPELINE_DICT[model](**budget, disable_processing=True, n_jobs=1, gen_kwargs=steps, **settings)
    pipeline.fit(frame, domain=dict(zip(names, map(int, sizes))), random_state=int(rng.integers(2**31)))
    mst.FactoredInference = inference
    return pipeline.generate(n_records=ROWS)[names].to_numpy(int)


def peak_memory():
    """In MB. The kernel's other count of it, ru_maxrss, starts from what the parent used."""
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def release(system, settings, codes, sizes, epsilon, delta, rng):
    settings = {key: value for key, value in settings.items() if key != "bins"}
    if system == "independent":
        return independent(codes, sizes, epsilon, delta, rng)
    if system == "copula":
        return copula(codes, sizes, epsilon, delta, rng, clip=clip(epsilon, delta), **settings)
    return dpmm(system, codes, sizes, epsilon, delta, rng, **settings)


def clip(epsilon, delta):
    """Narrow scores stand out from more noise; wide ones say more about the tails. Chosen as was best on three sets."""
    if delta:
        return 1.5 if epsilon < 0.5 else 2.0
    return 1.0 if epsilon < 0.5 else 1.5 if epsilon < 5 else 2.0


def main(path):
    job = json.loads(open(path).read())
    resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"] + 5))
    data = sets.load(job["data"], job["set"])
    coded = sets.Coded(data.columns, job["settings"]["bins"])
    codes = coded.encode(data.table)
    if job["system"] in ("aim", "mst", "priv-bayes"):
        import dpmm.pipelines  # noqa: F401  (importing it is not the fit's cost)
    peak = None
    for run in job["runs"]:
        rng = np.random.default_rng([run, 2026])
        start = time.process_time()
        rows = release(job["system"], job["settings"], codes, coded.sizes, job["epsilon"], job["delta"], rng)
        cpu = time.process_time() - start
        peak = peak or peak_memory()
        start = time.process_time()
        table = coded.decode(rows, rng)
        scores = data.scores(data.answers(table))
        auc = data.auc(table)
        if auc is not None:
            scores["auc"] = auc
        asked = time.process_time() - start
        print(json.dumps({"run": run, "scores": scores, "cpu": cpu, "ask_cpu": asked, "memory": peak}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

"""Recomputes fits on public points with numpy: dense matrices and the ridge by its definition.

    fit.py DIRECTORY

Takes every fit-NAME.json with fit-NAME.release.json beside it, as the example `oracle_fit` writes them: the points, their
features as integers, and what the library answered. Functions are evaluated here, noise and sums are read from the
release, and values, every part of their errors, and the weights of the points must agree to one part in 10⁸. Prints a line
per file and exits 0 when all agree, 1 otherwise.
"""

import csv
import io
import json
import math
import pathlib
import sys

import numpy as np

import naive

TOLERANCE = 1e-8


def deviation(noise, features=1):
    """The standard deviation of the noise on each of so many features."""
    if noise["kind"] == "one-hot-knorm":
        return np.hypot(noise["deviation"] / 2**20, 1 / np.sqrt(12))
    scale = noise["scale"]["numerator"] / noise["scale"]["denominator"]
    if noise["kind"] == "disc-knorm":
        return scale / 2 * np.sqrt((features + 1) * (features + 2))
    assert noise["kind"] == "discrete-laplace"
    q = np.exp(-1 / scale)
    return np.sqrt(2 * q) / (1 - q)


def functions(text):
    """The questions of `oracle_fit` at each point, in its order: a missing number counts nothing."""
    rows = list(csv.DictReader(io.StringIO(text)))
    a = np.array([float(row["a"]) for row in rows])
    b = np.array([float(row["b"] or 0) for row in rows])
    red = np.array([row["c"] == "red" for row in rows])
    return np.stack([np.ones(len(a)), a, a * a, b > 20, red & (a <= 0.5), a * b], axis=1).astype(float)


def rows(release):
    """The number of rows and the deviation of its error: the count and the cells of each table or hash tell it, each with noise."""
    columns = [naive.Column(raw) for raw in release["schema"]["column"]]
    told = [(release["count"]["value"], deviation(release["count"]["noise"]) ** 2)]
    for block in release["blocks"]:
        spec, sums = block["map"], block["sums"]
        if block["body"]["shape"] != "one-hot":
            continue
        if spec["kind"] == "race":
            sizes = [spec["w"]] * spec["r"]
        else:
            sizes = [math.prod(cells.count for _, cells in group) for group in naive.table_groups(spec, columns)]
        assert sum(sizes) == len(sums)
        for size, end in zip(sizes, np.cumsum(sizes)):
            told.append((sum(sums[end - size : end]), size * deviation(block["noise"], len(sums)) ** 2))
    value, variance = np.array(told, float).T
    return max(value @ (1 / variance) / (1 / variance).sum(), 1.0), (1 / variance).sum() ** -0.5


class Ridge:
    """Posterior of totals when the density ratio at the points has variance tau in every direction."""

    def __init__(self, release, integers, tau, centred):
        n, self.count_deviation = rows(release)
        blocks = release["blocks"]
        grid = np.concatenate([np.full(len(block["sums"]), float(block["grid"])) for block in blocks])
        noise = [np.full(len(block["sums"]), deviation(block["noise"], len(block["sums"]))) for block in blocks]
        self.sigma = np.concatenate(noise) / grid / n
        self.z = np.concatenate([block["sums"] for block in blocks]) / grid / n
        self.n, self.tau, self.centred = n, tau, centred
        self.p = integers / grid
        self.mu = self.p.mean(0) if centred else np.zeros(self.p.shape[1])
        self.q = self.p - self.mu
        # (1/N) PᵀP + λ I, with λ = σ²/n² for Theorem 1, times tau.
        self.k = tau * self.q.T @ self.q / len(self.q) + np.diag(self.sigma**2)

    def totals(self, f):
        prior = f.mean(0) if self.centred else np.zeros(f.shape[1])
        g = f - prior
        cross = self.tau * self.q.T @ g / len(g)
        a = np.linalg.solve(self.k, cross)
        alpha = np.linalg.solve(self.k, self.z - self.mu)
        self.weights = float(self.centred) + self.tau * self.q @ alpha
        # Points stand for rows by weights of mean 1, which those of an uncentred fit do not have by themselves.
        self.weights /= self.weights.mean()
        mean = prior + a.T @ (self.z - self.mu)
        privacy = (a * (self.sigma**2)[:, None]).T @ a
        posterior = self.tau * g.T @ g / len(g) - cross.T @ a
        slopes = prior - a.T @ self.mu
        spread = f * self.weights[:, None] - mean
        return self.n * mean, {
            "privacy": self.n**2 * privacy,
            "count": self.count_deviation**2 * np.outer(slopes, slopes),
            "sampling": self.n**2 * spread.T @ spread / len(f) ** 2,
            "approximation": self.n**2 * (posterior - privacy),
        }


def disagreements(path):
    case = json.loads(path.read_text())
    release = json.loads(path.with_name(path.stem + ".release.json").read_text())
    f, integers = functions(case["points"]), np.array(case["features"], dtype=float)
    wrong, compared, worst = [], 0, 0.0

    def compare(what, ours, theirs, scale):
        nonlocal compared, worst
        compared += 1
        worst = max(worst, abs(ours - theirs) / scale) if scale > 0 else worst
        if not abs(ours - theirs) <= TOLERANCE * scale:
            wrong.append(f"{what}: {ours!r} here, {theirs!r} there")

    for fit in case["fits"]:
        rule = fit["rule"], fit["multiplier"], fit["centred"]
        tau = 1 / fit["multiplier"] / (rows(release)[0] if fit["rule"] == "paper" else 1)
        ridge = Ridge(release, integers, tau, fit["centred"])
        values, parts = ridge.totals(f)
        size = ridge.n * np.abs(f).max(0)
        for i, answer in enumerate(fit["answers"]):
            compare(f"{rule} value {i}", values[i], answer["value"], size[i])
            for name, covariance in parts.items():
                # Variances: their roots lose half the digits where all is cancelled.
                compare(f"{rule} {name} {i}", max(covariance[i, i], 0), answer["parts"][name] ** 2, size[i] ** 2)
        for i, pair in enumerate(fit["pairs"], 1):
            gradient = np.zeros(f.shape[1])
            gradient[i - 1], gradient[i] = 1, -2
            for name, covariance in parts.items():
                scale = (size[i - 1] + 2 * size[i]) ** 2
                compare(f"{rule} {name} {i - 1}-{i}", max(gradient @ covariance @ gradient, 0), pair[name] ** 2, scale)
        heaviest = np.abs(ridge.weights).max()
        for i, (ours, theirs) in enumerate(zip(ridge.weights, fit["weights"], strict=True)):
            compare(f"{rule} weight {i}", ours, theirs, heaviest)
    return wrong, compared, worst


def main():
    files = sorted(path for path in pathlib.Path(sys.argv[1]).glob("fit-*.json") if not path.stem.endswith(".release"))
    if not files:
        sys.exit("there is no fit-*.json")
    failed, numbers, largest = False, 0, 0.0
    for path in files:
        wrong, compared, worst = disagreements(path)
        numbers, largest = numbers + compared, max(largest, worst)
        print(f"{path.name}: {compared} numbers, {len(wrong)} differ")
        for line in wrong[:10]:
            print(f"  {line}")
        failed |= bool(wrong)
    print(f"= ridge in numpy | {numbers} numbers of {len(files)} releases | relative deviation {largest:.1e}, limit {TOLERANCE:.0e}")
    sys.exit(failed)


main()

"""Compares our exact noise with OpenDP's: the same distributions, drawn by other code.

    opendp_noise.py DRAWS [COUNT]

DRAWS is the built example `draws`. Needs opendp and numpy. For each kind and scale it takes COUNT draws (200,000 unless
given) of either sampler and compares them by a two-sample chi-square test on cells that hold at least 50 draws.
Prints a line for each and one with the worst; exits 1 if one fails. An honest pair of samplers fails somewhere with probability below 1e-6.
"""

import math
import statistics
import subprocess
import sys

import numpy
import opendp.prelude as dp

dp.enable_features("contrib")

# Numerator and denominator: binary fractions, which OpenDP's floating-point scale holds exactly, so that the two
# distributions are the same. The last is as large as the noise of Fourier features.
SCALES = [(1, 4), (1, 1), (5, 2), (37, 8), (1000, 1), (141 << 20, 1)]
FALSE_ALARM = 1e-6


def ours(program, kind, scale, count):
    arguments = [program, kind, *map(str, scale), str(count)]
    return numpy.array(subprocess.run(arguments, check=True, capture_output=True).stdout.split(), dtype=numpy.int64)


def theirs(kind, scale, count):
    space = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "laplace":
        sampler = dp.m.make_laplace(space, dp.l1_distance(T=int), scale[0] / scale[1])
    else:
        sampler = dp.m.make_gaussian(space, dp.l2_distance(T=int), scale[0] / scale[1])
    return numpy.array(sampler([0] * count), dtype=numpy.int64)


def z_score(a, b):
    """How far two samples of one size are apart: the chi-square statistic as a standard normal (Wilson-Hilferty)."""
    pooled = numpy.sort(numpy.concatenate([a, b]))
    # A cell for each value if there are few, and for each fiftieth of the draws otherwise. Small cells join the next.
    values = numpy.unique(pooled)
    edges = values if len(values) < 200 else numpy.unique(pooled[:: len(pooled) // 50])
    counts = [numpy.bincount(numpy.searchsorted(edges, x, side="right"), minlength=len(edges) + 1) for x in (a, b)]
    cells, left = [], numpy.zeros(2)
    for pair in zip(*counts):
        left = left + pair
        if left.sum() >= 50:
            cells.append(left)
            left = numpy.zeros(2)
    cells[-1] = cells[-1] + left
    statistic = sum((x - y) ** 2 / (x + y) for x, y in cells)
    freedom = len(cells) - 1
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread), freedom


def main(program, count=200_000):
    tests = [(kind, scale) for kind in ("laplace", "gaussian") for scale in SCALES]
    limit = statistics.NormalDist().inv_cdf(1 - FALSE_ALARM / len(tests))
    failed, worst = False, -math.inf
    for kind, scale in tests:
        z, freedom = z_score(ours(program, kind, scale, count), theirs(kind, scale, count))
        failed |= z > limit
        worst = max(worst, z)
        verdict = "differs" if z > limit else "agrees"
        name = f"{kind} {scale[0]}/{scale[1]}"
        print(f"{name}: z = {z:+.2f} over {freedom} degrees of freedom, limit {limit:.2f}, {verdict}")
    print(f"= OpenDP's samplers | {len(tests)} laws, {count} draws each | z = {worst:+.2f}, limit {limit:.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))

"""Compares our calibration of Gaussian noise with that of the library dp-accounting.

    accounting.py CALIBRATIONS

CALIBRATIONS is the built example `calibrations`. Needs dp-accounting. The δ of the noise that we take at (ε, δ), by their
closed form, must not exceed δ. Either it comes within a thousandth of it (Theorem 3a), or the ε that they derive from the noise
as zero-concentrated comes within a thousandth of ε (Theorem 3b). The ε that we say ρ implies must be theirs, from a fine grid of
orders, to a thousandth. Prints the worst of each; exits 1 if one fails.
"""

import math
import subprocess
import sys

import numpy
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

TOLERANCE = 1e-3


def epsilon_of(rho, delta):
    # Fine around the best order, which is near 1 + √(ln(1/δ)/ρ).
    best = 1.0 + math.sqrt(math.log(1.0 / delta) / rho)
    orders = 1.0 + (best - 1.0) * numpy.exp(numpy.linspace(-4, 4, 4001))
    return compute_epsilon(orders, rho * orders, delta)[0]


def main(program):
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    deltas, tight, conversions, spent = [], [], [], []
    for kind, *numbers in map(str.split, lines):
        if kind == "approximate":
            epsilon, delta, mu_squared = map(float, numbers)
            theirs = GaussianPrivacyLoss(1.0 / math.sqrt(mu_squared)).get_delta_for_epsilon(epsilon)
            where = f"ε = {epsilon}, δ = {delta}"
            deltas.append((theirs / delta, where))
            tight.append((max(theirs / delta, epsilon_of(mu_squared / 2.0, delta) / epsilon), where))
        else:
            rho, delta, epsilon, twice_rho = map(float, numbers)
            theirs = epsilon_of(rho, delta)
            conversions.append((epsilon / theirs if theirs > 0 else 1.0, f"ρ = {rho}, δ = {delta}"))
            spent.append((twice_rho / (2.0 * rho), f"ρ = {rho}"))
    failed, worst = False, 0.0
    for name, found, low, high in [
        ("δ of the noise over δ", deltas, 0.0, 1.0),
        ("the larger of that and of ε by zCDP over ε", tight, 1.0 - TOLERANCE, math.inf),
        ("ε of ρ over theirs", conversions, 1.0 - TOLERANCE, 1.0 + TOLERANCE),
        ("ρ of the noise over ρ", spent, 1.0 - TOLERANCE, 1.0),
    ]:
        (least, where_least), (most, where_most) = min(found), max(found)
        fine = low <= least and most <= high
        failed |= not fine
        # Beyond 1 where that is the bound, and on either side of it where it is the value.
        worst = max(worst, most - 1.0 if high < math.inf else 0.0, 1.0 - least if low > 0.0 else 0.0)
        verdict = "agrees" if fine else "differs"
        print(f"{name}: {len(found)} from {least:.9f} ({where_least}) to {most:.9f} ({where_most}), {verdict}")
    compared = sum(map(len, (deltas, tight, conversions, spent)))
    print(f"= dp-accounting | {compared} calibrations | relative deviation {worst:.1e}, limit {TOLERANCE:.0e}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

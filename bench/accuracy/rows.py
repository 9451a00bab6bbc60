"""Synthetic rows of a peer for `bench/python.py`, which has an environment of its own.

`rows.py SYSTEM EPSILON DELTA SEED TABLE.csv COLUMNS.json OUT.csv`; a column is a name with its levels, or with bounds, whether
its values are whole, and its atoms.
"""

import json
import sys

import systems  # noqa: I001  (first, as it says how many threads there are)
import numpy as np
import pandas as pd

import sets

# As in run.py, where the settings were compared: AIM's models of 1 MB take minutes on fifteen columns, larger ones hours.
SETTINGS = {"mst": {}, "aim": {"max_model_size": 1, "compress": False}}
BINS = 32


def main(system, epsilon, delta, seed, table, columns, out):
    columns = [sets.Column(**column) for column in json.loads(open(columns).read())]
    text = {column.name: str for column in columns if column.levels is not None}
    coded = sets.Coded(columns, BINS)
    codes = coded.encode(pd.read_csv(table, dtype=text, keep_default_na=False))
    rng = np.random.default_rng(int(seed))
    rows = systems.release(system, SETTINGS[system], codes, coded.sizes, float(epsilon), float(delta), rng)
    coded.decode(rows[: len(codes)], rng).to_csv(out, index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])

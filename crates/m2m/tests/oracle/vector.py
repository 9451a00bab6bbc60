"""The sums of naive.py for many records at once, in numpy.

    vector.py DIRECTORY

Takes every NAME.sums with NAME.json and NAME.csv beside it, as the example `oracle_case` writes them. Cells are read and maps
are described by naive.py; features are computed here, with fused multiply-adds from error-free transformations (Boldo and
Melquiond 2008). Prints a line per table and exits 0 when all sums agree, 1 otherwise.
"""

import itertools
import json
import math
import pathlib
import sys

import naive
import numpy
from naive import ORIGIN

CHUNK = 1 << 15


# Arithmetic.


def two_sum(a, b):
    """The rounded sum and what rounding lost."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def split(a):
    t = 134217729.0 * a
    high = t - (t - a)
    return high, a - high


def two_product(a, b):
    p = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def to_odd(a, b):
    """a + b rounded to odd: where it is not exact, to the neighbour whose last bit is 1."""
    s, lost = two_sum(a, b)
    bits = s.view(numpy.int64)
    even = (lost != 0.0) & (bits & 1 == 0)
    away = numpy.where((lost > 0.0) == (s > 0.0), 1, -1)
    return numpy.where(even, bits + away, bits).view(numpy.float64)


def fma(a, b, c):
    """a·b + c, rounded once to double precision."""
    a, b, c = numpy.broadcast_arrays(*map(numpy.float64, (a, b, c)))
    uh, ul = two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    return vh + to_odd(tl, vl)


def fma_single(a, b, c):
    """The same to single precision, for numbers of single precision: their product is exact in double."""
    a, b, c = numpy.broadcast_arrays(*map(numpy.float64, (a, b, c)))
    return single(to_odd(a * b, c))


def single(x):
    return x.astype(numpy.float32).astype(numpy.float64)


def check_arithmetic():
    """Against exact integers, on numbers of all sizes that occur."""
    random = numpy.random.default_rng(1)
    sizes = [2.0 ** random.integers(-60, 3, 4000) * random.normal(size=4000) for _ in range(3)]
    for c in (sizes[2], numpy.full(4000, ORIGIN), numpy.zeros(4000)):
        found = fma(sizes[0], sizes[1], c)
        assert all(f == naive.fma(*map(float, abc)) for f, abc in zip(found, zip(sizes[0], sizes[1], c)))
    a, b, c = (single(size) for size in sizes)
    for c in (c, numpy.full(4000, 12.0)):
        found = fma_single(a, b, c)
        assert all(f == naive.fma_single(*map(float, abc)) for f, abc in zip(found, zip(a, b, c)))


# Maps: each adds the features of a chunk of records, given column by column, to sums.


def places_in(cells, values):
    """The cell of each value, or its group."""
    if cells.codes is not None:
        at = values
    else:
        missing = numpy.isnan(values)
        u = numpy.where(missing, 0.0, values)
        place = fma(u, cells.scale, ORIGIN + cells.shift)
        whole = numpy.minimum(numpy.floor(place).astype(numpy.int64) - int(ORIGIN), cells.whole - 1)
        parts = numpy.minimum(((place - ORIGIN) * 2.0**32).astype(numpy.int64), cells.end - 1)
        grain = numpy.where(whole == 0, parts, 0) * cells.grains >> 32
        first = numpy.searchsorted(numpy.array(cells.halves, dtype=numpy.int64), grain, side="right")
        after = cells.end - 1 - parts < cells.cut
        at = numpy.where(whole == 0, first, cells.halved + whole + after)
        if cells.zero:
            beyond = parts - (cells.zero << 32)
            passed = [(beyond >= -part).astype(numpy.int64) + (beyond >= part) for part in cells.near]
            at = (parts >> 32) + sum(passed)
        for number, atom in enumerate(cells.atoms):
            at[u == atom] = cells.bins + number
        at[missing] = cells.bins + len(cells.atoms)
    return numpy.array(cells.groups)[at] if cells.groups else at


def tables(spec, columns):
    groups = naive.table_groups(spec, columns)
    sizes = [math.prod(cells.count for _, cells in group) for group in groups]
    starts = list(itertools.accumulate(sizes, initial=0))
    # A column has the same cells in all tables of merged columns, which are many: they are looked up once.
    known = {}
    for place, cells in itertools.chain.from_iterable(groups):
        known.setdefault((place, id(cells)), cells)

    def add(chunk, sums):
        found = {key: places_in(cells, chunk[key[0]]) for key, cells in known.items()}
        for start, size, group in zip(starts, sizes, groups):
            at = 0
            for place, cells in group:
                at = at * cells.count + found[place, id(cells)]
            sums[start : start + size] += numpy.bincount(at, minlength=size)

    return starts[-1], add


def signs(spec, columns):
    signed = naive.signed_columns(spec, columns)

    def add(chunk, sums):
        found = [numpy.array(sign)[places_in(cells, chunk[place])] for place, cells, sign in signed]
        for j, (one, two) in enumerate(spec["pairs"]):
            sums[j] += int((found[one] * found[two]).sum())

    return len(spec["pairs"]), add


def projection(columns, places, chunk, direction, start):
    total = numpy.full(len(chunk[0]), start)
    at, products = 0, []
    for place in places:
        values, codes = chunk[place], columns[place].codes
        if codes is not None:
            total += numpy.array([naive.on_grid(x) for x in direction[at : at + codes]])[values]
        else:
            missing = numpy.isnan(values)
            total += numpy.where(missing, naive.on_grid(direction[at + 1]), 0.0)
            products.append((numpy.where(missing, 0.0, values), missing, direction[at]))
        at += 2 if codes is None else codes
    for values, missing, weight in products:
        total = numpy.where(missing, total, fma(values, weight, total))
    return total


def race(spec, columns, places):
    r, w = spec["r"], spec["w"]
    directions, starts = naive.race_directions(spec, columns, places)

    def add(chunk, sums):
        def one(output):
            return projection(columns, places, chunk, directions[output], starts[output])

        for hash in range(r):
            if spec["hash"] == "euclidean":
                bucket = (numpy.floor(one(hash)).astype(numpy.int64) - int(ORIGIN)) % w
            else:
                bits = w.bit_length() - 1
                bucket = sum((one(hash * bits + bit) >= ORIGIN).astype(numpy.int64) << bit for bit in range(bits))
            sums[hash * w : (hash + 1) * w] += numpy.bincount(bucket, minlength=w)

    return r * w, add


def fast_phases(columns, places, chunk, direction):
    g = naive.binary_places(columns, places, direction)
    total = numpy.zeros(len(chunk[0]), dtype=numpy.int64)
    at, products = 0, []
    for place in places:
        values, codes = chunk[place], columns[place].codes
        if codes is not None:
            total += numpy.array([round(x * 2.0**32) for x in direction[at : at + codes]])[values]
        else:
            missing = numpy.isnan(values)
            weight = round(direction[at] * 2.0**g)
            total += numpy.where(missing, round(direction[at + 1] * 2.0**32), weight << (31 - g))
            # The product by a power of two is exact, and half of an even number of steps is a whole one.
            whole = numpy.rint(numpy.where(missing, 0.5, values) * 2.0**27).astype(numpy.int64) - 2**26
            products.append(weight * whole)
        at += 2 if codes is None else codes
    for first in range(0, len(products), 16):
        total += sum(products[first : first + 16]) >> 12 << 17 - g
    return total


def fast_pair(phase):
    phase = phase & 0xFFFFFFFF | 1
    v = numpy.where(phase >> 31, phase - 2**32, phase).astype(numpy.float32).astype(numpy.float64) / 2.0**31
    y = single(v * v)
    s, c = naive.FAST_SIN[4], naive.FAST_COS[4]
    for k in range(3, -1, -1):
        s, c = fma_single(s, y, naive.FAST_SIN[k]), fma_single(c, y, naive.FAST_COS[k])
    s = single(v * s)
    return (fma_single(s, -s, 13.0) - 12.0) * 2.0**20, (fma_single(s, c, 12.0) - 12.0) * 2.0**20


def precise_pair(total):
    whole = numpy.rint(total)
    v = 2.0 * (total - whole)
    y, sign = v * v, numpy.where(whole % 2 == 1, -1.0, 1.0)
    s, c = naive.SIN[5], naive.COS[5]
    for k in range(4, -1, -1):
        s, c = fma(s, y, naive.SIN[k]), fma(c, y, naive.COS[k])
    off = 1.5 * 2**22
    return (fma(c, sign * y, off + sign) - off) * 2.0**30, (fma(s, sign * v, off) - off) * 2.0**30


def rff(spec, columns, places):
    directions = naive.frequencies(spec, columns, places)
    precise = spec["precision"] == "precise"
    if precise:
        directions = [[2.0 * x for x in direction] for direction in directions]

    def add(chunk, sums):
        for j, direction in enumerate(directions):
            if precise:
                pair = precise_pair(projection(columns, places, chunk, direction, 0.0))
            else:
                pair = fast_pair(fast_phases(columns, places, chunk, direction))
            for side, feature in enumerate(pair):
                sums[2 * j + side] += int(feature.astype(numpy.int64).sum())

    return spec["m"], add


def values(spec, columns):
    valued = naive.value_columns(spec, columns)

    def add(chunk, sums):
        for j, (place, low, slope) in enumerate(valued):
            known = chunk[place][~numpy.isnan(chunk[place])]
            found = numpy.floor((known * naive.STEPS - low) * slope - naive.GRID + 0.5)
            sums[j] += int(numpy.clip(found, -naive.GRID, naive.GRID).sum())

    return len(valued), add


def build(spec, columns):
    if spec["kind"] == "values":
        return values(spec, columns)
    if spec["kind"] == "signs":
        return signs(spec, columns)
    if spec["kind"] in ("hist", "tables", "merged"):
        return tables(spec, columns)
    return {"race": race, "rff": rff}[spec["kind"]](spec, columns, naive.places_of(spec, columns))


# Tables.


def encode(rows, columns):
    """Column by column: numbers in [0, 1] with NaN for missing, or codes."""
    chunk = []
    for column, values in zip(columns, zip(*rows)):
        if column.codes is None:
            chunk.append(numpy.array([math.nan if value is None else value for value in values]))
        else:
            chunk.append(numpy.array(values, dtype=numpy.int64))
    return chunk


def check(release_path, table_path, sums_path):
    with open(release_path, encoding="utf-8") as file:
        release = json.load(file)
    columns = [naive.Column(raw) for raw in release["schema"]["column"]]
    records = naive.parse_csv(table_path.read_bytes())
    header = next(records)
    fields = [header.index(column.name.encode()) for column in columns]

    def read(record):
        return [column.read(record[field]) for column, field in zip(columns, fields)]

    statement, users, total = release["privacy"], [], 0
    if statement["unit"] == "row":
        rows = map(read, records)
    else:
        owner = header.index(statement["unit"].encode())
        kept = list(records)
        total = len(kept)
        rows, users = naive.bounded(map(read, kept), columns, [record[owner] for record in kept], statement["max_rows"])
        rows = iter(rows)

    maps = [build(block["map"], columns) for block in release["blocks"]]
    sums = [numpy.zeros(size, dtype=numpy.int64) for size, _ in maps]
    counted = 0
    while part := list(itertools.islice(rows, CHUNK)):
        counted += len(part)
        chunk = encode(part, columns)
        for (_, add), into in zip(maps, sums):
            add(chunk, into)

    file = naive.SumsFile(sums_path)
    differences = []
    if (found := file.number()) != counted:
        differences.append(f"{counted} rows, but the file says {found}")
    for number, (block, expected) in enumerate(zip(release["blocks"], sums)):
        for place, value in enumerate(expected):
            if (found := file.number()) != int(value):
                kind = block["map"]["kind"]
                differences.append(f"map {number} ({kind}), sum {place}: {value}, but the file says {found}")
    if file.users() != users:
        differences.append("the users differ")
    compared = 1 + sum(map(len, sums))
    agree = f"vector: {table_path.name}: {total or counted} records, {counted} of them counted"
    print(f"{agree}: {compared - len(differences)} sums of {len(maps)} maps agree, {len(differences)} differ", flush=True)
    for difference in differences[:3]:
        print("  " + difference)
    return total or counted, compared, len(differences)


def main(directory):
    check_arithmetic()
    cases = sorted(pathlib.Path(directory).glob("*.sums"))
    results = [check(case.with_suffix(".json"), case.with_suffix(".csv"), case) for case in cases]
    records, compared, differ = (sum(result[at] for result in results) for at in (0, 1, 2))
    print(f"= numpy | {compared} sums of {len(cases)} tables, {records} records | {differ} differ in any bit")
    return bool(results) and differ == 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(0 if main(sys.argv[1]) else 1)

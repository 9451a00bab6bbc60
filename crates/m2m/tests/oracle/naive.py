"""Recomputes secret sums from a CSV file and the public description in a release, naively and exactly.

    naive.py DIRECTORY
    naive.py RELEASE.json TABLE.csv SUMS

In a directory it takes every NAME.sums with NAME.json and NAME.csv beside it, as the example `oracle_case` writes them.
An independent reading of the definitions in crates/m2m/src: one record at a time, every fused multiply-add in exact
integers and rounded once. Standard library only. Prints a line per table and exits 0 when all sums agree, 1 otherwise.
"""

import datetime
import hashlib
import itertools
import json
import math
import pathlib
import re
import struct
import sys
from fractions import Fraction

ORIGIN = 1.5 * 2**20


# Arithmetic. Python's + - * / and math.sqrt on floats are the IEEE operations in double precision.


def fma(a, b, c):
    """a·b + c, rounded once to double precision: the quotient of two integers is correctly rounded."""
    (an, ad), (bn, bd), (cn, cd) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    return (an * bn * cd + cn * ad * bd) / (ad * bd * cd)


def single(n, d=1):
    """n/d, d a power of two, rounded once to single precision (half to even)."""
    size = abs(n)
    shift = size.bit_length() - 24
    if shift > 0:
        kept, rest, half = size >> shift, size & ((1 << shift) - 1), 1 << (shift - 1)
        if rest > half or (rest == half and kept & 1):
            kept += 1
        size = kept << shift
    return (size if n >= 0 else -size) / d


def fma_single(a, b, c):
    (an, ad), (bn, bd), (cn, cd) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    return single(an * bn * cd + cn * ad * bd, ad * bd * cd)


def ln(x):
    m, e = math.frexp(x)
    m, e = 2.0 * m, e - 1
    if m >= 1.4142135623730951:
        m, e = 0.5 * m, e + 1
    s = (m - 1.0) / (m + 1.0)
    y = s * s
    series = 1.0 / 23.0
    for k in range(10, -1, -1):
        series = series * y + 1.0 / (2 * k + 1)
    return e * 0.6931471805599453 + 2.0 * s * series


def asinh(x):
    y = ln(abs(x) + math.sqrt(x * x + 1.0))
    return -y if x < 0.0 else y


SIN = [
    1.570796326621877,
    -0.6459640926527118,
    0.07969258733509949,
    -0.0046816203508969565,
    0.00016021724638849336,
    -3.4182130532580775e-6,
]
COS = [
    -1.233700550085303,
    0.2536695069105264,
    -0.020863474339241615,
    0.0009192411076739687,
    -0.000025173089861333876,
    4.494970230164978e-7,
]


def half_turns(t):
    """The nearest whole number's parity and twice the rest."""
    whole = round(t)
    return 2.0 * (t - whole), whole % 2


def cos_sin_turns(turns):
    v, odd = half_turns(2.0 * turns)
    y = v * v
    sine = cosine = 0.0
    for k in range(5, -1, -1):
        sine, cosine = sine * y + SIN[k], cosine * y + COS[k]
    sine, cosine = v * sine, 1.0 + y * cosine
    return (-cosine, -sine) if odd else (cosine, sine)


# Public randomness.


class Stream:
    def __init__(self, label, seed):
        self.state = int.from_bytes(hashlib.sha256(f"{label}:{seed}".encode()).digest()[:8], "little")
        self.spare = None

    def word(self):
        mask = 2**64 - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = (self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return z ^ (z >> 31)

    def uniform(self):
        return ((self.word() >> 12) * 2 + 1) / 2**53

    def below(self, n):
        while True:
            wide = self.word() * n
            if wide % 2**64 >= 2**64 % n:
                return wide >> 64

    def normal(self):
        if self.spare is not None:
            z, self.spare = self.spare, None
            return z
        radius = math.sqrt(-2.0 * ln(self.uniform()))
        c, s = cos_sin_turns(self.uniform())
        self.spare = radius * s
        return radius * c

    def norm_squared(self, n):
        total = 0.0
        for _ in range(n):
            z = self.normal()
            total += z * z
        return total


# The table: what a cell means, and where its number lies in [0, 1].


def parse_csv(text):
    """Records of (field, ...) bytes; quotes count at the start of a field, blanks around bare fields do not."""
    at, record = 0, []
    bare = re.compile(rb"[,\n]")
    while at < len(text):
        if text[at : at + 1] == b'"':
            field, at = b"", at + 1
            while text[at : at + 1] != b'"' or text[at : at + 2] == b'""':
                at += text[at : at + 1] == b'"'
                field += text[at : at + 1]
                at += 1
            at += 1
            assert text[at : at + 1] in (b",", b"\n")
        else:
            end = bare.search(text, at).start()
            field, at = text[at:end].strip(b" \t\r\f"), end
        record.append(field)
        if text[at : at + 1] == b"\n":
            yield record
            record = []
        at += 1


NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
DATE = re.compile(r"\d{4}-\d\d-\d\d")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
TRUTH = {b"true": 1, b"t": 1, b"yes": 1, b"y": 1, b"1": 1, b"false": 0, b"f": 0, b"no": 0, b"n": 0, b"0": 0}


def days(text):
    if not DATE.fullmatch(text):
        raise ValueError
    return float((datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days)


def seconds(text):
    if not MOMENT.fullmatch(text):
        raise ValueError
    moment = datetime.datetime.fromisoformat(text[:-1])
    return (moment - datetime.datetime(1970, 1, 1)).total_seconds()


class Column:
    def __init__(self, raw):
        self.name, self.kind = raw["name"], raw["type"]
        self.levels = [level.encode() for level in raw.get("levels", [])]
        self.missing = [text.encode() for text in raw.get("missing", [])]
        self.missing_numbers = [float(text) for text in self.missing if NUMBER.fullmatch(text)]
        self.whole = self.kind in ("integer", "date")
        self.transform = raw.get("transform", "none")
        self.codes = {"boolean": 3, "category": len(self.levels) + 2}.get(self.kind)
        if self.codes is None:
            bound = {"date": days, "datetime": seconds}.get(self.kind, float)
            self.min, self.max = bound(raw["min"]), bound(raw["max"])
            self.low = self.change(self.min)
            self.inverse_width = 1.0 / (self.change(self.max) - self.low)
            self.atoms = [self.unit(atom) for atom in sorted(bound(atom) for atom in raw.get("atoms", []))]

    def change(self, x):
        if self.transform == "log1p":
            return ln(1.0 + x)
        if self.transform == "sqrt":
            return math.sqrt(x)
        return asinh(x) if self.transform == "asinh" else x

    def unit(self, x):
        x = min(max(x, self.min), self.max)
        u = (self.change(x) - self.low) * self.inverse_width
        return 0.0 if u < 0.0 else 1.0 if u > 1.0 else u

    def read(self, text):
        """A code, a number in [0, 1], or nothing for a number that is missing or cannot be read."""
        missing = text in (b"", b"NA", *self.missing) or text.lower() == b"null"
        if self.kind == "category":
            other = self.codes - 1 if missing else self.codes - 2
            return self.levels.index(text) if text in self.levels else other
        if self.kind == "boolean":
            return 2 if missing else TRUTH.get(text.lower(), 2)
        try:
            if missing:
                return None
            if self.kind in ("number", "integer"):
                x = float(text) if NUMBER.fullmatch(text) else math.nan
                x = math.nan if x in self.missing_numbers else x
            else:
                x = (days if self.kind == "date" else seconds)(text.decode())
        except ValueError:
            return None
        if math.isnan(x):
            return None
        # A whole number keeps the sign of its zero: the order of a user's rows looks at the bits.
        return self.unit(math.copysign(round(x), x) if self.whole and math.isfinite(x) else x)


def bounded(rows, columns, users, max_rows):
    """Of each user the rows whose contents have the smallest hashes."""

    def key(row):
        numbers = [math.nan if x is None else x for x, column in zip(row, columns) if column.codes is None]
        codes = [x for x, column in zip(row, columns) if column.codes is not None]
        packed = struct.pack(f"<{len(numbers)}d{len(codes)}I", *numbers, *codes)
        return int.from_bytes(hashlib.sha256(packed).digest()[:16], "little")

    owned = {}
    for row, user in zip(rows, users):
        if user:
            owned.setdefault(user, []).append(row)
    kept = [row for own in owned.values() for row in sorted(own, key=key)[:max_rows]]
    return kept, sorted(hashlib.sha256(user).digest() for user in owned)


# Maps. Each gives the number of features and, for a record, pairs (place, feature) of those that are not 0.


class Cells:
    """The cells of a column: bins, then atoms, then "missing"; for levels, their codes.

    The first bin may be halved again and again; then the last is cut as near to its end. Or both bins beside 0 are halved.
    """

    def __init__(self, column, bins, halved=0, about_zero=0, groups=None):
        self.codes, self.groups = column.codes, groups
        if self.codes is None:
            self.whole, self.scale, self.shift, self.atoms = bins, float(bins), 0.0, column.atoms
            self.halved, self.grains = (halved, 2**halved) if bins > 1 else (0, 1)
            # The last bin, its end, and what may be cut off it, in bins.
            filled, end, part = 1.0, float(bins), 0.5**self.halved
            if column.whole and column.transform == "none":
                span = column.max - column.min
                size = max(math.ceil((span + 1.0) / bins), 1)
                even = 0
                if halved > 0 and size > 1:
                    even = size.bit_length() - 5 if size > 64 else 0
                    size = -(-size // 2**even) * 2**even
                    size += 2**even if size % 5 == 0 else 0
                self.whole = math.ceil((span + 1.0) / size)
                self.scale, self.shift = span / size, 0.5 / size
                self.atoms = self.atoms if size > 1 else []
                grain = 2 ** max(0, even - 24)
                self.grains = size // grain if halved > 0 else 1
                self.halved = min(halved, (self.grains - 1).bit_length()) if self.whole > 1 else 0
                filled, end = (span + 1.0 - (self.whole - 1) * size) / size, (span + 1.0) / size
                part = -(-self.grains // 2**self.halved) * grain / size
            self.zero = None
            both = column.min < 0 < column.max and column.kind in ("number", "integer")
            if about_zero > 0 and both and not (column.whole and column.transform == "none"):
                place = fma(column.unit(0.0), float(bins), ORIGIN) - ORIGIN
                if 1 < place < bins - 1:
                    self.zero, self.shift, self.halved = math.ceil(place), math.ceil(place) - place, 0
                    end = bins + self.shift
                    self.whole = math.ceil(end)
                    # Where the parts of either bin end, as parts of it.
                    self.near = [2**32 >> k for k in range(about_zero, 0, -1)]
            self.end = round(end * 2**32)
            self.cut = round(part * 2**32) if self.halved > 0 and filled > part else 0
            self.bins = self.halved + self.whole + (self.cut > 0) + (2 * about_zero if self.zero else 0)
            # The grains at which the halves of the first bin begin.
            self.halves = [-(-self.grains // 2**k) for k in range(self.halved, 0, -1)]
        self.count = len(set(groups)) if groups else self.codes or self.bins + len(self.atoms) + 1

    def at(self, value):
        cell = self.cell(value)
        return self.groups[cell] if self.groups else cell

    def cell(self, u):
        if self.codes is not None:
            return u
        if u is None:
            return self.bins + len(self.atoms)
        if u in self.atoms:
            return self.bins + self.atoms.index(u)
        place = fma(u, self.scale, ORIGIN + self.shift)
        whole = min(math.floor(place) - int(ORIGIN), self.whole - 1)
        if self.halved == 0 and not self.zero:
            return whole
        # In parts of 2^-32, of which the sum with ORIGIN holds no fewer.
        parts = min(int((place - ORIGIN) * 2.0**32), self.end - 1)
        if self.zero:
            beyond = parts - (self.zero << 32)
            passed = sum(beyond >= -part for part in self.near) + sum(beyond >= part for part in self.near)
            return (parts >> 32) + passed
        if whole == 0:
            return sum(parts * self.grains >> 32 >= half for half in self.halves)
        return self.halved + whole + (self.end - 1 - parts < self.cut)


def halvings(spec):
    """How many times bins are halved."""
    return spec.get("halved", 0), spec.get("about_zero", 0)


def bins_of(spec, column):
    """As many bins as a histogram gives to a column."""
    whole = spec.get("whole")
    few = whole is not None and column.whole and column.max - column.min + 1.0 <= whole
    return whole if few else spec["bins"]


def table_groups(spec, columns):
    """The tables of a map: for each, places of columns with their cells, the last varying fastest."""
    names = [column.name for column in columns]
    places = [names.index(name) for name in spec.get("columns", names)] if spec["kind"] != "merged" else []
    if spec["kind"] == "hist":
        return [[(place, Cells(columns[place], bins_of(spec, columns[place]), *halvings(spec)))] for place in places]
    if spec["kind"] == "merged":
        merged = []
        for column in spec["columns"]:
            place = names.index(column["name"])
            merged.append((place, Cells(columns[place], column["bins"], *halvings(column), column["groups"])))
        return [[merged[at] for at in table] for table in spec["tables"]]
    groups = [[names.index(name) for name in group] for group in spec.get("groups", [])]
    groups = groups or list(itertools.combinations(places, spec["ways"]))
    return [[(place, Cells(columns[place], spec["bins"])) for place in group] for group in groups]


def tables(spec, columns):
    made = table_groups(spec, columns)
    sizes = [math.prod(cells.count for _, cells in group) for group in made]
    starts = list(itertools.accumulate(sizes, initial=0))

    def features(row):
        for start, group in zip(starts, made):
            at = 0
            for place, cells in group:
                at = at * cells.count + cells.at(row[place])
            yield start + at, 1

    return starts[-1], features


def on_grid(x):
    return round(x * 2.0**32) / 2.0**32


def projection(columns, places, directions, starts):
    """The function (record, output) -> start + sum of offsets + fused multiply-adds in the order of the places."""

    def one(row, output):
        total, direction, at, products = starts[output], directions[output], 0, []
        for place in places:
            value, codes = row[place], columns[place].codes
            if codes is not None:
                total += on_grid(direction[at + value])
            elif value is None:
                total += on_grid(direction[at + 1])
            else:
                products.append((value, direction[at]))
            at += 2 if codes is None else codes
        for x, weight in products:
            total = fma(x, weight, total)
        return total

    return one


def coordinates(columns, places):
    return sum(2 if columns[place].codes is None else columns[place].codes for place in places)


def race_directions(spec, columns, places):
    """Directions and starts: one for each hash, or one for each bit of it."""
    stream, r, w = Stream("race", spec["seed"]), spec["r"], spec["w"]
    size = coordinates(columns, places)
    if spec["hash"] == "euclidean":
        scale = 1.0 / spec["sigma"]
        directions = [[stream.normal() * scale for _ in range(size)] for _ in range(r)]
        return directions, [ORIGIN + stream.uniform() for _ in range(r)]
    directions = [[stream.normal() * 1.0 for _ in range(size)] for _ in range(r * (w.bit_length() - 1))]
    starts = []
    for direction in directions:
        at, middle = 0, 0.0
        for place in places:
            if columns[place].codes is None:
                middle += 0.5 * direction[at]
            at += 2 if columns[place].codes is None else columns[place].codes
        starts.append(ORIGIN - middle)
    return directions, starts


def race(spec, columns, places):
    r, w = spec["r"], spec["w"]
    one = projection(columns, places, *race_directions(spec, columns, places))
    if spec["hash"] == "euclidean":

        def bucket(row, hash):
            return (math.floor(one(row, hash)) - int(ORIGIN)) % w

    else:
        bits = w.bit_length() - 1

        def bucket(row, hash):
            return sum((one(row, hash * bits + bit) >= ORIGIN) << bit for bit in range(bits))

    return r * w, lambda row: ((hash * w + bucket(row, hash), 1) for hash in range(r))


DEGREES = {"matern12": 1, "matern32": 3, "matern52": 5}


def divisor(stream, kernel):
    if kernel not in DEGREES:
        return 1.0
    return math.sqrt(stream.norm_squared(DEGREES[kernel]) / DEGREES[kernel])


def dot(a, b):
    total = 0.0
    for x, y in zip(a, b):
        total += x * y
    return total


def orthogonal(stream, kernel, count, dimension):
    """(divisor, vector) pairs: stratified lengths, directions orthogonal in blocks."""
    candidates = []
    for _ in range(16 * count):
        length = math.sqrt(stream.norm_squared(dimension))
        by = divisor(stream, kernel)
        candidates.append((length / by, by))
    candidates.sort()
    lengths = [candidates[16 * i + stream.below(16)] for i in range(count)]
    for i in range(count - 1, 0, -1):
        j = stream.below(i + 1)
        lengths[i], lengths[j] = lengths[j], lengths[i]
    vectors = []
    while len(vectors) < count:
        basis, wanted = [], min(dimension, count - len(vectors))
        while len(basis) < wanted:
            vector = [stream.normal() for _ in range(dimension)]
            before = dot(vector, vector)
            for _ in range(2):
                for other in basis:
                    along = dot(vector, other)
                    vector = [x - along * y for x, y in zip(vector, other)]
            after = dot(vector, vector)
            if after > before * 1e-20:
                length = math.sqrt(after)
                basis.append([x / length for x in vector])
        vectors += basis
    return [(by, [x * length for x in vector]) for (length, by), vector in zip(lengths, vectors)]


def frequencies(spec, columns, places):
    """Directions in turns."""
    kernel, count, stream = spec["kernel"], spec["m"] // 2, Stream("rff", spec["seed"])
    numeric = sum(columns[place].codes is None for place in places)
    radial = None
    if spec.get("frequencies", "iid" if kernel == "laplace" else "orthogonal") == "orthogonal" and numeric:
        radial = orthogonal(stream, kernel, count, numeric)
    turns = 1.0 / (spec["sigma"] * math.tau)
    directions = []
    for j in range(count):
        by, vector = radial[j] if radial else (divisor(stream, kernel), None)
        numbers = iter(vector or [])

        def draw():
            if kernel == "laplace":
                above = stream.normal()
                return above / stream.normal() * turns
            return stream.normal() / by * turns

        direction = []
        for place in places:
            if columns[place].codes is not None:
                direction += [draw() for _ in range(columns[place].codes)]
            else:
                direction.append(next(numbers) * turns if vector else draw())
                direction.append(draw())
        directions.append(direction)
    return directions


def singles(*numbers):
    return [single(*number.as_integer_ratio()) for number in numbers]


FAST_SIN = singles(2.2214413, -0.91353005, 0.11269653, -0.0066075283, 0.00021329249)
FAST_COS = singles(1.4142133, -1.7447125, 0.3587163, -0.029430673, 0.0012136648)


def binary_places(columns, places, direction):
    """How many the grid has on which the weights of numbers in a direction are whole numbers of 16 bits."""
    at, largest = 0, 0.0
    for place in places:
        codes = columns[place].codes
        if codes is None:
            largest = max(largest, abs(direction[at]))
        at += 2 if codes is None else codes
    return next(g for g in range(17, -5, -1) if round(largest * 2.0**g) <= 32767)


def fast_phases(columns, places, directions):
    """The function (record, output) -> phase in units of 2⁻³² turns, of which only the last 32 bits count."""

    def one(row, output):
        direction, at, products, total = directions[output], 0, [], 0
        g = binary_places(columns, places, direction)
        for place in places:
            value, codes = row[place], columns[place].codes
            if codes is not None:
                total += round(direction[at + value] * 2.0**32)
            elif value is None:
                total += round(direction[at + 1] * 2.0**32)
                products.append(0)
            else:
                weight = round(direction[at] * 2.0**g)
                total += weight << (31 - g)
                products.append(weight * round(Fraction(value) * 2**27 - 2**26))
            at += 2 if codes is None else codes
        for first in range(0, len(products), 16):
            total += sum(products[first : first + 16]) >> 12 << 17 - g
        return total

    return one


def fast_pair(phase):
    """A phase in units of 2⁻³² turns to cosine and sine in units of 2⁻²⁰."""
    phase = phase % 2**32 | 1
    v = single(phase - 2**32 if phase >> 31 else phase, 2**31)
    y = single(*(v * v).as_integer_ratio())
    s, c = FAST_SIN[4], FAST_COS[4]
    for k in range(3, -1, -1):
        s, c = fma_single(s, y, FAST_SIN[k]), fma_single(c, y, FAST_COS[k])
    s = single(*(v * s).as_integer_ratio())
    c, s = fma_single(s, -s, 13.0), fma_single(s, c, 12.0)
    return int((c - 12.0) * 2**20), int((s - 12.0) * 2**20)


def precise_pair(total):
    """Half turns to cosine and sine in units of 2⁻³⁰."""
    v, odd = half_turns(total)
    y, sign = v * v, -1.0 if odd else 1.0
    s, c = SIN[5], COS[5]
    for k in range(4, -1, -1):
        s, c = fma(s, y, SIN[k]), fma(c, y, COS[k])
    round_off = 1.5 * 2**22
    c, s = fma(c, sign * y, round_off + sign), fma(s, sign * v, round_off)
    return int((c - round_off) * 2**30), int((s - round_off) * 2**30)


def rff(spec, columns, places):
    directions = frequencies(spec, columns, places)
    precise = spec["precision"] == "precise"
    if precise:
        directions = [[2.0 * x for x in direction] for direction in directions]
        pair, one = precise_pair, projection(columns, places, directions, [0.0] * len(directions))
    else:
        pair, one = fast_pair, fast_phases(columns, places, directions)

    def features(row):
        for j in range(len(directions)):
            c, s = pair(one(row, j))
            yield 2 * j, c
            yield 2 * j + 1, s

    return spec["m"], features


def signed_columns(spec, columns):
    """For each column of signs its place, its cells and the sign of each."""
    places = {column.name: place for place, column in enumerate(columns)}
    made = []
    for column in spec["columns"]:
        place = places[column["name"]]
        made.append((place, Cells(columns[place], column["bins"], *halvings(column)), column["signs"]))
    return made


def signs(spec, columns):
    signed = signed_columns(spec, columns)

    def features(row):
        found = [sign[cells.at(row[place])] for place, cells, sign in signed]
        for j, (one, two) in enumerate(spec["pairs"]):
            yield j, found[one] * found[two]

    return len(spec["pairs"]), features


# The ends of the intervals of values are in such steps, and values are from minus the grid to the grid.
STEPS, GRID = 65536.0, 4096


def value_columns(spec, columns):
    """For each column of values its place, the low end of its interval, and what a step adds."""
    names = [column.name for column in columns]
    slope = lambda column: 2.0 * GRID / (float(column["high"]) - float(column["low"]))
    return [(names.index(column["name"]), float(column["low"]), slope(column)) for column in spec["columns"]]


def values(spec, columns):
    valued = value_columns(spec, columns)

    def features(row):
        for j, (place, low, slope) in enumerate(valued):
            if row[place] is not None:
                yield j, max(-GRID, min(GRID, math.floor((row[place] * STEPS - low) * slope - GRID + 0.5)))

    return len(valued), features


def build(spec, columns):
    """The number of features of a map and the function from a record to them."""
    if spec["kind"] == "values":
        return values(spec, columns)
    if spec["kind"] == "signs":
        return signs(spec, columns)
    if spec["kind"] in ("hist", "tables", "merged"):
        return tables(spec, columns)
    return {"race": race, "rff": rff}[spec["kind"]](spec, columns, places_of(spec, columns))


def places_of(spec, columns):
    names = [column.name for column in columns]
    return [names.index(name) for name in spec.get("columns", names)]


# The file of sums.


class SumsFile:
    def __init__(self, path):
        with open(path, "rb") as file:
            text = file.read()
        self.text, self.at = text[:-32], 0
        assert hashlib.sha256(self.text).digest() == text[-32:], "the hash of the sums is wrong"
        assert self.take(8) == b"M2MSUMS\x01"
        self.take(int.from_bytes(self.take(8), "little"))

    def take(self, n):
        assert self.at + n <= len(self.text), "the file of sums is too short"
        self.at += n
        return self.text[self.at - n : self.at]

    def number(self):
        return int.from_bytes(self.take(16), "little", signed=True)

    def users(self):
        users = [self.take(32) for _ in range(int.from_bytes(self.take(8), "little"))]
        assert self.at == len(self.text), "the file of sums is too long"
        return users


def check(release_path, table_path, sums_path):
    """How many numbers were compared and how many differ; says so."""
    with open(release_path, encoding="utf-8") as file:
        release = json.load(file)
    with open(table_path, "rb") as file:
        header, *records = parse_csv(file.read())
    columns = [Column(raw) for raw in release["schema"]["column"]]
    fields = [header.index(column.name.encode()) for column in columns]
    rows = [[column.read(record[field]) for column, field in zip(columns, fields)] for record in records]
    statement, users = release["privacy"], []
    if statement["unit"] != "row":
        owner = header.index(statement["unit"].encode())
        rows, users = bounded(rows, columns, [record[owner] for record in records], statement["max_rows"])

    file = SumsFile(sums_path)
    compared, differences = 1, []
    if (found := file.number()) != len(rows):
        differences.append(f"{len(rows)} rows, but the file says {found}")
    for number, block in enumerate(release["blocks"]):
        size, features = build(block["map"], columns)
        sums = [0] * size
        for row in rows:
            for place, feature in features(row):
                sums[place] += feature
        for place, expected in enumerate(sums):
            compared += 1
            if (found := file.number()) != expected:
                differences.append(f"map {number} {block['map']}, sum {place}: {expected}, but the file says {found}")
    if file.users() != users:
        differences.append("the users differ")
    agree = f"naive: {compared - len(differences)} sums of {len(release['blocks'])} maps agree"
    print(f"{agree}, {len(differences)} differ", *differences[:1], sep="; first: ")
    return compared, len(differences)


def main(paths):
    if len(paths) == 3:
        cases = [paths]
    else:
        found = sorted(pathlib.Path(paths[0]).glob("*.sums"))
        cases = [(case.with_suffix(".json"), case.with_suffix(".csv"), case) for case in found]
    results = [check(*case) for case in cases]
    compared, differ = (sum(result[at] for result in results) for at in (0, 1))
    print(f"= naive Python | {compared} sums of {len(cases)} tables | {differ} differ in any bit")
    return bool(results) and differ == 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    sys.exit(0 if main(sys.argv[1:]) else 1)

"""The peers' side of the benchmark: reads a job per line, answers with its CPU seconds per record."""

import json
import os
import sys
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

D, PAIRS, R, W, BINS = 10, 100, 80, 80, 100
rng = np.random.default_rng(0)


class Jobs:
    """Each method does one peer's version of the work and returns how many records it covered."""

    def __init__(self, directory):
        self.directory = directory
        self.x = rng.random((100_000, D))
        self.omega = rng.standard_normal((D, PAIRS))
        self.a = rng.standard_normal((D, R))
        self.b = rng.random(R)
        self.columns = np.ascontiguousarray(rng.random((1_000_000, D)).T)

    def _rff_numpy(self, chunk):
        t, s, z = np.empty((chunk, PAIRS)), np.empty((chunk, PAIRS)), np.zeros(2 * PAIRS)
        for i in range(0, len(self.x), chunk):
            x = self.x[i : i + chunk]
            tt, ss = t[: len(x)], s[: len(x)]
            np.matmul(x, self.omega, out=tt)
            np.cos(tt, out=ss)
            z[:PAIRS] += ss.sum(0)
            np.sin(tt, out=ss)
            z[PAIRS:] += ss.sum(0)
        return len(self.x)

    def rff_numpy_256(self):
        return self._rff_numpy(256)

    def rff_numpy_1024(self):
        return self._rff_numpy(1024)

    def rff_numpy_4096(self):
        return self._rff_numpy(4096)

    def _rff_torch(self, chunk):
        import torch

        torch.set_num_threads(1)
        if not hasattr(self, "tx"):
            self.tx, self.tomega = torch.from_numpy(self.x), torch.from_numpy(self.omega)
        t, s = torch.empty((chunk, PAIRS), dtype=torch.float64), torch.empty((chunk, PAIRS), dtype=torch.float64)
        z = torch.zeros(2 * PAIRS, dtype=torch.float64)
        with torch.inference_mode():
            for i in range(0, len(self.tx), chunk):
                x = self.tx[i : i + chunk]
                tt, ss = t[: len(x)], s[: len(x)]
                torch.matmul(x, self.tomega, out=tt)
                torch.cos(tt, out=ss)
                z[:PAIRS] += ss.sum(0)
                torch.sin(tt, out=ss)
                z[PAIRS:] += ss.sum(0)
        return len(self.tx)

    def rff_torch_256(self):
        return self._rff_torch(256)

    def rff_torch_1024(self):
        return self._rff_torch(1024)

    def race_numpy(self):
        counts = np.zeros(R * W, dtype=np.int64)
        offsets = np.arange(R) * W
        for i in range(0, len(self.x), 1024):
            h = np.floor(self.x[i : i + 1024] @ self.a + self.b).astype(np.int64) % W
            counts += np.bincount((h + offsets).ravel(), minlength=R * W)
        return len(self.x)

    def _hist_numpy(self, dtype, chunk):
        for column in self.columns:
            for i in range(0, len(column), chunk):
                np.bincount((column[i : i + chunk] * BINS).astype(dtype), minlength=BINS)
        return self.columns.shape[1]

    def hist_numpy_64(self):
        return self._hist_numpy(np.int64, 1_000_000)

    def hist_tuned_8(self):
        return self._hist_numpy(np.uint8, 1_000_000)

    def hist_tuned_64(self):
        return self._hist_numpy(np.int64, 16_384)

    def hist_tuned_32(self):
        return self._hist_numpy(np.int32, 16_384)

    def _duckdb(self, source):
        import duckdb

        if not hasattr(self, "con"):
            self.con = duckdb.connect(config={"threads": 2})
        averages = ", ".join(f"avg(c{k})" for k in range(D))
        self.con.execute(f"select count(*), {averages} from {source}").fetchall()
        return 1_000_000

    def csv_duckdb(self):
        types = ", ".join(f"'c{k}': 'DOUBLE'" for k in range(D))
        path = os.path.join(self.directory, "table.csv")
        return self._duckdb(f"read_csv('{path}', header=true, columns={{{types}}}, auto_detect=false)")

    def parquet_duckdb(self):
        return self._duckdb(f"read_parquet('{os.path.join(self.directory, 'table.parquet')}')")

    def make_parquet(self):
        import pyarrow.csv
        import pyarrow.parquet

        table = pyarrow.csv.read_csv(os.path.join(self.directory, "table.csv"))
        pyarrow.parquet.write_table(
            table,
            os.path.join(self.directory, "table.parquet"),
            compression="none",
            use_dictionary=False,
            row_group_size=125_000,
        )
        return 1

    def make_large(self):
        """Columns that hang together a little, in row groups of a million."""
        import pyarrow as pa
        import pyarrow.parquet

        path, columns = os.path.join(self.directory, "large.parquet"), [f"c{k}" for k in range(20)]
        with open(os.path.join(self.directory, "large.toml"), "w") as schema:
            for name in columns:
                schema.write(f'[[column]]\nname = "{name}"\ntype = "number"\nmin = 0\nmax = 1\n')
        if os.path.exists(path):
            return 1
        # Under another name until it is whole.
        with pa.parquet.ParquetWriter(path + ".part", pa.schema([(name, pa.float64()) for name in columns])) as file:
            for _ in range(10):
                common = rng.random(1_000_000)
                file.write_table(pa.table({name: 0.7 * rng.random(1_000_000) + 0.3 * common for name in columns}))
        os.rename(path + ".part", path)
        return 1

    def noise_opendp(self):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        n = 20_000
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
        dp.m.make_laplace(*space, scale=1000.0)([0] * n)
        return n


def main():
    jobs = Jobs(sys.argv[1])
    for line in sys.stdin:
        start = time.process_time()
        records = getattr(jobs, line.strip())()
        print(json.dumps({"cpu": time.process_time() - start, "records": records}), flush=True)


main()

"""Accuracy and cost of our default design beside the strongest peers: `cargo xtask bench-peers`.

Every result is kept in OUT/results.json as soon as it is there; a run that was stopped goes on where it was.
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Threads of the library that numpy computes with would hang where another thread starts a process.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

import report  # noqa: E402
import sets  # noqa: E402

EPSILONS, DELTAS = (1.0, 0.1, 10.0), (1e-5, 0)
BINS = (16, 32)
SHARES = (0.5, 0.8)
RUNS = {"m2m": 10, "independent": 10, "copula": 10, "mst": 3, "priv-bayes": 3, "aim": 3}
# AIM's models may be so large, in MB; the next size is tried if the last took less than half of PATIENCE.
CAPS = (1, 4, 16, 64)
# Processor seconds after which a peer is given up, and of a run after which it is not repeated.
PATIENCE, SLOW = 600, 60
# Sets of at most so many columns come first where that matters.
NARROW = 10
QUICK_SETS = ("lifesci", "occupancy")
# Our release, asked by itself and by synthetic rows.
OURS = ("m2m", "m2m rows")


def jobs(widths, quick):
    """All jobs, the quick and the telling first. A job is some runs of one system in one setting.

    `widths`: how many columns each set has.
    """

    def job(name, epsilon, delta, system, runs, **settings):
        return dict(set=name, epsilon=epsilon, delta=delta, system=system, settings=settings, runs=runs)

    names = list(widths)
    if quick:
        for name in names:
            yield job(name, 1.0, 1e-5, "m2m", RUNS["m2m"])
            yield job(name, 1.0, 1e-5, "independent", 1, bins=32)
            for share in SHARES:
                yield job(name, 1.0, 1e-5, "copula", 1, bins=32, share=share)
            for bins in BINS:
                yield job(name, 1.0, 1e-5, "mst", 1, bins=bins)
        return
    for epsilon, delta in itertools.product(EPSILONS, DELTAS):
        for name in names:
            yield job(name, epsilon, delta, "m2m", RUNS["m2m"])
            yield job(name, epsilon, delta, "independent", RUNS["independent"], bins=32)
            for share in SHARES:
                yield job(name, epsilon, delta, "copula", RUNS["copula"], bins=32, share=share)
    # The others have no pure ε: their noise is Gaussian.
    aim = lambda name, epsilon, bins, cap, runs=1: job(
        name, epsilon, 1e-5, "aim", runs, bins=bins, max_model_size=cap, compress=False
    )
    everywhere = list(itertools.product(EPSILONS, names))
    narrow = [name for name in names if widths[name] <= NARROW]
    # AIM takes longest where there are many columns: these come last.
    slow = sorted(everywhere, key=lambda place: place[1] not in narrow)
    for epsilon in EPSILONS:
        yield from (job(name, epsilon, 1e-5, "mst", 1, bins=BINS[0]) for name in names)
        yield from (aim(name, epsilon, BINS[0], CAPS[0]) for name in narrow)
    for epsilon, name in everywhere:
        yield job(name, epsilon, 1e-5, "mst", 1, bins=BINS[1])
    for bins, (epsilon, name) in itertools.product(BINS, everywhere):
        yield job(name, epsilon, 1e-5, "priv-bayes", 1, bins=bins)
    yield from (aim(name, epsilon, bins, CAPS[0]) for bins in BINS for epsilon, name in slow)
    for system, bins, (epsilon, name) in itertools.product(("mst", "priv-bayes"), BINS, everywhere):
        yield job(name, epsilon, 1e-5, system, RUNS[system], bins=bins)
    for cap, runs, bins, (epsilon, name) in itertools.product(CAPS, (1, RUNS["aim"]), BINS, slow):
        yield aim(name, epsilon, bins, cap, runs)


class Bench:
    def __init__(self, arguments):
        self.data, self.out, self.ours = arguments.data, arguments.out, arguments.ours
        self.file, self.lock = self.out / "results.json", threading.Lock()
        self.runs = json.loads(self.file.read_text())["runs"] if self.file.exists() else []
        if arguments.again:
            self.runs = [run for run in self.runs if run["system"] not in OURS]
        self.sets = {}

    def same(self, job):
        keys = ("set", "epsilon", "delta", "system", "settings")
        return [run for run in self.runs if all(run[key] == job[key] for key in keys)]

    def note(self, job, **found):
        entry = {key: job[key] for key in ("set", "epsilon", "delta", "system", "settings")} | found
        with self.lock:
            self.runs.append(entry)
            part = self.file.with_suffix(".part")
            part.write_text(json.dumps(report.summary(self.runs) | {"runs": self.runs}, indent=1))
            os.replace(part, self.file)
        shown = " ".join(f"{name}={value:.4g}" for name, value in found.get("scores", {}).items())
        place = f"{job['set']} ε={job['epsilon']:g} δ={job['delta']:g} {report.label(job)}"
        print(f"{place}: {shown or found['failed']}", file=sys.stderr, flush=True)

    def do(self, job):
        """Runs what is missing of a job."""
        done = self.same(job)
        if any("failed" in run or run["cpu"] > SLOW for run in done):
            return
        missing = [run for run in range(job["runs"]) if all(run != other["run"] for other in done)]
        if missing and self.is_worth_it(job):
            (self.do_ours if job["system"] == "m2m" else self.do_peer)(job, missing)

    def is_worth_it(self, job):
        """AIM grows only where the smaller model left time for it."""
        cap = job["settings"].get("max_model_size", CAPS[0])
        if cap == CAPS[0]:
            return True
        smaller = job["settings"] | {"max_model_size": CAPS[CAPS.index(cap) - 1]}
        spent = [run.get("cpu", PATIENCE) for run in self.same(job | {"settings": smaller})]
        return bool(spent) and max(spent) < PATIENCE / 2

    def do_ours(self, job, missing):
        data, directory = self.sets[job["set"]], self.out / "sets" / job["set"]
        command = [self.ours, "peers", directory, f"{job['epsilon']:g}", f"{job['delta']:.5f}" if job["delta"] else "0"]
        process = subprocess.Popen([*command, str(len(missing))], stdout=subprocess.PIPE, text=True)
        memory = None
        for run, line in zip(missing, process.stdout):
            line = json.loads(line)
            # Later runs of the process would count the points that learning drew in earlier ones.
            memory = memory or line["memory"]
            answers = {kind: np.array(found).reshape(-1, 3) for kind, found in line["answers"].items()}
            scores = data.scores({kind: found[:, 0] for kind, found in answers.items()})
            if "auc" in line:
                scores["auc"] = line["auc"]
            held = {
                kind: float(np.mean((found[:, 1] <= data.truth[kind]) & (data.truth[kind] <= found[:, 2])))
                for kind, found in answers.items()
                if len(found)
            }
            cost = {key: line[key] for key in ("release_cpu", "fit_cpu", "ask_cpu", "learn_cpu")} | {"memory": memory}
            self.note(job, run=run, scores=scores, cpu=line["release_cpu"] + line["fit_cpu"], coverage=held, **cost)
            rows = data.read_rows(Path(line["rows"]))
            scores = data.scores(data.answers(rows))
            if (auc := data.auc(rows)) is not None:
                scores["auc"] = auc
            cpu = line["release_cpu"] + line["fit_cpu"] + line["rows_cpu"]
            self.note(job | {"system": OURS[1]}, run=run, scores=scores, cpu=cpu, memory=memory)
        if process.wait() < 0:
            raise KeyboardInterrupt
        if process.returncode > 0:
            raise RuntimeError(f"our side failed on {job['set']}")

    def do_peer(self, job, missing):
        path = self.out / f"job-{threading.get_ident()}.json"
        path.write_text(json.dumps(job | {"data": str(self.data), "runs": missing, "seconds": PATIENCE * len(missing)}))
        command = [sys.executable, "-W", "ignore", Path(__file__).parent / "systems.py", path]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        output, errors = process.communicate()
        path.unlink()
        for line in filter(None, output.splitlines()):
            self.note(job, **json.loads(line))
        if process.returncode == -signal.SIGXCPU:
            self.note(job, run=None, failed=f"given up after {PATIENCE} s of processor time")
        elif process.returncode == -signal.SIGKILL:
            self.note(job, run=None, failed="killed, as happens when memory runs out")
        elif process.returncode > 0:
            self.note(job, run=None, failed=(errors.strip().splitlines() or ["failed"])[-1])
        elif process.returncode < 0:
            raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--again", action="store_true", help="our side once more, after a change; the peers' results stay")
    arguments = parser.parse_args()
    names = sets.names(arguments.data)
    if not names:
        raise SystemExit(f"{arguments.data} holds none of {', '.join(sets.KNOWN)}, nor a CSV with schema.toml beside it")
    if arguments.quick:
        names = [name for name in names if name in QUICK_SETS or name not in sets.KNOWN]
    arguments.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments)
    for name in names:
        bench.sets[name] = sets.load(arguments.data, name)
        bench.sets[name].write(arguments.out / "sets" / name)
    todo = list(jobs({name: len(data.columns) for name, data in bench.sets.items()}, arguments.quick))
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for outcome in [pool.submit(bench.do, job) for job in todo]:
            outcome.result()
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
    finally:
        pool.shutdown(cancel_futures=True)
        report.write(bench.runs, arguments.out)
    print((arguments.out / "report.md").read_text())


if __name__ == "__main__":
    main()

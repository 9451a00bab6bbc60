"""Tables, ratios and plots of the results. Run by itself (`report.py OUT`), it writes them again."""

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

# Errors, smaller is better; `auc` is the one that is not, and is compared as 1 - AUC.
METRICS = {
    "mean": "E[x]",
    "m2": "E[x²]",
    "emd": "EMD",
    "cov": "cov",
    "q": "3-way counts",
    "tv2": "2-way tables",
    "tv3": "3-way tables",
    "auc": "AUC",
}
MULTI = ("cov", "q", "tv2", "tv3")
INTRODUCTION = """# Accuracy beside the peers

Mean ± standard deviation over runs. E[x], E[x²]: mean relative error of the columns on [0, 1]. EMD: of the distribution
functions at 10 points. cov: relative Frobenius error of the covariance. 3-way counts: mean absolute error of 200 random
ones, thresholds at quantiles. Tables: mean total variation error of all 2-way and 30 random 3-way tables of the columns of
levels. AUC: logistic regression on rows held out. CPU: seconds to release and fit (ours: both rounds from the file; peers:
fit and drawing of rows); memory: peak of the process in MB, for peers with Python and its libraries.

All systems have the same cells for zeros and for whole numbers; other numbers have 16 or 32 bins for the peers. `aim`, `mst`
and `priv-bayes` are those of dpmm 0.1.9, with 500 steps of mirror descent (AIM: 200 a round, domains not compressed, its cap
in MB in the name); they know no pure ε. `copula` is a Gaussian copula of our own, the share is that of its marginals.
`independent`, a histogram per column with the whole budget, is shown for reference and is not a peer: it knows nothing of
columns together. Peers are asked by 200,000 synthetic rows; `m2m rows` is our release asked in the same way, by as many rows
of `m2m synth`.
"""


def label(run):
    """A system in its setting."""
    settings = run["settings"]
    words = [run["system"]]
    if run["system"] == "copula":
        words.append(f"{settings['share']:g}")
    elif run["system"] in ("aim", "mst", "priv-bayes"):
        words.append(f"{settings['bins']} bins")
    if "max_model_size" in settings:
        words.append(f"{settings['max_model_size']} MB")
    return " ".join(words)


def grouped(runs):
    """Mean, spread and number of runs by set, budget and system."""
    groups = defaultdict(list)
    for run in runs:
        if "failed" not in run:
            groups[run["set"], run["epsilon"], run["delta"], label(run)].append(run)
    out = {}
    for key, found in groups.items():
        values = defaultdict(list)
        for run in found:
            for name, value in {**run["scores"], "cpu": run["cpu"], "memory": run["memory"]}.items():
                values[name].append(value)
        spread = lambda v: float(np.std(v, ddof=1)) if len(v) > 1 else None
        out[key] = {n: {"mean": float(np.mean(v)), "spread": spread(v), "runs": len(v)} for n, v in values.items()}
    return out


def error(found, metric):
    if metric not in found:
        return None
    return 1 - found[metric]["mean"] if metric == "auc" else found[metric]["mean"]


def peers_of(groups, place):
    """The peers in a row: each in the one setting that suits it best over all metrics, with hindsight."""
    best = {}
    for key, found in groups.items():
        if key[:3] != place or (key[3].startswith("m2m") or key[3] == "independent"):
            continue
        score = float(np.mean([np.log(max(error(found, metric), 1e-12)) for metric in METRICS if metric in found]))
        system = key[3].split()[0]
        if system not in best or score < best[system][0]:
            best[system] = (score, key[3], found)
    return [(name, found) for _, name, found in best.values()]


def ratios(groups):
    """Ours over the best peer by set, budget and metric; at pure ε also over the best peer that has δ."""
    out = []
    for (name, epsilon, delta, system), ours in groups.items():
        if system != "m2m":
            continue
        for metric in METRICS:
            own = error(ours, metric)
            if own is None:
                continue
            entry = {"set": name, "epsilon": epsilon, "delta": delta, "metric": metric}
            for kind, rival in (("peer", delta), ("peer_with_delta", 1e-5)):
                peers = [
                    (error(found, metric), other)
                    for other, found in peers_of(groups, (name, epsilon, rival))
                    if metric in found
                ]
                if peers and (kind == "peer" or not delta):
                    best, who = min(peers)
                    entry[kind] = {"ratio": own / best, "name": who}
            if "peer" in entry:
                out.append(entry)
    return out


def geometric(found):
    """The geometric mean of the ratios over what takes several columns."""
    out = []
    for epsilon, delta in sorted({(r["epsilon"], r["delta"]) for r in found}):
        entry = {"epsilon": epsilon, "delta": delta}
        for kind in ("peer", "peer_with_delta"):
            here = [
                r[kind]["ratio"]
                for r in found
                if (r["epsilon"], r["delta"]) == (epsilon, delta) and r["metric"] in MULTI and kind in r
            ]
            if here:
                mean = float(np.exp(np.mean(np.log(here))))
                entry[kind] = {"ratio": mean, "wins": sum(r < 1 for r in here), "of": len(here)}
        out.append(entry)
    return out


def summary(runs):
    groups = grouped(runs)
    found = ratios(groups)
    keys = ("set", "epsilon", "delta", "system")
    return {
        "geometric": geometric(found),
        "ratios": found,
        "groups": [dict(zip(keys, key)) | {"metrics": values} for key, values in groups.items()],
    }


def number(value):
    return f"{value:.3g}"


def shown(found, metric):
    if metric not in found:
        return ""
    value, spread = found[metric]["mean"], found[metric]["spread"]
    plain = (lambda v: f"{v:.4f}") if metric == "auc" else number
    return plain(value) + (f" ± {spread:.1g}" if spread is not None else "")


def budget(epsilon, delta):
    return [f"{epsilon:g}", f"{delta:g}" if delta else "pure"]


def ratio(entry):
    """A ratio with the peer's name; a loss is marked."""
    text = f"{entry['ratio']:.2f}"
    return (f"**{text} ▲**" if entry["ratio"] > 1 else text) + f" ({entry['name']})"


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *("| " + " | ".join(r) + " |" for r in rows)])


def markdown(runs):
    groups = grouped(runs)
    found = ratios(groups)
    parts = [INTRODUCTION, "## Ours over the best peer: geometric mean of the ratios of cov, 3-way counts and tables\n"]
    rows = []
    for entry in geometric(found):
        cells = []
        for kind in ("peer", "peer_with_delta"):
            if kind not in entry:
                cells.append("")
                continue
            mean = entry[kind]
            mark = f"**{mean['ratio']:.2f} ▲**" if mean["ratio"] > 1 else f"{mean['ratio']:.2f}"
            cells.append(f"{mark} ({mean['wins']} of {mean['of']} won)")
        rows.append([*budget(entry["epsilon"], entry["delta"]), *cells])
    parts.append(table(["ε", "δ", "best peer", "best peer with δ=1e-5"], rows))
    parts.append("\nBelow 1 ours is better; ▲ marks a loss. A peer has one setting for all metrics of a row, the one that suits it best; the best peer is chosen anew for every metric.\n")
    order = {name: at for at, name in enumerate(dict.fromkeys(run["set"] for run in runs))}
    for kind, title in (("peer", "every ratio"), ("peer_with_delta", "pure ε beside peers with δ=1e-5")):
        rows = []
        keys = {(r["set"], r["epsilon"], r["delta"]) for r in found if kind in r}
        for name, epsilon, delta in sorted(keys, key=lambda k: (order[k[0]], k[1], k[2])):
            by = {r["metric"]: r for r in found if (r["set"], r["epsilon"], r["delta"]) == (name, epsilon, delta)}
            rows.append([name, *budget(epsilon, delta), *(ratio(by[m][kind]) if m in by else "" for m in METRICS)])
        if rows:
            heads = [f"{text} (1 - AUC)" if m == "auc" else text for m, text in METRICS.items()]
            parts.append(f"## Ours over the best peer, {title}\n\n{table(['set', 'ε', 'δ', *heads], rows)}\n")
    for name in order:
        keys = sorted((k for k in groups if k[0] == name), key=lambda k: (k[1], k[2], k[3] != "m2m", k[3]))
        metrics = [m for m in METRICS if any(m in groups[k] for k in keys)]
        rows = []
        for key in keys:
            values = groups[key]
            spent = [number(values["cpu"]["mean"]), f"{values['memory']['mean']:.0f}", str(values["cpu"]["runs"])]
            system = f"**{key[3]}**" if key[3] == "m2m" else key[3]
            rows.append([*budget(key[1], key[2]), system, *(shown(values, m) for m in metrics), *spent])
        head = ["ε", "δ", "system", *(METRICS[m] for m in metrics), "CPU", "MB", "runs"]
        parts.append(f"## {name}\n\n{table(head, rows)}\n")
    parts.append(f"## How often our 95% intervals hold the truth\n\n{coverage(runs)}\n")
    parts.append(f"## Processor seconds, all questions asked\n\n{cost(runs)}\n")
    failed = [run for run in runs if "failed" in run]
    if failed:
        lines = [f"- {r['set']}, ε={r['epsilon']:g}, δ={r['delta']:g}, {label(r)}: {r['failed']}" for r in failed]
        parts.append("## Not finished\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def coverage(runs):
    kinds, by = ("mean", "square", "cdf", "product", "count", "cell"), defaultdict(list)
    for run in runs:
        if "coverage" in run:
            by[run["set"], run["epsilon"], run["delta"]].append(run["coverage"])
    rows = []
    for key in sorted(by, key=str):
        means = [np.mean([c[kind] for c in by[key]]) if kind in by[key][0] else None for kind in kinds]
        over_all = np.mean([mean for mean in means if mean is not None])
        rows.append([key[0], *budget(key[1], key[2]), *("" if m is None else f"{m:.3f}" for m in means), f"{over_all:.3f}"])
    return table(["set", "ε", "δ", *kinds, "mean of these"], rows)


def cost(runs):
    """Our processor time with every question and the model, over that of the faster of AIM and MST, asked the same by its rows
    (but for runs of earlier versions, which did not time that)."""
    ours, theirs = defaultdict(list), defaultdict(dict)
    for run in runs:
        place = run["set"], run["epsilon"], run["delta"]
        if run["system"] == "m2m":
            ours[place].append([run[part] for part in ("release_cpu", "fit_cpu", "ask_cpu", "learn_cpu")])
        elif run["system"] in ("aim", "mst") and "failed" not in run:
            theirs[place].setdefault(label(run), []).append(run["cpu"] + run.get("ask_cpu", 0))
    rows = []
    for place in sorted(ours, key=str):
        if place in theirs:
            parts = np.median(ours[place], axis=0)
            fastest, who = min((float(np.median(times)), name) for name, times in theirs[place].items())
            rows.append([place[0], *budget(*place[1:]), *map(number, parts), f"{fastest:.1f} ({who})", f"1/{fastest / parts.sum():.0f}"])
    return table(["set", "ε", "δ", "release", "fit", "questions", "model", "fastest of AIM and MST", "ours over it"], rows)


def plots(runs, out):
    """The errors against ε, a figure per set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    groups = grouped(runs)
    for name in dict.fromkeys(key[0] for key in groups):
        metrics = [m for m in ("cov", "q", "tv2", "tv3") if any(m in v for k, v in groups.items() if k[0] == name)]
        if not metrics:
            continue
        figure, axes = plt.subplots(2, len(metrics), figsize=(5 * len(metrics), 7.5), squeeze=False, sharex=True, layout="constrained")
        systems = sorted({k[3] for k in groups if k[0] == name}, key=lambda s: (s != "m2m", s))
        for row, delta in zip(axes, (1e-5, 0)):
            for axis, metric in zip(row, metrics):
                for at, system in enumerate(systems):
                    keys = sorted(k for k in groups if (k[0], k[2], k[3]) == (name, delta, system))
                    points = [(k[1], groups[k][metric]["mean"]) for k in keys if metric in groups[k]]
                    if points:
                        ours = system == "m2m"
                        style = dict(color="black", linewidth=2.5, zorder=3) if ours else dict(color=f"C{at % 10}", linewidth=1)
                        axis.plot(*zip(*points), marker="o", markersize=4, label=system, **style)
                axis.set(xscale="log", yscale="log", title=f"{METRICS[metric]}, {'δ=1e-5' if delta else 'pure ε'}", xlabel="ε")
        handles = {text: line for axis in axes.flat for line, text in zip(*axis.get_legend_handles_labels())}
        figure.legend(handles.values(), handles.keys(), loc="outside right center", fontsize=8)
        figure.suptitle(name)
        figure.savefig(out / f"{name}.png", dpi=120)
        plt.close(figure)


def write(runs, out):
    if runs:
        (out / "report.md").write_text(markdown(runs))
        plots(runs, out)


if __name__ == "__main__":
    where = Path(sys.argv[1])
    write(json.loads((where / "results.json").read_text())["runs"], where)

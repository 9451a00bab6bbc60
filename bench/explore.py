"""How fast the explorer is, and how heavy its pages: `cargo xtask bench explore`.

`explore.py M2M DATA OUT`: publishes LifeSci and Adult at ε = 1 with the command M2M, serves each, and prints the time to the
first view in a browser that is open already, the time of each interaction as the page asks for it (medians of five) with the
processor time that it takes, which other work on the machine does not change, and the sizes of page and report. Bounds and levels are taken from the tables as if they were public.
"""

import csv
import gzip
import http.client
import json
import os
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).parent.parent / "crates/m2m-cli/tests/browser"))
import page  # noqa: E402

TABLES = {"lifesci": ["reactivity"], "adult": []}
RUNS = 5


def schema(path, drop):
    """The columns of a table, as TOML."""
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    text = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in drop:
            continue
        text.append(f"[[column]]\nname = {json.dumps(name)}")
        try:
            numbers = [float(value) for value in values]
        except ValueError:
            text.append(f"type = 'category'\nlevels = {json.dumps(sorted(set(values)))}")
            continue
        whole = all(number.is_integer() for number in numbers)
        low, high = min(numbers), max(numbers)
        ends = (int(low), int(high)) if whole else (low, high)
        text.append(f"type = '{'integer' if whole else 'number'}'\nmin = {ends[0]}\nmax = {ends[1]}")
        if low <= 0 <= high and numbers.count(0) > 0.05 * len(numbers) and high - low > 128:
            text.append("atoms = [0]")
    return "\n".join(text) + "\n"


class Server:
    def __init__(self, m2m, release):
        self.started = time.monotonic()
        self.process = subprocess.Popen([m2m, "explore", release, "--no-open"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.link = self.process.stdout.readline().strip()
        self.listening = time.monotonic() - self.started
        self.host, self.token = self.link.removeprefix("http://").split("/?token=")

    def ask(self, path, body=None):
        """The seconds that an answer takes, and its bytes."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection(self.host)
        start = time.monotonic()
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, (path, answer)
        return time.monotonic() - start, answer

    def processor(self):
        """The processor time that the server has used, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def interactions(columns):
    numbers = [c["name"] for c in columns if "min" in c]
    levels = [c["name"] for c in columns if "levels" in c]
    x, y = numbers[0], numbers[1]
    quote = lambda name: '"' + name.replace('"', '""') + '"'
    where = urllib.parse.quote(f"{quote(x)} >= {json.dumps(float(columns[0]['min'])) if columns[0]['name'] == x else 0}")
    yield "overview, filtered", f"/api/overview?charts=true&where={where}", None
    yield "column", f"/api/columns/{urllib.parse.quote(x)}?charts=true", None
    yield "column, filtered", f"/api/columns/{urllib.parse.quote(y)}?charts=true&where={where}", None
    yield "correlations", "/api/correlations?charts=true", None
    yield "pair", f"/api/pairs?x={urllib.parse.quote(x)}&y={urllib.parse.quote(y)}&charts=true", None
    key = quote(levels[0]) if levels else f"bin({quote(x)}, 8)"
    yield "SQL, by group", "/api/sql", {"query": f"SELECT {key}, COUNT(*), AVG({quote(y)}) FROM t GROUP BY 1", "charts": True}
    yield "model (sampling)", "/api/fit", {"formula": f"{quote(x)} ~ {quote(y)} + {quote(numbers[2])}", "charts": True}
    yield "rows to look at (sampling)", "/api/synth?rows=25", None
    yield "10,000 rows (sampling)", "/api/synth?rows=10000&format=csv", None


def first_views(browser, link):
    """Milliseconds from the navigation to the view, in a browser that is open."""
    found = []
    for _ in range(RUNS):
        browser.driver.get("about:blank")
        browser.driver.get(link)
        browser.settled()
        found.append(browser.driver.execute_script("return performance.getEntriesByName('ready')[0].startTime"))
    return found


def main(m2m, data, out):
    data, out = Path(data), Path(out)
    out.mkdir(parents=True, exist_ok=True)
    browser = page.Browser(out)
    try:
        for name, drop in TABLES.items():
            path = data / f"{name}.csv.gz"
            if not path.exists():
                raise SystemExit(f"{path} is not there; give a directory that has it with --data")
            (out / f"{name}.toml").write_text(schema(path, drop))
            release = out / f"{name}.m2m"
            sketch = [m2m, "sketch", path, "--schema", out / f"{name}.toml", "--epsilon", "1", "-o", release, "--force"]
            subprocess.run(sketch, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run([m2m, "report", release, "-o", out / f"{name}.html", "--force"], check=True, stderr=subprocess.DEVNULL)
            server = Server(m2m, release)
            start, overview = server.ask("/api/overview?charts=true")
            ready, used = 1000 * (server.listening + start), 1000 * server.processor()
            print(f"{name}: from the start of the program to its first answer {ready:.0f} ms, processor {used:.0f} ms")
            views = first_views(browser, server.link)
            print(f"  first view in a browser: {views[0]:.0f} ms, then {median(views[1:]):.0f} ms")
            for what, address, body in interactions(json.loads(overview)["schema"]):
                first, _ = server.ask(address, body)
                before = server.processor()
                again = median(server.ask(address, body)[0] for _ in range(RUNS))
                busy = (server.processor() - before) / RUNS
                print(f"  {what}: {1000 * again:.0f} ms, processor {1000 * busy:.0f} ms (at first {1000 * first:.0f} ms)")
            files = ["/", "/style.css", "/app.js", "/dom.js", "/overview.js", "/columns.js", "/sql.js", "/models.js", "/icon.svg"]
            weight = sum(len(server.ask(file)[1]) for file in files)
            report = (out / f"{name}.html").stat().st_size
            print(f"  page {weight / 1000:.1f} KB, overview {len(overview) / 1000:.1f} KB, report {report / 1000:.1f} KB")
            server.stop()
    finally:
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])

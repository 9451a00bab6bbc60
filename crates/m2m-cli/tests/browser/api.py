"""The explorer's API against its own description, by property tests: `api.py M2M OUT`.

Requests that the description allows and requests that it forbids must both be answered as it says. That every allowed request
succeeds is not asked: conditions, formulas and SQL are languages that no JSON Schema describes.
"""

import subprocess
import sys
from pathlib import Path


def main(m2m, out):
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "demo/people.m2m").exists():
        subprocess.run([m2m, "demo", "--out", out / "demo"], check=True, stdout=subprocess.DEVNULL)
    # Fewer points than usual: what is tested here is not how well they stand for the table.
    command = [m2m, "explore", out / "demo/people.m2m", "--no-open", "--samples", "5000"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address, token = server.stdout.readline().strip().split("/?token=")
    command = [Path(sys.executable).parent / "schemathesis", "run", f"{address}/api/openapi.json"]
    options = "--max-examples 25 --seed 1 --phases examples,coverage,fuzzing --generation-database none --no-color"
    checks = ["--exclude-checks", "positive_data_acceptance"]
    try:
        done = subprocess.run([*command, *options.split(), *checks, "--header", f"Authorization: Bearer {token}"], cwd=out)
        assert server.poll() is None, "the server ended"
    finally:
        server.terminate()
        server.wait()
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])

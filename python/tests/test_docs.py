"""Every block of Python in the documentation runs, page by page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = sorted(
    path for path in (Path(__file__).parents[2] / "docs/site").glob("*.md") if "```python" in path.read_text()
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    # In a file of its own: pools of processes look for their functions there.
    program = tmp_path / f"{page.stem}.py"
    program.write_text("import matplotlib\n\nmatplotlib.use('agg')\n\n" + "\n".join(blocks))
    done = subprocess.run([sys.executable, "-W", "ignore", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr

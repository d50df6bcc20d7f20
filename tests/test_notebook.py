"""The example notebook runs in a kernel, and its cells show what the stored ones show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"
# in a process of its own: what nbclient's libraries warn of is not ours
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600, startup_timeout=600, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [
        cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
    ]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    pytest.importorskip("nbclient")
    folder = tmp_path_factory.mktemp("kernel")
    own = {
        name: str(folder)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    env = {**os.environ, **own, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", EXECUTE, str(NOTEBOOK), str(folder / "executed.ipynb")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    return code_cells(folder / "executed.ipynb")


def kinds(cell: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(output["output_type"], sorted(output.get("data", {}))) for output in cell["outputs"]]


def test_every_cell_shows_what_it_shows_in_the_stored_notebook(executed: list[dict[str, Any]]) -> None:
    assert [kinds(cell) for cell in executed] == [kinds(cell) for cell in code_cells(NOTEBOOK)]


def test_the_figure_is_displayed(executed: list[dict[str, Any]]) -> None:
    [shown] = [cell for cell in executed if "".join(cell["source"]) == "run.plot()"]
    assert "image/png" in shown["outputs"][0]["data"]


def test_progress_is_one_output_that_stays_at_its_end(executed: list[dict[str, Any]]) -> None:
    [cell] = [cell for cell in executed if "progress=True" in "".join(cell["source"])]
    [progress] = [output["data"] for output in cell["outputs"] if output["output_type"] == "display_data"]
    assert "step 30/30" in "".join(progress["text/plain"])
    assert "step 30 of 30" in "".join(progress["text/html"])


def test_the_module_reaches_the_reported_accuracy(executed: list[dict[str, Any]]) -> None:
    assert "".join(executed[-1]["outputs"][0]["text"]).rstrip().endswith("reported: True")

"""What a stranger does first with an installed fedpace: a comparison, a model of their own, a report page."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import torch
from torch import nn

import fedpace

FEDPACE = shutil.which("fedpace", path=sysconfig.get_path("scripts")) or "fedpace"
COMPARISON = "compare fedavg ca2fl --task digits --clients 20 --rounds 10 --population half-normal:3 --quiet"


def command(*words: str) -> str:
    """What `fedpace` prints, as installed."""
    done = subprocess.run([FEDPACE, *words], check=True, capture_output=True, text=True)
    return done.stdout


def demo() -> str:
    table = command(*COMPARISON.split(), "--report", "page.html")
    assert "fedavg" in table and "ca2fl" in table, table
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count("<svg") > 6 and "src=" not in page
    return f"comparison and page of {len(page) // 1000} kB"


def own_model() -> str:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 8, generator=generator)
    y = (x[:, 0] + x[:, 1] > 0).long()
    clients = [(x[i::10], y[i::10]) for i in range(10)]
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    task = fedpace.tasks.from_torch(model, nn.functional.cross_entropy, clients, (x, y))
    run = fedpace.simulate(fedpace.algorithms.fedavg(client_lr=0.2, epochs=2), task, rounds=15)
    assert run.final["accuracy"] > 0.9, run
    return f"own model: accuracy {run.final['accuracy']:.2f}"


def main() -> None:
    assert command("--version").split() == ["fedpace", fedpace.__version__]
    assert Path(sys.prefix) in Path(fedpace.__file__).parents, fedpace.__file__  # the wheel, not a repository
    python = ".".join(map(str, sys.version_info[:2]))
    for part in (demo, own_model):
        began = time.monotonic()
        said = part()
        print(f"Python {python}: {said} ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()

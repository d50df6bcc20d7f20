"""Signals end a run in good order; a real process each."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedpace.interruption import interruptible
from fedpace.record.store import checkpoint
from fedpace.record.store.store import Store
from results import unnamed

ROOT = Path(__file__).parents[2]
RUN = (
    "run fedbuff --task digits --model softmax --clients 12 --rounds 300 --set steps=2 --set buffer=3 "
    "--set concurrency=6 --population half-normal:3"
)
WORDS = RUN.split()
# The run waits at step 20 until a signal has come, or until its standard input says go.
SLOW = """
import select, sys
from fedpace import interruption as signals
from fedpace.cli import main
from fedpace.record.store.writer import Writer

came, recorded, seen = signals.Interruption.came, Writer.recorded, []

def noticed(self, number, frame):
    seen.append(number)
    came(self, number, frame)

def slow(self, record, x):
    recorded(self, record, x)
    if record.version == 20:
        open(sys.argv[1], "w").close()
        while not seen and not select.select([sys.stdin], [], [], 0.01)[0]:
            pass

signals.Interruption.came, Writer.recorded = noticed, slow
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(autouse=True)
def nothing_is_ignored() -> Iterator[None]:
    """Whoever started the tests may have had signals ignored (`nohup ... &`), which processes inherit."""
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@contextmanager
def at_step_20(home: Path, *words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A run of its own process that has come to step 20 and waits there."""
    there = home.parent / "there"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "FEDPACE_HOME": str(home)}
    command = [sys.executable, "-c", SLOW, str(there), *words]
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    with subprocess.Popen(
        command, **{**pipes, "env": env, "text": True, "start_new_session": True, **options}
    ) as process:
        try:
            while not there.exists():
                assert process.poll() is None, process.stderr and process.stderr.read()
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the run writes if nobody interrupts it."""
    from fedpace.cli import main

    path = tmp_path_factory.mktemp("whole") / "r.json"
    assert main([*WORDS, "--quiet", "--no-store", "--json", str(path)]) == 0
    return unnamed(path)


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=pytest.mark.long), "SIGINT"])
def test_a_checkpoint_is_saved_and_the_run_goes_on_to_the_same_bits(
    name: str, home: Path, whole: bytes, fedpace: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far from the 60 seconds after which the first checkpoint is due."""
    number = getattr(signal, name)
    with at_step_20(home, *WORDS, "--name", "night", "--quiet") as process:
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
    why = "interrupted" if name == "SIGINT" else f"interrupted by {name}"
    assert said == f"fedpace run: {why} after step 20; to continue: fedpace resume night\n"
    assert process.returncode == 128 + number
    monkeypatch.setenv("FEDPACE_HOME", str(home))
    assert Store()["night"].status == "interrupted"
    head, _ = checkpoint.read(home / "runs" / "night" / checkpoint.CURRENT)
    assert head["version"] == 20
    assert fedpace("resume", "night", "--quiet", "--json", home / "r.json").code == 0
    assert unnamed(home / "r.json") == whole


def test_workers_that_are_told_too_do_not_spoil_it(home: Path) -> None:
    """A service manager and a terminal that closes tell the whole group, and more than once."""
    words = [*WORDS, "--name", "night", "--quiet", "--compute", "pool", "--workers", "2"]
    with at_step_20(home, *words) as process:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
            os.killpg(process.pid, number)
        _, said = process.communicate(timeout=600)
    assert said.endswith("to continue: fedpace resume night\n") and said.count("\n") == 1
    assert process.returncode in (128 + signal.SIGTERM, 128 + signal.SIGHUP)
    assert checkpoint.exists(home / "runs" / "night")


@pytest.mark.parametrize("name", ["SIGHUP", pytest.param("SIGINT", marks=pytest.mark.long)])
def test_what_is_ignored_stays_ignored(name: str, home: Path, whole: bytes) -> None:
    """`nohup fedpace run`, or `fedpace run &` in a script."""
    number = getattr(signal, name)
    result = home.parent / "r.json"
    words = [*WORDS, "--quiet", "--json", str(result)]
    with at_step_20(home, *words, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as process:
        os.killpg(process.pid, number)
        _, said = process.communicate("go\n", timeout=600)
    assert (process.returncode, said) == (0, "")
    assert unnamed(result) == whole


def test_a_terminal_that_closes(home: Path) -> None:
    """The progress bar cannot be drawn any more; the checkpoint is saved all the same."""
    master, terminal = pty.openpty()
    ends = {"stdout": terminal, "stderr": terminal}
    with at_step_20(home, *WORDS, "--name", "night", **ends) as process:
        os.close(terminal)
        os.close(master)  # the other end is gone, as the kernel tells the session next
        os.killpg(process.pid, signal.SIGHUP)
        process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGHUP
    assert checkpoint.exists(home / "runs" / "night")


def test_without_a_store_what_was_learned_is_written(home: Path) -> None:
    code = """
import signal, sys
from fedpace.cli import main
from fedpace.record import History
recorded = History.recorded
def told(self, record, x):
    recorded(self, record, x)
    if record.version == 5:
        signal.raise_signal(signal.SIGTERM)
History.recorded = told
sys.exit(main(sys.argv[1:]))
"""
    result = home.parent / "r.json"
    command = [sys.executable, "-c", code, *WORDS, "--quiet", "--no-store", "--json", str(result)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (143, "fedpace run: interrupted by SIGTERM\n")
    assert len(json.loads(result.read_text())["history"]) == 5


def test_signals_that_come_while_the_result_is_written_do_not_cut_it_short(home: Path) -> None:
    """A terminal that closes sends SIGHUP twice: once by the shell, once by the kernel."""
    code = """
import signal, sys
from fedpace.cli import main
from fedpace.record.store import booking as book
from fedpace.record.store.writer import Writer
recorded, end = Writer.recorded, book.end
def told(self, record, x):
    recorded(self, record, x)
    if record.version == 5:
        signal.raise_signal(signal.SIGHUP)
def hung_up(*about):
    signal.raise_signal(signal.SIGHUP)
    end(*about)
    signal.raise_signal(signal.SIGHUP)
Writer.recorded, book.end = told, hung_up
sys.exit(main(sys.argv[1:]))
"""
    result = home.parent / "r.json"
    command = [sys.executable, "-c", code, *WORDS, "--name", "night", "--quiet", "--json", str(result)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "FEDPACE_HOME": str(home)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 129 and done.stderr.endswith("to continue: fedpace resume night\n")
    assert len(json.loads(result.read_text())["history"]) == 5
    assert Store(home)["night"].status == "interrupted"


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    with interruptible() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_whose_process_was_killed_has_died(
    home: Path, fedpace: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database says "running" before and after: the process is what is asked for."""
    monkeypatch.setenv("FEDPACE_HOME", str(home))
    with at_step_20(home, *WORDS, "--name", "night", "--quiet") as process:
        assert state_of("night", fedpace) == "running"
        process.kill()
        process.wait()
        assert Store()["night"].status == "running"
        assert state_of("night", fedpace) == "died"


def state_of(name: str, fedpace: Callable[..., Any]) -> str:
    [line] = [line for line in fedpace("runs").out.splitlines() if line.startswith(name)]
    return str(line.split()[-3])

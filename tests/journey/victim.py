"""Runs that are killed: a process forks them, kills them at random moments or at chosen calls, and compares.

    python victim.py random CASE WORKERS KILLS SEED     SIGKILL after a random time, again and again
    python victim.py calls CASE CALLS                   SIGKILL before each of the first CALLS calls that touch the disk
    python victim.py moments CASE WORKERS KILLS SEED    KILLS at each of the moments of MOMENTS, in turns

Prints one JSON object. The runs use no torch, so that a fork is cheap and safe.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fedpace
from fedpace import algorithms
from fedpace.link import TopK
from fedpace.random import stream
from fedpace.record import Checkpoints
from fedpace.record.store.checkpointer import Checkpointer
from fedpace.sim import Population

CLIENTS, SIZE, ROUNDS = 10, 3000, 60

CASES: dict[str, Callable[[], Any]] = {
    "synchronous": lambda: algorithms.fedavg(steps=3, clients_per_round=5),
    "momentum": lambda: algorithms.fedgm(steps=3, clients_per_round=5, beta=0.9, nu=0.7),
    "stages": lambda: algorithms.multistage_fedgm(steps=3, clients_per_round=5, rounds=ROUNDS),
    "corrected": lambda: algorithms.scaffold(steps=3, clients_per_round=5),
    "buffered": lambda: algorithms.fedbuff(steps=3, buffer=3, concurrency=6),
    "cached": lambda: algorithms.ca2fl(steps=3, buffer=3, concurrency=6, beta=0.5, nu=0.5),
    "packed cache": lambda: algorithms.mf_ca2fl(steps=3, buffer=3, concurrency=6, cache_bits=4),
    "polled": lambda: algorithms.defedavg_niid(steps=3, draws=4),
    "arrivals": lambda: algorithms.defedavg_iid(steps=3, buffer=4),
    "immediate": lambda: algorithms.fedasync(steps=3, concurrency=6),
    "interrupting": lambda: algorithms.favano(steps=3, clients_per_round=4),
    "averaging": lambda: algorithms.quafl(steps=3, clients_per_round=4),
    "replayed": lambda: algorithms.autonomous_fedgm(steps=3, history=4),
    "compressed": lambda: algorithms.fedcams(steps=3, clients_per_round=5, codec=TopK(ratio=0.05)),
    "lazy": lambda: algorithms.fednlaca(steps=3, clients_per_round=5, codec=TopK(ratio=0.05), tau=0.3),
    "two way": lambda: algorithms.two_way(steps=3, memory="ef"),
}


CHOSEN: dict[str, Any] = {
    "steps": 3,
    "buffer": 3,
    "concurrency": 6,
    "clients_per_round": 5,
    "draws": 4,
    "rounds": ROUNDS,
}


def algorithm(case: str) -> Any:
    """One of the cases above, or a named algorithm with as much of what is chosen as it knows."""
    if case in CASES:
        return CASES[case]()
    function = getattr(algorithms, case)
    known = inspect.signature(function).parameters
    with warnings.catch_warnings(action="ignore"):  # of parameters that are unusual on purpose
        return function(**{name: value for name, value in CHOSEN.items() if name in known})


def simulate(case: str, folder: Path | None, workers: int = 1, *, at_end: bool = False) -> fedpace.Run:
    rng = stream(7, "data")
    task = fedpace.tasks.quadratics(rng.normal(size=(CLIENTS, SIZE)), initial=1.0)
    seconds = tuple(rng.uniform(0.5, 3.0, CLIENTS).tolist())
    return fedpace.simulate(
        algorithm(case),
        task,
        Population(solve_s=seconds, noise_s=0.2, up_s=0.1, drop=0.03),
        rounds=ROUNDS,
        seed=3,
        workers=workers,
        compute="pool" if workers > 1 else "inline",
        evaluate_every="2s",
        checkpoint=None if folder is None else Checkpoints(folder, every=3, at_end=at_end),
    )


def result(run: fedpace.Run) -> bytes:
    """Everything that must not differ by a bit."""
    return run.to_json().encode() + repr(run.timeline()).encode() + run.model.tobytes()


def forked(work: Callable[[], None]) -> int:
    """The number of a child process that does the work and ends."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return child


def finished(folder: Path, case: str, workers: int) -> bytes:
    """Run to the end in a child; what came out."""
    out = folder.with_suffix(".result")
    child = forked(lambda: out.write_bytes(result(simulate(case, folder, workers))) and None)
    assert os.waitpid(child, 0)[1] == 0, "the run that was resumed failed"
    return out.read_bytes()


def at_random(scratch: Path, case: str, workers: int, kills: int, seed: int) -> dict[str, Any]:
    dice = random.Random(f"{case} {workers} {seed}")
    expected = result(simulate(case, None))  # by one worker, never interrupted
    began = time.perf_counter()
    assert finished(scratch / "whole", case, workers) == expected
    whole_s = time.perf_counter() - began
    landed = different = runs = 0
    while landed < kills:
        folder = scratch / f"run{runs}"
        for _ in range(dice.randint(1, 3)):  # the same run may be killed more than once
            child = forked(lambda folder=folder: simulate(case, folder, workers) and None)
            time.sleep(dice.uniform(0.0, 0.9 * whole_s))
            os.kill(child, signal.SIGKILL)
            landed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        different += finished(folder, case, workers) != expected
        runs += 1
        shutil.rmtree(folder, ignore_errors=True)
    return {"case": case, "workers": workers, "kills": landed, "runs": runs, "different": different}


def dying_at(call: int, work: Callable[[], Any]) -> None:
    """Do the work, but die before the disk is touched for the `call`-th time; ends normally if it never is."""
    calls = 0

    def dangerous(function: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)

        return instead

    for name in ("open", "fsync", "link", "replace", "unlink"):
        setattr(os, name, dangerous(getattr(os, name)))
    work()


def at_calls(scratch: Path, case: str, calls: int) -> dict[str, Any]:
    expected = result(simulate(case, None))
    landed = different = 0
    for call in range(1, calls + 1):
        folder = scratch / f"call{call}"
        child = forked(
            lambda folder=folder, call=call: dying_at(call, lambda: simulate(case, folder) and None)
        )
        landed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        different += finished(folder, case, 1) != expected
        shutil.rmtree(folder, ignore_errors=True)
    return {"case": case, "kills": landed, "different": different}


# ------------------------------------------------------------ at chosen moments


def dying_within(seconds: float) -> None:
    """The kernel ends this process by then, whatever it does; as abruptly as by SIGKILL, but at its own time."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))


def in_the_first_second(run: Callable[[], Any], dice: random.Random) -> None:
    dying_within(dice.uniform(0.0, min(1.0, 0.3 * WHOLE_S[0])))
    run()


def in_a_checkpoint_write(run: Callable[[], Any], dice: random.Random) -> None:
    dying_at(dice.randint(1, 100), run)


def in_the_final_save(run: Callable[[], Any], dice: random.Random) -> None:
    save = Checkpointer.save_the_end

    def dying(self: Checkpointer, *args: Any, **options: Any) -> None:
        dying_at(dice.randint(1, 6), lambda: save(self, *args, **options))

    Checkpointer.save_the_end = dying  # type: ignore[method-assign]
    run()


def in_the_resume(run: Callable[[], Any], dice: random.Random) -> None:
    """Of a run that was killed before: within 10 ms after it begins to read its checkpoint."""
    resume = Checkpointer.resume

    def dying(self: Checkpointer, *args: Any) -> bool:
        dying_within(dice.uniform(0.0, 0.01))
        return resume(self, *args)

    Checkpointer.resume = dying  # type: ignore[method-assign]
    run()


MOMENTS: dict[str, Callable[[Callable[[], Any], random.Random], None]] = {
    "first second": in_the_first_second,
    "checkpoint write": in_a_checkpoint_write,
    "final save": in_the_final_save,
    "resume": in_the_resume,
}
WHOLE_S = [1.0]  # seconds of the whole run


def at_moments(scratch: Path, case: str, workers: int, kills: int, seed: int) -> dict[str, Any]:
    dice = random.Random(f"{case} {workers} {seed}")
    expected = result(simulate(case, None))  # by one worker, never interrupted
    began = time.perf_counter()
    assert finished(scratch / "whole", case, workers) == expected
    WHOLE_S[0] = time.perf_counter() - began
    landed, different = dict.fromkeys(MOMENTS, 0), 0
    for moment, number in itertools.product(MOMENTS, range(kills)):
        folder = scratch / f"{moment}{number}".replace(" ", "-")
        while not killed(folder, case, workers, moment, dice):  # it was over before
            shutil.rmtree(folder, ignore_errors=True)
        landed[moment] += 1
        different += finished(folder, case, workers) != expected
        shutil.rmtree(folder, ignore_errors=True)
    return {"case": case, "workers": workers, "kills": landed, "different": different}


def killed(folder: Path, case: str, workers: int, moment: str, dice: random.Random) -> bool:
    """Whether the run in the folder died; before a resume that is to die, it dies in the middle."""
    run = functools.partial(simulate, case, folder, workers, at_end=True)
    own = random.Random(dice.random())
    if moment == "resume":
        died(lambda: dying_at(own.randint(30, 100), run))  # with some checkpoints written
    return died(lambda: MOMENTS[moment](run, own))


def died(work: Callable[[], None]) -> bool:
    return os.WIFSIGNALED(os.waitpid(forked(work), 0)[1])


def main() -> None:
    memory = Path("/dev/shm")  # a kill leaves what the system was told, on any file system: take the fastest
    scratch = Path(tempfile.mkdtemp(prefix="fedpace-kills-", dir=memory if memory.is_dir() else None))
    how, case, *rest = sys.argv[1:]
    try:
        kill = {"random": at_random, "calls": at_calls, "moments": at_moments}[how]
        print(json.dumps(kill(scratch, case, *map(int, rest))))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()

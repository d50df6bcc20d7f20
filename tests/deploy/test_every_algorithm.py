"""Every named algorithm on real clients: it ends, and its journal replays to the same bits, trained again or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.deploy.deployed import ROUNDS, SEED, TASK, VARIANTS, Bed

import fedpace
from fedpace.deploy import replay
from fedpace.pace import Replayed, Rounds


@pytest.mark.parametrize("name", VARIANTS)
def test_a_deployed_run_replays_to_the_same_bits_and_every_update_is_what_its_data_make(
    name: str, tmp_path: Path
) -> None:
    """In order, a synchronous one has the bits of its simulation as well."""
    synchronous = isinstance(VARIANTS[name].pace, Rounds | Replayed)
    run = Bed(VARIANTS[name], tmp_path, in_order=synchronous).run()
    assert (len(run.history), run.stopped) == (ROUNDS, None)
    assert run.counters["malformed"] == run.counters["resynchronised"] == 0
    again = replay(tmp_path / "server", TASK)
    assert again.run.model.tobytes() == run.model.tobytes()
    assert again.run.to_json() == run.to_json()
    assert again.different == ()
    assert again.retrained >= sum(len(set(step.clients)) for step in run.history)
    if synchronous:
        simulated = fedpace.simulate(VARIANTS[name], TASK, rounds=ROUNDS, seed=SEED, evaluate_every=None)
        assert run.model.tobytes() == simulated.model.tobytes()
        assert [step.clients for step in run.history] == [step.clients for step in simulated.history]

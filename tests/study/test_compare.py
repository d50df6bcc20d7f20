"""`fedpace.compare`: rows of runs, whatever they are made of and wherever they run."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass

import numpy as np
import pytest

import fedpace
from fedpace.algorithms import fedavg, fedbuff
from fedpace.errors import ConfigError
from fedpace.record.store.store import Store
from fedpace.sim.simulation import Simulation

ROUNDS = 6


@dataclass(frozen=True)
class Halved:
    """A server optimizer of one's own: half of the mean update."""

    share: float = 0.5

    def init(self, x: np.ndarray) -> None:
        return None

    def apply(self, x: np.ndarray, delta: np.ndarray, state: None) -> tuple[np.ndarray, None]:
        return x + self.share * delta, state


def own(share: float = 0.5) -> fedpace.Algorithm:
    from dataclasses import replace

    return replace(fedavg(client_lr=0.25, steps=1, batch_size=None), server_opt=Halved(share), name="own")


def quadratics(seed: int) -> object:
    """Centres that differ from seed to seed, and are the same for all rows."""
    return fedpace.tasks.quadratics([[float(seed)], [seed + 2.0], [seed + 4.0]], initial=[seed - 3.0])


def plain() -> fedpace.Algorithm:
    return fedavg(client_lr=0.25, steps=1, batch_size=None)


def loss_after(steps: int, share: float) -> float:
    """Gradient descent on f(x) = mean (x - c_i)^2 / 2 = (x - c)^2 / 2 + 4/3 from distance 5, at rate 0.25 share."""
    return (5.0 * (1 - 0.25 * share) ** steps) ** 2 / 2 + 4 / 3


def study(**more) -> fedpace.Study:
    options = {"rounds": ROUNDS, "seeds": 3, **more}
    return fedpace.compare({"plain": plain(), "own, half": own()}, quadratics, **options)


def test_every_row_has_the_same_task_for_the_same_seed() -> None:
    found = study()
    assert found.seeds == [0, 1, 2]
    for row, share in (("plain", 1.0), ("own, half", 0.5)):
        finals = [run.metrics["loss"] for run in found.runs[row]]
        assert finals == pytest.approx([loss_after(ROUNDS, share)] * 3, rel=1e-9)
        assert [run.algorithm.name for run in found.runs[row]] == [found.runs[row][0].name] * 3


def test_the_summary_is_what_the_statistics_say() -> None:
    """Every seed has the same loss here: the interval is empty, the difference certain."""
    found = study().summary
    expected = loss_after(ROUNDS, 0.5) - loss_after(ROUNDS, 1.0)
    assert found["plain"].difference is None
    assert found["own, half"].difference.mean == pytest.approx(expected, rel=1e-9)
    assert found["own, half"].p_holm == pytest.approx(0.0, abs=1e-9)
    assert found["plain"].metrics["loss"].half_width == pytest.approx(0.0, abs=1e-9)
    turned = study().against("own, half").summary
    assert turned["plain"].difference.mean == pytest.approx(-expected, rel=1e-9)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_results_do_not_depend_on_the_workers(method: str, monkeypatch) -> None:
    monkeypatch.setenv("FEDPACE_START_METHOD", method)
    alone, shared = study(), study(workers=2)
    assert alone.to_csv() == shared.to_csv()
    assert alone.table() == shared.table()
    for row, runs in alone.runs.items():
        for mine, theirs in zip(runs, shared.runs[row], strict=True):
            assert mine.to_json() == theirs.to_json()
            np.testing.assert_array_equal(mine.model, theirs.model)


def test_costs_to_a_target_are_medians_with_the_unreached_infinite() -> None:
    """The plain row is at the target after 4 steps, half as fast a server is not after 6."""
    target = loss_after(4, 1.0) * 1.0001
    found = study(target={"loss": target})
    assert found.summary["plain"].cost.steps == 4
    assert math.isinf(found.summary["own, half"].cost.steps) and found.summary["own, half"].cost.reached == 0
    assert "not reached" in found.table() and "0 of 3" in found.table() and "→ steps" in found.table()
    frame = found.to_pandas()
    assert list(frame.steps_to_target) == [4, 4, 4, math.inf, math.inf, math.inf]
    assert list(frame.steps) == [ROUNDS] * 6


def test_two_settings_of_one_algorithm_are_two_rows() -> None:
    task = quadratics(0)
    listed = fedpace.compare([plain(), fedavg(client_lr=0.1), "fedsgd"], task, rounds=2, seeds=1)
    assert list(listed.rows) == ["fedavg", "fedavg-2", "fedsgd"]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_a_run_that_diverges_is_counted_and_has_no_final_value() -> None:
    wild = fedavg(client_lr=1e200, steps=3, batch_size=None)
    found = fedpace.compare({"plain": plain(), "wild": wild}, quadratics, rounds=5, seeds=2)
    assert [each.state for each in found.rows["wild"]] == ["diverged", "diverged"]
    assert found.summary["wild"].completed == 0 and found.summary["wild"].metrics == {}
    assert "0 of 2" in found.table()


# ------------------------------------------------------------ in the store


def test_runs_are_saved_by_study_row_and_seed_and_found_again(monkeypatch) -> None:
    first = study(store="lion", workers=2)
    names = [entry.name for entry in Store().entries()]
    assert sorted(names) == sorted(f"lion/{row}/{seed}" for row in ("plain", "own-half") for seed in range(3))
    monkeypatch.setattr(Simulation, "begin", None)  # nothing is run again
    again = study(store="lion")
    assert again.to_csv() == first.to_csv()
    opened = fedpace.runs().study("lion")
    assert list(opened.rows) == ["plain", "own, half"] and opened.to_csv() == first.to_csv()
    fedpace.runs().delete("lion")
    assert len(fedpace.runs()) == 0


def test_a_rule_that_was_edited_is_another_experiment() -> None:
    fedpace.compare({"own": own()}, quadratics, rounds=2, seeds=1, store="lion")
    before = Halved.apply

    def edited(self, x, delta, state):
        return x + delta, state

    Halved.apply = edited
    try:
        with pytest.raises(ConfigError, match="'lion/own/0' has another code of own rules"):
            fedpace.compare({"own": own()}, quadratics, rounds=2, seeds=1, store="lion")
    finally:
        Halved.apply = before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": {"f1": 0.5}}, "target metric must be one of distance, loss"),
        ({"target": {"loss": 1.0, "accuracy": 1.0}}, "target must be one metric and its value"),
        ({"target": {"accuracy": 90}}, "target accuracy must be in \\[0, 1\\]"),
        ({"seeds": 0}, "seeds must be a whole number >= 1"),
        ({"seeds": [1, 1]}, "seeds must be a number of them, or different ones"),
        ({"baseline": "palin"}, "did you mean plain. baseline must be one of "),
        ({"store": "../up"}, "store must be letters"),
        ({"workers": 0}, "workers must be a whole number"),
    ],
)
def test_bad_input_is_one_line(more: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        study(**more)


def test_rows_that_would_have_one_name_in_the_store_are_refused() -> None:
    with pytest.raises(ConfigError, match="rows must differ in letters or digits"):
        fedpace.compare({"a b": plain(), "a-b": plain()}, quadratics, rounds=1, seeds=1, store="s")


# ------------------------------------------------------------ as text and pictures


def test_the_forms_of_the_table() -> None:
    found = fedpace.compare(
        {"a_b & <c>": plain(), "d|e": fedbuff(buffer=1, concurrency=2)}, quadratics, rounds=2, seeds=2
    )
    assert r"a\_b \& \textless{}c\textgreater{}" in found.to_latex() and r"\pm" in found.to_latex()
    assert r"| d\|e |" in found.to_markdown()
    assert "a_b &amp; &lt;c&gt;" in found._repr_html_() and "<c>" not in found._repr_html_()
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [line["row"] for line in lines] == ["a_b & <c>"] * 2 + ["d|e"] * 2
    assert str(found) == found.table() == repr(found)


def test_files_are_written(tmp_path) -> None:
    found = study()
    found.plot(tmp_path / "c.png")
    found.report(tmp_path / "page.html")
    found.to_latex(tmp_path / "t.tex")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "own, half" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "t.tex").read_text() == found.to_latex()

"""DeFedAvg, FedBuff, FedAsync, CA2FL, FAVANO and QuAFL on scalar quadratics: exact traces, fraction by fraction.

A run's history lists a step's members in the order their updates arrived; the DeFedAvg-nIID rows of the table
list them in the order of the draw. Those are compared with their (client, staleness) pairs sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beds import (
    LOCAL,
    Q3,
    Q3_TIMES,
    Q4,
    Q4_TIMES,
    Row,
    fractions,
    ints,
    run,
    script,
    table,
    trace,
    traces,
    unordered,
)
from fedpace import algorithms as named
from fedpace.aggregate import Cached, Contribution, Mean, Pooled
from fedpace.aggregate.staleness import Hinge, Polynomial
from fedpace.algorithm import Algorithm
from fedpace.compute import Inline
from fedpace.server import Step
from fedpace.sim import Observer, Population
from fedpace.sim.observer import Tally
from fedpace.sim.prepare import prepare
from fedpace.tasks import quadratics
from fedpace.vector import Vector

# ---------------------------------------------------------------- A: FedAvg and DeFedAvg

DRAWS = script((1, 2), (2, 3), (3, 3), (1, 3))
EQUAL = Population.from_times(2.0)
OVERLAP = Population.from_times((2.0, 3.0, 5.0), 0.25, 0.25, mode="overlap")
CURVED = quadratics([1.0, 2.0, -1.0], [1.0, 2.0, 0.5])
CURVED_LOCAL: dict[str, Any] = {"client_lr": 0.25, "steps": 3, "server_lr": 0.5}


def niid(**settings: Any) -> Algorithm:
    return named.defedavg_niid(**{"draws": 2, "select": DRAWS, **LOCAL, **settings})


def iid(buffer: int = 2, **settings: Any) -> Algorithm:
    return named.defedavg_iid(**{"buffer": buffer, **LOCAL, **settings})


A: dict[str, Callable[[int], list[Row]]] = {
    "A1_fedavg": lambda t: trace(named.fedavg(select=DRAWS, clients_per_round=2, **LOCAL), t),
    "A2_niid": lambda t: trace(niid(), t),
    "A3_niid_energy": lambda t: trace(niid(energy_saving=True), t),
    "A4_iid_n2": lambda t: trace(iid(), t),
    "A5_iid_n2_reuse": lambda t: trace(iid(reuse_model=True), t),
    "A6_niid_equal_speed": lambda t: trace(
        niid(select=script((1, 2), (3, 3), (1, 2), (3, 1))), t, devices=EQUAL
    ),
    "A6_iid_equal_speed": lambda t: trace(iid(), t, devices=EQUAL),
    "A7_iid_n3": lambda t: trace(iid(3), t),
    "A7_fedavg_full": lambda t: trace(named.fedavg(**LOCAL), t),
    "A8_iid_n1": lambda t: trace(iid(1), t),
    "A9_iid_n2_overlap": lambda t: trace(iid(), t, devices=OVERLAP),
    "A9_niid_overlap": lambda t: trace(niid(), t, devices=OVERLAP),
    "A10_asysg": lambda t: trace(named.asysg(buffer=2, server_lr=0.5, batch_size=None), t),
    "A12_iid_curv": lambda t: trace(iid(**CURVED_LOCAL), t, CURVED),
    "A12_niid_curv": lambda t: trace(
        niid(select=script((1, 2), (2, 3), (3, 3), (1, 3), (2, 2), (1, 2)), **CURVED_LOCAL), t, CURVED
    ),
}
A_TABLE = traces("defedavg")


def test_every_trace_of_table_a_is_run() -> None:
    assert set(A) == set(A_TABLE)


@pytest.mark.parametrize("oracle", A)
def test_defedavg_traces_are_exact(oracle: str) -> None:
    expected = A_TABLE[oracle]
    found = A[oracle](len(expected))
    if "niid" in oracle:
        found, expected = unordered(found), unordered(expected)
    assert found == expected


def test_a_client_drawn_twice_trains_once_and_counts_twice() -> None:
    """A11: d = (3, 6, 12) and draws (1, 1, 2) have the mean 4; without multiplicity it would be 4.5."""
    twice = named.fedavg(select=script((1, 1, 2)), clients_per_round=3, **LOCAL)
    finished = run(twice, 1)
    assert float(finished.model[0]) == 4.0
    assert finished.history[0].clients == (0, 0, 1)
    assert finished.counters["solved"] == 2


def test_averaging_moves_towards_the_local_models() -> None:
    """DeFedAvg's equation (3) is printed with the wrong sign and would give -4.5."""
    assert A["A1_fedavg"](1)[0].w == 4.5


# ---------------------------------------------------------------- B: FedBuff and FedAsync

REFILLS = script((1, 2), (3,), (1,), (2,), (1,), (3,), (2,), (1,))


def fedasync(staleness: str, **settings: Any) -> Algorithm:
    return named.fedasync(alpha=0.5, staleness=staleness, concurrency=2, select=REFILLS, **LOCAL, **settings)


B: dict[str, Algorithm] = {
    "B1_fedbuff_immediate": named.fedbuff(
        buffer=2,
        concurrency=2,
        dispatch="immediate",
        select=script((1, 2), (3,), (1,), (2,), (3,), (1,), (2,), (1,)),
        **LOCAL,
    ),
    "B2_fedasync_const": fedasync("none"),
    "B3_fedasync_poly_beta1": fedasync("poly:1"),
    "B4_fedasync_hinge_a1_b1": fedasync("hinge:1:1"),
    "B5_fedasync_const_rho1": fedasync("none", prox_mu=1.0),
    "B6_fedbuff_M1_eta_half": named.fedbuff(
        buffer=1, concurrency=2, dispatch="immediate", server_lr=0.5, select=REFILLS, **LOCAL
    ),
}
B_TABLE = traces("fedbuff_fedasync")


def test_every_trace_of_table_b_is_run() -> None:
    assert set(B) == set(B_TABLE)


@pytest.mark.parametrize("oracle", B)
def test_fedbuff_and_fedasync_traces_are_exact(oracle: str) -> None:
    expected = B_TABLE[oracle]
    found = trace(B[oracle], len(expected))
    if oracle == "B3_fedasync_poly_beta1":  # a factor 1/3 rounds
        for got, want in zip(found, expected, strict=True):
            assert replace(got, w=want.w) == want and got.w == pytest.approx(want.w, abs=1e-12)
    else:
        assert found == expected


WEIGHTS = {
    Polynomial(0.5): "1 0.707107 0.577350 0.5 0.447214 0.408248 0.377964 0.353553 0.333333",
    Polynomial(0.3): "1 0.812252 0.719223 0.659754 0.617034 0.584191 0.557790 0.535887 0.517282",
    Hinge(10, 4): "1 1 1 1 1 0.090909 0.047619 0.032258 0.024390",
}


@pytest.mark.parametrize("rule", WEIGHTS)
def test_staleness_weights(rule: Polynomial | Hinge) -> None:
    printed = [float(word) for word in WEIGHTS[rule].split()]
    assert [rule(tau) for tau in range(9)] == pytest.approx(printed, abs=5e-7)


# ---------------------------------------------------------------- C: CA2FL and MF-CA2FL


@dataclass(frozen=True)
class Spied:
    """An aggregation rule that writes down v_t, h_bar and h after every step."""

    rule: Cached
    log: list[tuple[float, float, list[float]]] = field(default_factory=list)

    def init(self, x: Vector, clients: int) -> Any:
        return self.rule.init(x, clients)

    def add(self, update: Contribution, start: Vector, x: Vector, state: Any) -> Any:
        return self.rule.add(update, start, x, state)

    def result(self, state: Any) -> tuple[Vector, Any]:
        v, state = self.rule.result(state)
        rows = [self.rule.row(client, state) for client in range(state.clients)]
        h = [0.0 if row is None else float(row[0]) for row in rows]
        self.log.append((float(v[0]), float(state.mean[0]), h))
        return v, state


@dataclass(frozen=True)
class Grid:
    """A format that rounds half up to multiples of `step`: the published stand-in for a quantiser."""

    step: float

    def store(self, v: Vector, rng: np.random.Generator | None) -> Vector:
        return np.sign(v) * np.floor(np.abs(v) / self.step + 0.5) * self.step

    def value(self, row: Vector) -> Vector:
        return row

    def nbytes(self, row: Vector) -> int:
        return row.nbytes


BATCHES = script((1, 2, 3), (1, 4), (2, 3), (1, 2), (3, 4), (1, 2), (3, 4), (1, 2))
PAIRS = script((1, 2), (3, 4), (1, 3), (2, 4), (1, 2))
ALL_CLIENTS = script(*[(1, 2, 3, 4)] * 5)
SOME: dict[str, Any] = {"buffer": 2, "concurrency": 3, "select": BATCHES, **LOCAL}
PAIRED: dict[str, Any] = {"buffer": 2, "concurrency": 2, "select": PAIRS, **LOCAL}
ALL: dict[str, Any] = {"buffer": 4, "concurrency": 4, "select": ALL_CLIENTS, **LOCAL}

C: dict[str, tuple[Algorithm, Cached | Mean]] = {
    "C0_fedbuff": (named.fedbuff(**SOME), Mean()),
    "C0_fedbuff_sum": (named.fedbuff(server_lr=2.0, **SOME), Mean()),
    "C1_ca2fl": (named.ca2fl(**SOME), Cached()),
    "C2_ca2fl_eta0": (named.ca2fl(server_lr=0.0, **SOME), Cached()),
    "C3_mf_grid4": (named.ca2fl(**SOME), Cached(rows=Grid(4.0))),
    "C4_mf_grid4_fresh_quantised": (named.ca2fl(**SOME), Cached(rows=Grid(4.0), quantize_fresh=True)),
    "C5_ca2fl_all": (named.ca2fl(**ALL), Cached()),
    "C6_mf_grid16_all": (named.ca2fl(**ALL), Cached(rows=Grid(16.0))),
    "C7_fedbuff_Mc_eq_M": (named.fedbuff(**PAIRED), Mean()),
    "C7_ca2fl_Mc_eq_M": (named.ca2fl(**PAIRED), Cached()),
}
C_TABLE = traces("ca2fl")


def test_every_trace_of_table_c_is_run() -> None:
    assert set(C) == set(C_TABLE)


@pytest.mark.parametrize("oracle", C)
def test_ca2fl_traces_are_exact(oracle: str) -> None:
    algorithm, rule = C[oracle]
    expected, printed = C_TABLE[oracle], [row for row in table("ca2fl") if row["oracle"] == oracle]
    spied = Spied(rule) if isinstance(rule, Cached) else rule
    assert trace(replace(algorithm, aggregate=spied), len(expected), Q4, Q4_TIMES) == expected
    if isinstance(spied, Spied):
        assert spied.log == [
            (float(Fraction(row["v_t"])), float(Fraction(row["h_bar_after"])), fractions(row["h_after"]))
            for row in printed
        ]


def deliver(rule: Cached, updates: list[tuple[int, float]], h: list[float]) -> tuple[float, float]:
    """v_t and h_bar after one step with these (client, update), from a cache that holds h."""
    state = rule.init(np.zeros(1), len(h))
    for client, value in enumerate(h):
        state = rule.add(Contribution(client, np.array([value])), np.zeros(1), np.zeros(1), state)
    _, state = rule.result(state)
    for client, value in updates:
        state = rule.add(Contribution(client, np.array([value])), np.zeros(1), np.zeros(1), state)
    v, state = rule.result(state)
    return float(v[0]), float(state.mean[0])


@pytest.mark.parametrize(("duplicates", "v"), [("round_start", 4.0), ("sequential", 3.0)])
def test_two_deliveries_of_one_client_in_one_step(duplicates: str, v: float) -> None:
    """C8: h = (2, 2, 0, 0), client 1 delivers 4, then 6; h_bar ends at 2 either way."""
    assert deliver(Cached(duplicates=duplicates), [(0, 4.0), (0, 6.0)], [2.0, 2.0, 0.0, 0.0]) == (v, 2.0)


# ---------------------------------------------------------------- mistakes seen in public implementations


def first_models(algorithm: Algorithm) -> list[float]:
    return [row.w for row in trace(algorithm, 2, Q4, Q4_TIMES)]


def test_the_mean_of_the_cache_is_used_before_the_overwrite() -> None:
    """h_bar recomputed after the overwrite gives 6.75 instead of 4.5; calibration lost gives 2.25."""
    first, second = first_models(named.ca2fl(**SOME))
    assert first == 4.5
    # step 2: h_bar = 9/4 from before the step, differences against the values from before the overwrite
    assert second == 4.5 + 9 / 4 + ((-3 / 8 - 3) + (12 - 0)) / 2


def test_the_difference_is_taken_before_the_overwrite() -> None:
    """After an overwrite d - h would be 0, and v_t the bare h_bar."""
    assert deliver(Cached(), [(0, 5.0), (1, 1.0)], [2.0, 2.0, 0.0, 0.0]) == (1.0 + (3 - 1) / 2, 1.5)


def test_the_buffer_is_divided_by_its_size_once() -> None:
    """FedBuff: (3 + 6) / 2 = 4.5; divided twice it would be 2.25."""
    assert first_models(named.fedbuff(**SOME))[0] == 4.5


def test_the_discounted_mean_is_divided_by_the_buffer_and_not_by_the_weights() -> None:
    """Client 1 comes with tau 0, client 3 with tau 1: (s(0) d_1 + s(1) d_3) / 2, s(1) = 1/2."""
    _, second = first_models(named.fedbuff(staleness="poly:1", **SOME))
    assert second == 4.5 + (-3 / 8 + 12 / 2) / 2


def test_the_hinge_grows_from_its_corner() -> None:
    """1 / (a (tau - b) + 1) beyond b; tau + b in its place would give 1/12 at tau = 6, b = 5, a = 1."""
    assert [Hinge(1, 5)(tau) for tau in (5, 6, 7)] == [1.0, 1 / 2, 1 / 3]


# ---------------------------------------------------------------- D: FAVANO and QuAFL

POLLED: dict[str, Any] = {
    "clients_per_round": 2,
    "server_period": 3.0,
    "select": script((1, 2), (2, 3), (1, 3)),
    **LOCAL,
}
D = {"D1_favano": named.favano(**POLLED), "D2_quafl": named.quafl(**POLLED)}


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    """What each interrupted client sent: steps done, and its model."""
    log: list[tuple[int, float]] = []
    add = Pooled.add

    def noted(self: Pooled, update: Contribution, start: Vector, x: Vector, state: Any) -> Any:
        log.append((update.steps, float((start + update.delta)[0])))
        return add(self, update, start, x, state)

    monkeypatch.setattr(Pooled, "add", noted)
    return log


@pytest.mark.parametrize("oracle", D)
def test_favano_and_quafl_traces(oracle: str, heard: list[tuple[int, float]]) -> None:
    """The server's models, the steps each interrupted client had done, and its model then."""
    printed = [row for row in table("interrupting") if row["oracle"] == oracle]
    finished = run(D[oracle], len(printed))
    for record, x, row in zip(finished.history, finished.models or (), printed, strict=True):
        assert record.virtual_seconds == float(row["tick"])
        assert record.clients == tuple(c - 1 for c in ints(row["S"]))
        assert float(x[0]) == pytest.approx(float(Fraction(row["server_exact"])), abs=1e-12)
    assert [steps for steps, _ in heard] == [e for row in printed for e in ints(row["E"])]
    models = [w for row in printed for w in fractions(row["local_models"])]
    assert [w for _, w in heard] == pytest.approx(models, abs=1e-12)


class ClientModels(Observer):
    """Where every client stands after each step, in the order of their numbers."""

    def __init__(self) -> None:
        self.simulation: Any = None
        self.seen: list[list[float]] = []

    def stepped(self, step: Step, now: float, tally: Tally) -> None:
        states = [client.state for _, client in sorted(self.simulation.clients.items())]
        self.seen.append([float(state.running.start[0]) for state in states])


def test_quafl_clients_average_the_server_into_their_own_models() -> None:
    """After the ticks: (2, 4, 0), (2, 17/3, 9), (43/9, 17/3, 97/9)."""
    models = ClientModels()
    simulation = models.simulation = prepare(D["D2_quafl"], Q3, Q3_TIMES, Inline(Q3), models, rounds=3)
    simulation.begin()
    simulation.run(3)
    expected = ([2, 4, 0], [2, 17 / 3, 9], [43 / 9, 17 / 3, 97 / 9])
    for found, wanted in zip(models.seen, expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-12)

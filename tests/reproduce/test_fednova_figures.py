"""FedNova's Figures 2 and 5, Table 1, and proximal clients: rates, sampling, measures and verdicts."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedpace import algorithms, simulate
from fedpace.aggregate import Normalised, Weighted
from fedpace.algorithm import Algorithm
from fedpace.local import SGD, at_step
from fedpace.reproduce.cell import Cell
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, Verdict
from fedpace.reproduce.fednova import figure2, figure4, figure5, figure7, heterogeneous, proximal, table1
from fedpace.reproduce.fednova.by_data_set import BED
from fedpace.reproduce.fednova.decayed import AtHalfAndThreeQuarters, decayed
from fedpace.reproduce.fednova.longer_steps import LongerSteps
from fedpace.reproduce.fednova.testbeds import EPOCHS, name_of, rounds_to
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results
from fedpace.tasks import quadratics

from .conftest import cell, outcome, results

LEFT, MIDDLE, RIGHT = figure5.PANELS
DATA_SETS = range(20, 30)


def flat(accuracy: float, runs: int = 5) -> list[Outcome]:
    return [outcome([accuracy + seed / 1000] * 6) for seed in range(runs)]


def verdict(found: list[Finding], words: str) -> Verdict:
    [claim] = [claim for claim in settled("quick", found) if claim.claim.startswith(words)]
    return claim.verdict


# --------------------------------------------------------------------------------------- decayed rates


def test_rates_fall_to_a_tenth_after_half_of_the_rounds_and_to_a_hundredth_after_three_quarters() -> None:
    factors = [AtHalfAndThreeQuarters(100).factor(t) for t in range(100)]
    assert factors == pytest.approx([1.0] * 50 + [0.1] * 25 + [0.01] * 25, rel=1e-15)


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_the_decayed_rate_is_the_one_that_is_trained_with(mu: float) -> None:
    """One client, minimum 1: a round of K steps leaves 1 - (1 - (1 - η - ημ)^K) / (1 + μ) of the distance."""
    plain = algorithms.fedprox(client_lr=0.1, prox_mu=mu, steps=3, batch_size=None)
    run = simulate(decayed(plain, 4), quadratics([1.0]), rounds=4, evaluate_every=None)
    left = math.prod(1 - (1 - (1 - eta * (1 + mu)) ** 3) / (1 + mu) for eta in (0.1, 0.1, 0.01, 0.001))
    assert 1 - float(run.model[0]) == pytest.approx(left, rel=1e-12)


# -------------------------------------------------------------------------------------------- Figure 5


def test_the_panels_are_the_papers() -> None:
    assert [str(panel) for panel in figure5.PANELS] == [
        "all clients, E = 5",
        "9 of 30 clients, E = 5",
        "9 of 30 clients, E ~ U(1,5)",
    ]
    prox = figure5.rule(figure5.PROX, RIGHT, 0.02)
    assert at_step(prox.local, 60) == SGD(0.02 * 0.1, epochs=(1, 5), batch_size=20, prox_mu=1.0)
    assert (
        prox.pace
        == figure5.rule(figure5.NOVA, RIGHT, 0.02).pace
        == algorithms.fedavg(clients_per_round=9).pace
    )


def moved(method: str, panel: figure5.Panel, sizes: list[float]) -> list[float]:
    """The model after three rounds."""
    task = quadratics(np.linspace(-1, 1, len(sizes)), weights=sizes)
    run = simulate(figure5.rule(method, panel, 0.1), task, rounds=3, evaluate_every=None)
    return [float(x) for x in run.model]


@pytest.mark.parametrize("panel", [LEFT, MIDDLE])
def test_where_all_take_as_many_steps_fednova_is_fedavg_whoever_is_sampled(panel: figure5.Panel) -> None:
    """At most one batch each: weights and τ_eff are those of the sampled, as in Algorithm 1, and cancel."""
    sizes = [1.0 + client % 20 for client in range(30)]
    assert moved(figure5.NOVA, panel, sizes) == moved(figure5.AVG, panel, sizes)
    assert moved(figure5.PROX, panel, sizes) != moved(figure5.AVG, panel, sizes)
    if panel.clients is not None:
        assert moved(figure5.OF_ALL, panel, sizes) != moved(figure5.AVG, panel, sizes)


def test_where_steps_differ_fednova_is_not_fedavg() -> None:
    sizes = [20.0 * (1 + client) for client in range(30)]
    assert moved(figure5.NOVA, MIDDLE, sizes) != moved(figure5.AVG, MIDDLE, sizes)


def chosen() -> dict[str, tuple[float, str]]:
    """FedAvg at 0.02, FedProx at 0.08, both twice that on data set 25."""
    rates = {grid.name: 0.08 if "FedProx" in grid.name else 0.02 for grid in figure5.grids()}
    return {name: (rate * (1 + name.endswith("no. 25")), "") for name, rate in rates.items()}


def test_fednova_has_fedavgs_rate_on_every_data_set_and_fedprox_one_of_its_own() -> None:
    made = {each.name: each for each in figure5.cells(Results(choices=chosen()))}
    assert len(made) == 3 * 3 + 2
    for panel in figure5.PANELS:
        for method in figure5.methods(panel):
            own = made[figure5.name_of(method, panel)]
            rate = 0.08 if method == figure5.PROX else 0.02
            rates = [own.algorithm_of(seed).local.lr for seed in DATA_SETS]
            assert rates == [rate * (1 + (seed == 25)) for seed in DATA_SETS]
            assert (own.first_seed, own.seeds, own.rounds) == (20, 10, 100)


def test_a_panel_has_no_cells_before_its_rates_were_tuned_on_every_data_set() -> None:
    early = chosen()
    del early["rate of FedProx, Figure 5, left, synthetic(1,1) no. 27"]
    made = {each.name for each in figure5.cells(Results(choices=early))}
    assert figure5.name_of(figure5.PROX, LEFT) not in made
    assert {figure5.name_of(figure5.NOVA, LEFT), figure5.name_of(figure5.PROX, RIGHT)} <= made


def test_rates_are_tuned_on_the_data_that_are_judged_by_runs_with_other_seeds() -> None:
    [grid] = [
        each
        for each in figure5.grids()
        if each.name.endswith("FedAvg, Figure 5, right, synthetic(1,1) no. 23")
    ]
    tried = grid.cell(0.02, "")
    assert tried is not None and tried.task == replace(BED.task, data_seed=23)
    assert not set(grid.seeds) & set(DATA_SETS)


@pytest.mark.parametrize("grids", [figure5.grids, proximal.grids])
def test_a_proximal_pull_never_overshoots(grids) -> None:
    """α = η μ < 1; plain clients may go on."""
    for grid in grids():
        proximal_rule = "FedProx" in grid.name
        assert max(grid.rates) == (0.8 if proximal_rule else 0.32)
        assert (grid.cell(1.28, "") is None) == proximal_rule


def judged5(nova: list[Outcome], avg: list[Outcome], prox: list[Outcome]) -> list[Finding]:
    runs = {figure5.NOVA: nova, figure5.AVG: avg, figure5.PROX: prox, figure5.OF_ALL: avg}
    return figure5.findings(
        results({figure5.name_of(m, p): runs[m] for p in figure5.PANELS for m in figure5.methods(p)})
    )


def test_best_means_above_both_rivals_in_every_setting() -> None:
    found = judged5(flat(0.7), flat(0.6), flat(0.75))
    for panel in figure5.PANELS:
        assert verdict(found, f"FedNova ends above FedAvg, {panel}") is Verdict.REPRODUCED
        assert verdict(found, f"FedNova ends above FedProx (μ = 1), {panel}") is Verdict.CONTRADICTED
    assert {
        claim.family for claim in found if claim.source is ClaimSource.PAPER and claim.published != OWN
    } == {"Figure 5"}
    assert [claim.verdict for claim in figure5.findings(Results())] == [Verdict.NOT_RUN] * 11


def rising(at: int, top: float, length: int = 40, **more: object) -> list[Outcome]:
    """From evaluation `at` on at its end, which differs a little by seed."""
    return [outcome([0.1] * (at + seed % 2) + [top] * (length - at - seed % 2), **more) for seed in range(5)]


def test_faster_is_a_ratio_of_rounds_to_the_accuracy_that_fedavg_ends_at() -> None:
    words = f"FedNova reaches the accuracy that FedAvg ends at in fewer rounds, {RIGHT}"
    first = judged5(rising(5, 0.8), rising(20, 0.7), flat(0.5))
    assert verdict(first, words) is Verdict.REPRODUCED
    assert all(claim.comparisons[0].ratio for claim in first if "fewer rounds" in claim.claim)
    assert verdict(judged5(rising(30, 0.8), rising(20, 0.7), flat(0.5)), words) is Verdict.CONTRADICTED
    assert verdict(judged5(rising(5, 0.6), rising(20, 0.7), flat(0.5)), words) is Verdict.CONTRADICTED


def test_a_run_that_breaks_off_counts_with_all_rounds() -> None:
    """Not with the few that it had before it diverged."""
    broken = rising(2, 0.2, length=4, ended="diverged")
    found = judged5(broken, rising(20, 0.7), flat(0.5))
    [claim] = [each for each in found if f"in fewer rounds, {LEFT}" in each.claim]
    assert set(claim.comparisons[0].smaller) == {float(BED.rounds)}
    assert rounds_to(broken[0], 0.7) == 4


def test_the_picture_has_the_three_panels_once_all_of_them_were_run() -> None:
    every = {figure5.name_of(m, p): flat(0.5) for p in figure5.PANELS for m in figure5.METHODS}
    [figure] = figure5.pictures(results(every)).values()
    assert [axes.get_title("left") for axes in figure.axes] == [str(panel) for panel in figure5.PANELS]
    assert figure5.pictures(results(dict(list(every.items())[1:]))) == {}


# -------------------------------------------------------------------------- proximal clients, Table 1


def prox_cells(gain: float, rate: float = 0.1) -> Results:
    """FedProx at 70 %, FedNova-prox and FedProx with another τ_eff so much above."""
    made = Results()
    for epochs in EPOCHS:
        for method in proximal.METHODS:
            more = 0.0 if method == proximal.FEDPROX else gain
            rule = proximal.rule(method, epochs, rate)
            own = cell(proximal.name_of(method, epochs), algorithm=rule, by_seed=(rule,) * 3, seeds=3)
            for seed in range(3):
                made.add(own, seed, outcome([0.7 + more + 0.001 * (seed % 2) * bool(more)] * 6))
    return made


@pytest.fixture
def equal_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client has one batch, so that E epochs are E steps."""
    monkeypatch.setattr(proximal, "BED", SimpleNamespace(task=Alike(), batch_size=20))


class Alike:
    clients = 30

    def __call__(self, seed: int) -> SimpleNamespace:
        return SimpleNamespace(samples=lambda client: 20.0)


@pytest.mark.usefixtures("equal_clients")
def test_a_proximal_row_says_how_much_its_term_acts() -> None:
    """E = 2: (1 + 0.9) / 2; E of 2 to 5: the mean of (1 - 0.9^E) / 0.1 over that of E, 3.5."""
    drawn = sum((1 - 0.9**e) / 0.1 for e in range(2, 6)) / 4 / 3.5
    assert proximal.lengths(prox_cells(0.1)) == pytest.approx([0.95] * 3 + [drawn] * 3, rel=1e-12)
    [nova, _] = proximal.findings(prox_cells(0.1))
    assert f"{drawn:.2f} to 0.95 times" in nova.note


@pytest.mark.usefixtures("equal_clients")
@pytest.mark.parametrize(("gain", "size"), [(0.005, Verdict.CONTRADICTED), (0.04, Verdict.REPRODUCED)])
def test_fednova_prox_is_judged_by_order_and_tau_eff_by_size(gain: float, size: Verdict) -> None:
    found = proximal.findings(prox_cells(gain))
    assert verdict(found, "FedNova-prox") is Verdict.REPRODUCED
    assert verdict(found, "FedProx with τ_eff") is size


def test_the_three_proximal_methods() -> None:
    """FedNova-prox: weights p, τ_eff = Σ p K, a_i of FedProx; the other two have FedProx's weights."""
    prox, tau, nova = (proximal.rule(method, "E = 2", 0.1) for method in proximal.METHODS)
    assert prox.local == tau.local == nova.local == SGD(0.1, epochs=2, batch_size=20, prox_mu=1.0)
    assert nova.aggregate == Normalised("steps", "samples")
    assert (prox.aggregate, tau.aggregate) == (Weighted(), LongerSteps())


def test_a_weight_that_does_not_act_is_not_judged() -> None:
    """Rows at the printed μ of CIFAR-10 would count plain SGD twice: their cells are run by name only."""
    choices = {grid.name: (0.01, "") for grid in heterogeneous.grids("quick")}
    cells = heterogeneous.cells("quick", Results(choices=choices))
    assert all(each.by_name for each in cells if ", proximal, " in each.name)
    mild = {each.algorithm_of(each.first_seed).local.prox_mu for each in cells if "μ = 1" in each.name}
    assert mild == {1.0}
    ends = results({each.name: flat(0.7) for each in cells if "μ = 1" not in each.name})
    found = [each.claim for each in heterogeneous.findings("quick", ends) if each.comparisons]
    assert not any("rox" in claim for claim in found if "Figure" not in claim and "μ = 1" not in claim)


def test_variance_reduction_is_the_papers_claim_where_table_1_has_it() -> None:
    found = {epochs: figure7._reduced(Results(), "here", epochs) for epochs in EPOCHS}
    assert found["E ~ U(2,5)"].published == "Table 1 (CIFAR-10, VGG-11): 77.07 → 79.19 %"
    assert found["E = 2"].published == OWN
    names = [name_of("here", m, "momentum", "E ~ U(2,5)") for m in (figure7.REDUCED, "FedNova")]
    told = figure7._reduced(
        results(dict(zip(names, (flat(0.8), flat(0.7)), strict=True))), "here", "E ~ U(2,5)"
    )
    [told] = settled("quick", [told])
    assert (told.verdict, told.source, told.family) == (Verdict.REPRODUCED, ClaimSource.PAPER, "Table 1")


def test_rows_have_the_printed_accuracies_of_their_solver_and_work() -> None:
    found = {each.claim: each.published for each in heterogeneous.findings("quick", Results())}
    row = "FedNova ends above FedAvg, momentum, E = 2, digits"
    assert found[row] == "Table 1 (CIFAR-10, VGG-11): 65.26 → 73.32 %"
    [drawn] = [row for row in table1.table().rows if row[0] == "E ~ U(2,5)"]
    assert drawn[1:3] == ("64.22 → 73.22", "70.44 → 77.07")


# -------------------------------------------------------------------------------------------- Figure 2


@pytest.mark.parametrize("method", figure2.METHODS)
def test_the_closed_forms_of_figure_2_are_fixed_points_of_a_round(method: str) -> None:
    """At the last rate, with unequal steps: a round from the limit ends there."""
    rule: Algorithm = figure2.rule(method, "middle")
    last = replace(rule, local=at_step(rule.local, figure2.ROUNDS - 1))
    limit = figure2.limit(method, figure2.FIXED, 0)
    task = quadratics(figure2.minima(0) - limit)  # begins at 0
    moved = simulate(last, task, rounds=1, evaluate_every=None).model
    assert np.abs(moved).max() < 1e-15
    assert np.abs(limit - figure2.minima(0).mean(axis=0)).max() > 1e-4


def test_drawn_steps_are_those_of_the_figure_and_the_same_for_all_methods() -> None:
    drawn = [figure2.drawn(np.random.default_rng(at)) for at in range(3000)]
    assert (min(drawn), max(drawn) <= 96) == (1, True)
    assert abs(np.mean(drawn) - 30) < 3 * 20 / math.sqrt(3000) + 1  # a cut at 1 adds less than one step
    rules = [figure2.rule(method, "right").local for method in figure2.METHODS]
    took = [[rule.work(3, t, 1.0, 0.0, np.random.default_rng(t)) for t in range(9)] for rule in rules]
    assert took[0] == took[1] == took[2] and len(set(took[0])) > 3
    assert [rule.at(t).lr for rule in rules for t in (599, 600, 900)] == pytest.approx(
        3 * [0.05, 0.01, 0.002]
    )


def at_distances(ends: dict[str, list[float]], panel: str, seeds: int = 1) -> Results:
    made = Results()
    for method, curve in ends.items():
        own: Cell = cell(figure2.name_of(method, panel))
        for seed in range(seeds):
            points = [
                replace(p, metrics={"distance": d + seed / 1000})
                for p, d in zip(outcome(curve).points, curve, strict=True)
            ]
            limit = figure2.limit(method, figure2.FIXED, 0)
            made.add(own, seed, outcome(curve, points=tuple(points), model=tuple(limit)))
    return made


def test_figure_2s_verdicts() -> None:
    avg, prox, nova = figure2.METHODS
    near = at_distances({avg: [0.1], prox: [0.09], nova: [0.005]}, "middle")
    assert figure2._unequal(near).verdict is Verdict.REPRODUCED
    far = at_distances({avg: [0.1], prox: [0.04], nova: [0.005]}, "middle")
    assert figure2._unequal(far).verdict is Verdict.CONTRADICTED  # more than a tenth of FedProx's
    drawn = at_distances({avg: [0.1] * 40, prox: [0.09] * 40, nova: [0.05] * 40}, "right", 3)
    assert all(one.as_claimed for one in figure2._drawn(drawn).comparisons)
    drawn = at_distances({avg: [0.1] * 40, prox: [0.04] * 40, nova: [0.05] * 40}, "right", 3)
    assert [one.as_claimed for one in figure2._drawn(drawn).comparisons] == [True, False]


def test_fedprox_is_closer_and_slower() -> None:
    """Closer at the end of the middle panel, farther off at the first evaluation of the left one."""
    avg, prox, _ = figure2.METHODS

    def judge(gap: float, early: float) -> Verdict:
        known = at_distances({avg: [0.1], prox: [gap]}, "middle")
        for method, curve in ((avg, [0.1, 0.0]), (prox, [early, 0.0])):
            left = at_distances({method: curve}, "left")
            known.outcomes |= left.outcomes
        return figure2._proximal(known).verdict

    assert judge(0.09, 0.2) is Verdict.REPRODUCED
    assert judge(0.11, 0.2) is judge(0.09, 0.05) is Verdict.CONTRADICTED


def test_figure_2_compares_the_rounds_after_the_second_decay() -> None:
    """30 evaluations of 10 rounds: 910 to 1,200."""
    assert figure2.ROUNDS - figure2.LAST * figure2.EVERY == 900
    curve = [0.5] * 90 + [0.1] * 30
    run = at_distances({figure2.METHODS[0]: curve}, "right").of(figure2.name_of(figure2.METHODS[0], "right"))[
        0
    ]
    assert figure2.final_distance(run) == pytest.approx(0.1, rel=1e-12)


def test_equal_steps_make_fednova_fedavg_to_the_bit() -> None:
    """In the left panel; a model that differs in its last bit contradicts the row."""
    avg, prox, nova = figure2.METHODS
    made = at_distances({avg: [1e-12], prox: [1e-12], nova: [1e-12]}, "left")
    off = at_distances({avg: [1e-12], prox: [1e-12], nova: [1e-12]}, "left")
    models = {avg: (1.0, 2.0), prox: (1.0, 2.0), nova: (1.0, np.nextafter(2.0, 3.0))}
    for known, same in ((made, True), (off, False)):
        for method in figure2.METHODS:
            name = figure2.name_of(method, "left")
            known.outcomes[name][0] = replace(known.outcomes[name][0], model=models[avg if same else method])
    assert figure2._equal(made).verdict is Verdict.REPRODUCED
    assert figure2._equal(off).verdict is Verdict.CONTRADICTED


# -------------------------------------------------------------------------------------------- Figure 4


def test_figure_4_has_the_closed_forms_of_eq_7() -> None:
    """w_i ∝ 1 - (1 - α)^K and τ_eff; a row whose bias stays, or whose slowdown does not rise, is contradicted."""
    found, k, at = figure4.effects(), np.array(figure4.steps()), 20
    alpha = figure4.ALPHAS[at]
    norms = (1 - (1 - alpha) ** k) / alpha
    w = norms / norms.sum()
    assert found[at].slowdown == pytest.approx(k.mean() / norms.mean(), rel=1e-12)
    assert found[at].bias == pytest.approx(float(((1 / 30 - w) ** 2 / w).sum()), rel=1e-12)
    assert found[0].slowdown == pytest.approx(1.0, rel=1e-12)
    assert figure4._finding(found).verdict is Verdict.REPRODUCED
    for at, spoilt in ((-1, {"bias": 0.01}), (5, {"bias": 1.0}), (5, {"slowdown": 0.5})):
        broken = [*found]
        broken[at] = found[at]._replace(**spoilt)
        assert figure4._finding(broken).verdict is Verdict.CONTRADICTED

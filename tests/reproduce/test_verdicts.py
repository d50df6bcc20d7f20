"""What turns figures into verdicts, on figures made up for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedpace.reproduce.ca2fl import accuracy as ca2fl_accuracy
from fedpace.reproduce.ca2fl import delay as ca2fl_delay
from fedpace.reproduce.defedavg.slopes import rounds_by_seed, slope_of
from fedpace.reproduce.experiment import Finding, Verdict
from fedpace.reproduce.fedgm import large_lr as fedgm_large_lr
from fedpace.reproduce.fednova import objective_inconsistency
from fedpace.reproduce.fednova.heterogeneous import shares_of_rounds
from fedpace.reproduce.judgement import settled
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.run import execute, simulated

from .conftest import outcome, results


def verdict(findings, words: str) -> Verdict:
    [found] = [finding for finding in settled("quick", findings) if words in finding.claim]
    return found.verdict


def flat(accuracy: float) -> list[Outcome]:
    return [outcome([accuracy] * 8)] * 3


def test_the_gain_of_ca2fl_must_be_there_and_grow() -> None:
    def judge(gains: dict[float, float]) -> list:
        made = {}
        for alpha, gain in gains.items():
            made[f"FedBuff, alpha {alpha}"] = flat(0.5)
            made[f"CA2FL, alpha {alpha}"] = flat(0.5 + gain)
        return ca2fl_accuracy.findings("quick", results(made))

    growing = judge({0.3: 0.01, 0.1: 0.05})
    assert verdict(growing, "above FedBuff, Dirichlet 0.3") is Verdict.REPRODUCED
    assert verdict(growing, "gain grows") is Verdict.REPRODUCED
    shrinking = judge({0.3: 0.05, 0.1: -0.01})
    assert verdict(shrinking, "above FedBuff, Dirichlet 0.1") is Verdict.CONTRADICTED
    assert verdict(shrinking, "gain grows") is Verdict.CONTRADICTED
    assert verdict(growing, "block, collapses: it ends below FedBuff, Dirichlet 0.1") is Verdict.NOT_RUN
    assert verdict(growing, "CIFAR-100") is Verdict.NOT_RUN


def test_instability_is_measured_by_jumps() -> None:
    def judge(second: list[float]) -> Verdict:
        made = {f"FedAvg rate {eta}": flat(0.8) for eta in (1, 3)}
        made |= {f"FedGM rate {eta}": flat(0.8) for eta in (1, 2, 3, 5)}
        made["FedAvg rate 2"] = [outcome(second)] * 3
        return verdict(fedgm_large_lr.findings("quick", results(made)), "unstable at server rate 2")

    assert judge([0.5, 0.7] * 4) is Verdict.REPRODUCED
    assert judge([0.85] * 8) is Verdict.CONTRADICTED
    assert judge([0.8] * 8) is Verdict.UNDECIDED


def test_a_loss_above_chance_is_divergence() -> None:
    def judge(loss: float) -> Verdict:
        made = {f"FedAvg rate {eta}": flat(0.8) for eta in (1, 2)}
        made |= {f"FedGM rate {eta}": flat(0.8) for eta in (1, 2, 3, 5)}
        made["FedAvg rate 3"] = [outcome([1 - loss] * 8)] * 3  # the made-up loss is 1 - accuracy
        return verdict(fedgm_large_lr.findings("quick", results(made)), "diverges at server rate 3")

    assert judge(2.5) is Verdict.REPRODUCED
    assert judge(2.0) is Verdict.CONTRADICTED


def test_linear_speedup_has_slope_minus_one() -> None:
    assert abs(slope_of({5: 80.0, 10: 40.0, 20: 20.0}) + 1) < 1e-12
    assert abs(slope_of({5: 7.0, 10: 7.0})) < 1e-12


def test_half_of_the_table_of_staleness_is_no_verdict(kept) -> None:
    cells = ca2fl_delay.cells("quick", results({}))
    made = results({cells[0].name: [simulated(cells[0], 0)]})
    assert {finding.verdict for finding in ca2fl_delay.findings("quick", made)} == {Verdict.NOT_RUN}


def test_measured_staleness_is_the_exact_law_up_to_the_sessions_in_flight() -> None:
    """Σ (tau + 1) + Σ age of those in flight = Mc T, so the mean is below Mc/M - 1 by less than Mc max(tau) / (M T)."""
    cell = next(c for c in ca2fl_delay.cells("quick", results({})) if c.name == "Mc=20 M=10 U(0,5), base 5")
    made = simulated(cell, 0, rounds=60)
    assert 0 <= 1.0 - made.mean_staleness <= 20 * (made.max_staleness + 1) / (10 * 60)


def test_simulated_limits_are_the_closed_forms(kept) -> None:
    """Lemma 1 at rate 0.1 and eq. (28): the cells of the experiment that take milliseconds."""
    wanted = ("scalar FedAvg, rate 0.1", "scalar FedNova, rate 0.1")
    cells = [
        cell
        for cell in objective_inconsistency.cells("quick", results({}))
        if cell.name in wanted or cell.name.startswith("general")
    ]
    for cell in cells:
        execute(cell, 0, kept)
    known = kept.results(cells, 1)
    assert (
        abs(known.of("scalar FedAvg, rate 0.1")[0].model[0] - objective_inconsistency.SCALAR[0.1][0]) < 1e-9
    )
    assert verdict(objective_inconsistency.findings("quick", known), "Eq. (28)") is Verdict.REPRODUCED
    assert verdict(objective_inconsistency.findings("quick", known), "FedNova-VR") is Verdict.REPRODUCED


def test_a_rule_that_is_beaten_is_judged_seed_by_seed() -> None:
    from fedpace.reproduce.own import robustness

    def judge(over: float) -> Verdict:
        shares = robustness.SHARES["quick"]
        names = [
            robustness.cell_name("iid", "synchronous", "trimmed mean 0.2", "scale", share)
            for share in (min(shares), max(shares))
        ]
        made = results({names[0]: flat(0.8), names[1]: flat(over)})
        return verdict([robustness._fails_past_its_point("quick", made)], "fails visibly")

    assert judge(0.1) is Verdict.REPRODUCED
    assert judge(0.8) is Verdict.CONTRADICTED


def test_speedup_is_that_of_the_best_rates_and_not_of_a_larger_rate() -> None:
    from fedpace.reproduce.defedavg.noise import IMAGES as noise

    def judge(at_ten: int) -> list:
        made = {noise.best(n): [outcome([0.1] * (400 // n) + [0.9])] * 3 for n in noise.n}
        made |= {noise.control(n): [outcome([0.1] * at_ten + [0.9])] * 3 for n in (5, 20, 40)}
        return noise.findings(results(made))

    assert verdict(judge(60), "rounds ∝ 1/n") is Verdict.REPRODUCED
    assert verdict(judge(60), "more updates, not larger rates") is Verdict.REPRODUCED
    assert verdict(judge(5), "more updates, not larger rates") is Verdict.CONTRADICTED


def test_where_the_best_rate_is_the_same_for_every_n_noise_was_not_what_decided() -> None:
    from fedpace.reproduce.defedavg.noise import IMAGES as noise

    def judge(*rates: float) -> Verdict:
        made = results({noise.best(n): [outcome([0.1] * 300 + [0.9])] * 3 for n in noise.n})
        made = replace(
            made, choices={noise.best(n): (rate, "") for n, rate in zip(noise.n, rates, strict=True)}
        )
        return verdict(noise.findings(made), "where noise dominates")

    assert judge(0.1, 0.1, 0.1, 0.1) is Verdict.NOT_TESTED
    assert judge(0.03, 0.1, 0.1, 0.3) is Verdict.CONTRADICTED


def test_fewer_rounds_of_one_n_alone_or_a_target_that_is_lost_again_are_no_speedup() -> None:
    from fedpace.reproduce.defedavg import speedup
    from fedpace.reproduce.defedavg.speedup_cells import by_n, by_table

    def judge(later: tuple[int, int, int, int], end: float) -> list:
        """Rounds of n = 10 to 80 on three seeds that differ by one; the last accuracy at Table 2's n = 80."""
        rounds = dict(zip(speedup.N, (300, *later), strict=True))
        made = {
            by_n("iid", n): [outcome([0.1] * (took + seed % 2) + [0.9] * 400) for seed in range(3)]
            for n, took in rounds.items()
        }
        made[by_table("iid", 80)] = [outcome([0.1] * (2 + seed % 2) + [0.9, end]) for seed in range(3)]
        known = results(made)
        return [each("quick", known, "iid") for each in (speedup._fewer, speedup._printed, speedup._held)]

    falling, flat_later, back_up = (160, 80, 40, 20), (50, 50, 50, 50), (39, 20, 25, 30)
    assert verdict(judge(falling, 0.9), "fewer rounds (iid)") is Verdict.REPRODUCED
    assert verdict(judge(flat_later, 0.9), "fewer rounds (iid)") is Verdict.UNDECIDED
    assert verdict(judge(back_up, 0.9), "fewer rounds (iid)") is Verdict.CONTRADICTED
    assert verdict(judge(falling, 0.9), "the target is held") is Verdict.REPRODUCED
    assert verdict(judge(falling, 0.6), "the target is held") is Verdict.CONTRADICTED
    assert verdict(judge(falling, 0.9), "Table 2's rates (iid)") is Verdict.REPRODUCED
    assert verdict(judge(falling, 0.6), "Table 2's rates (iid)") is Verdict.NOT_TESTED
    assert "n = 80: 3 of 3, at 60 to 60 % (3 had touched it)" in judge(falling, 0.6)[2].note


def test_local_steps_are_compared_if_runs_hold_the_target_at_all_of_them() -> None:
    from fedpace.reproduce.defedavg import speedup
    from fedpace.reproduce.defedavg.speedup_cells import by_k

    def judge(end: float) -> Finding:
        """Rounds of K = 20, 50 and 100 on three seeds; the last accuracy at K = 20, which gets there last."""
        took = dict(zip(speedup.K, (90, 30, 60), strict=True))
        made = {
            by_k("iid", k): [
                outcome([0.1] * (t + seed % 2) + [0.9, end if k == 20 else 0.9]) for seed in range(3)
            ]
            for k, t in took.items()
        }
        return speedup._local("quick", results(made), "iid")

    assert len(judge(0.9).comparisons) == 2
    assert verdict([judge(0.9)], "more local steps") is Verdict.CONTRADICTED
    assert judge(0.5).verdict is Verdict.NOT_TESTED
    assert "most runs of K = 20 do not hold the target." in judge(0.5).note


def test_an_advantage_that_shrinks_with_n_is_the_papers_sentence_on_fedbuff() -> None:
    from fedpace.reproduce.defedavg import table1

    def judge(fedavg: tuple[int, ...]) -> Verdict:
        """Steps of FedAvg by n, a step more on odd seeds; FedBuff always needs 10."""
        took = {"FedAvg": fedavg, "FedBuff": (10,) * len(table1.N)}
        made = {
            table1.name("noniid", method, n): [outcome([0.1] * (t + seed % 2) + [0.9]) for seed in range(3)]
            for method, steps in took.items()
            for n, t in zip(table1.N, steps, strict=True)
        }
        return verdict([table1._fedbuff("quick", results(made))], "advantage shrinks")

    assert judge((60, 40, 30, 15)) is Verdict.REPRODUCED
    assert judge((15, 30, 40, 60)) is Verdict.CONTRADICTED
    assert judge((8, 7, 6, 5)) is Verdict.CONTRADICTED


def test_combined_methods_are_compared_at_the_rates_chosen_for_the_target() -> None:
    from fedpace.reproduce.own import combined_methods as combined

    def judge(ours: int, theirs: int) -> Verdict:
        made = {
            combined.name(method, target): [
                outcome([0.1] * ((ours if method == combined.OURS else theirs) + seed % 2) + [0.9])
                for seed in range(3)
            ]
            for method in combined.METHODS
            for target in combined.TARGETS["quick"]
        }
        return verdict(combined.findings("quick", results(made)), "reaches 80% sooner")

    assert judge(10, 40) is Verdict.REPRODUCED
    assert judge(40, 10) is Verdict.CONTRADICTED


@pytest.mark.parametrize(("steps", "judged"), [(2, Verdict.UNDECIDED), (30, Verdict.REPRODUCED)])
def test_a_method_that_never_gets_to_a_target_is_compared_if_it_had_spent_more(steps, judged) -> None:
    """The last of the papers' methods ends after so many steps, below the target; ours gets there after ten."""
    from fedpace.reproduce.own import combined_methods as combined

    target, *rivals, never = (0.83, *combined.PAPERS)
    made = {
        combined.name(m, target): [outcome([0.1] * (40 + seed) + [0.9]) for seed in range(5)] for m in rivals
    }
    made[combined.name(combined.OURS, target)] = [
        outcome([0.1] * (9 + seed % 2) + [0.9]) for seed in range(5)
    ]
    made[combined.name(never, target)] = [outcome([0.1] * steps)] * 5
    [found] = [
        f for f in settled("quick", combined.findings("quick", results(made))) if "bytes until 83%" in f.claim
    ]
    assert found.verdict is judged and f"{never} (5 runs)" in found.note


def test_a_seed_with_which_some_n_misses_the_target_has_no_slope() -> None:
    """All it spent would fall with n as the rounds do that it was given."""
    late = {10: [outcome([0.1, 0.9]), outcome([0.1] * 4)], 20: [outcome([0.9]), outcome([0.1] * 2)]}
    made = results({f"n={n}": runs for n, runs in late.items()})
    assert rounds_by_seed(made, {n: f"n={n}" for n in late}, 0.5) == {0: {10: 2, 20: 1}}


def test_rounds_to_an_accuracy_are_read_alike_for_both_methods() -> None:
    """On means of three evaluations: FedAvg needs all of its rounds for its own end, whatever it touched before."""
    rising = outcome([0.1, 0.9, 0.1, 0.4, 0.5, 0.6])
    twice, never = outcome([0.3, 0.5, 0.9, 0.9, 0.9, 0.9]), outcome([0.1] * 6)
    made = results({"FedAvg": [rising] * 3, "same": [rising] * 3, "twice": [twice] * 3, "never": [never] * 3})
    shares = {name: shares_of_rounds(made, "FedAvg", name)[0] for name in ("same", "twice", "never")}
    assert shares == {"same": 1.0, "twice": 0.5, "never": 1.0}


def test_training_losses_fall_fastest_if_every_rival_is_above_at_every_n() -> None:
    from fedpace.reproduce.defedavg import curves
    from fedpace.reproduce.training_curves import METRIC

    def runs(loss: float) -> list[Outcome]:
        plain = [outcome([0.5] * 2) for _ in range(3)]
        return [
            replace(
                run,
                points=tuple(
                    replace(p, metrics={**p.metrics, METRIC: loss + seed / 100}) for p in run.points
                ),
            )
            for seed, run in enumerate(plain)
        ]

    def judge(rival_at_80: float) -> Verdict:
        made = {
            curves.named("iid", method, n): runs(
                0.5 if method == curves.OURS else rival_at_80 if n == 80 else 0.8
            )
            for method in curves.METHODS["iid"]
            for n in curves.N
        }
        return verdict(curves.findings("quick", results(made)), "training loss falls fastest, iid")

    assert judge(0.9) is Verdict.REPRODUCED
    assert judge(0.2) is Verdict.CONTRADICTED

"""Several private runs side by side: each one's epsilon, and what all cost together."""

from dataclasses import replace

import pytest

import fedpace
from fedpace.privacy import ClientDP
from fedpace.tasks import quadratics

pytest.importorskip("dp_accounting", reason="pip install 'fedpace[privacy]'")
TASK = quadratics([[1.0, -2.0], [4.0, 0.5], [3.0, 3.0], [0.0, 1.0]])


def private(name="fedavg", noise=3.0, **settings):
    settings = {"clients_per_round": 2, "select": "poisson", "client_lr": 0.25, "steps": 2, **settings}
    rule = ClientDP(noise_multiplier=noise, delta=0.01)
    return replace(getattr(fedpace.algorithms, name)(**settings), privacy=rule)


@pytest.fixture(scope="module")
def study():
    rows = {"one": private(), "other": private("fedavgm"), "plain": replace(private(), privacy=None)}
    return fedpace.compare(rows, TASK, rounds=3, seeds=2)


def test_runs_of_one_mechanism_cost_what_one_long_run_costs(study):
    """Four private runs of three steps are twelve steps."""
    [together] = study.privacy
    twelve = fedpace.simulate(private(), TASK, rounds=12, evaluate_every=None).privacy
    assert (together.runs, together.adjacency) == (4, "add-or-remove")
    assert together.epsilon == twelve.epsilon


def test_the_table_has_each_rows_epsilon_and_says_what_all_cost(study):
    header, _, *rows = study.table().splitlines()
    assert "epsilon" in header and "4 runs together: (" in study.table()
    spent = f"{study.runs['one'][0].privacy.epsilon:.4g}"
    assert [spent in row for row in rows[:3]] == [True, True, False]
    frame = study.to_pandas()
    assert frame.groupby("row")["epsilon"].count().to_dict() == {"one": 2, "other": 2, "plain": 0}


def test_a_report_draws_epsilon_and_says_what_is_covered(study, tmp_path):
    study.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "epsilon over server steps" in page and "Privacy covers the released models" in page


def test_without_privacy_neither_table_nor_report_mentions_it(tmp_path):
    study = fedpace.compare([replace(private(), privacy=None)], TASK, rounds=2, seeds=1)
    study.report(tmp_path / "page.html")
    assert study.privacy == [] and "epsilon" not in study.table()
    assert "Privacy covers" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_sweep_counts_its_runs_too():
    def make(client_lr):
        return private(client_lr=client_lr)

    study = fedpace.sweep(make, TASK, grid={"client_lr": [0.1, 0.2]}, seeds=1, rounds=2)
    [together] = study.privacy
    assert together.runs == 2

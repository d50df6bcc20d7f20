"""How often a lazy rule acted, and what is compared where it acted rarely."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace

from fedpace.errors import ConfigError
from fedpace.reproduce.cell import NamedTask
from fedpace.reproduce.experiment import Finding, not_tested
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results

# what a method is without its rule
WITHOUT_RULE: Mapping[str, str] = {
    "FedNLAA": "FedAMS",
    "FedAA": "FedAMS",
    "FedACA 1/8": "FedCAMS",
    "FedBACA 1/8": "compression with error feedback both ways",
}
TESTED_INSTEAD: Mapping[str, str] = {
    "FedNLAA": "FedAMS rather than NLA",
    "FedACA 1/8": "compression rather than AA",
    "FedBACA 1/8": "compression rather than AA",
}
RARELY = 0.01  # of the uploads: a rule that fires less often was not tested
JUDGED_BEFORE = 5  # seeds: the page had a version with these alone


def fired(outcome: Outcome) -> float:
    """How often the lazy rule of the uplink acted, as a share of the uploads."""
    return outcome.traffic["up"].get("firing_rate", 0.0)


def rarely_fired(results: Results, name: str) -> bool:
    return results.spread(name, fired).mean < RARELY


def hardly_fired(results: Results, name: str) -> bool:
    """Often enough to count as tested, but no more than once for each client on average."""
    return not rarely_fired(results, name) and results.spread(name, _times).mean <= _clients(results, name)


def _clients(results: Results, name: str) -> int:
    task = results.cells[name].task
    if not isinstance(task, NamedTask):
        raise ConfigError(f"the task of {name!r} must be a NamedTask, which knows its clients; got {task!r}")
    return task.clients


def _times(outcome: Outcome) -> float:
    return fired(outcome) * _uploads(outcome)


def _uploads(outcome: Outcome) -> float:
    return outcome.traffic["up"]["frames"]


def how_often(results: Results, name: str) -> str:
    """In numbers where the rule counts as tested and hardly acted."""
    if not hardly_fired(results, name):
        return f"its rule fired in {results.spread(name, fired).mean:.1%} of uploads"
    share = results.spread(name, lambda outcome: 100 * fired(outcome))
    return (
        f"its rule fired in {share:.2f} % of uploads{_on_the_first_seeds(share.values)}, "
        f"{_counted(results, name)}"
    )


def _on_the_first_seeds(shares: tuple[float, ...]) -> str:
    """Where they alone would not have counted."""
    first = statistics.fmean(shares[:JUDGED_BEFORE])
    return f" ({first:.2f} % on the first {JUDGED_BEFORE} seeds)" if first < 100 * RARELY else ""


def _counted(results: Results, name: str) -> str:
    uploads = results.spread(name, _uploads).mean
    return f"{results.spread(name, _times):.1f} of {uploads:.0f}, no more than once per client on average"


def without_rule(results: Results, name: str, method: str) -> str:
    """What a method comes to whose rule acted rarely or never."""
    never = not any(results.spread(name, fired).values)
    return f"it {'equals' if never else 'is nearly'} {WITHOUT_RULE[method]} here"


def often_and_about(results: Results, name: str, method: str) -> str:
    """How often a rule fired that counts as tested, and what its row is about if it hardly did."""
    often = how_often(results, name)
    return f"{often}: the row is about {TESTED_INSTEAD[method]}" if hardly_fired(results, name) else often


def with_its_rule(results: Results, name: str, method: str, found: Finding) -> Finding:
    """A claim about a method whose rule fired; else it is not tested."""
    if not rarely_fired(results, name):
        often = often_and_about(results, name, method)
        return replace(found, note=" ".join(filter(None, (f"{often}.", found.note))))
    why = f"{how_often(results, name)}: {without_rule(results, name, method)}."
    return not_tested(found.claim, found.published, found.ours, why)

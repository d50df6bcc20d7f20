"""How often a lazy rule acted, and what a row is about where it hardly did."""

from __future__ import annotations

import statistics
from dataclasses import replace

from fedpace.reproduce.cell import NamedTask
from fedpace.reproduce.experiment import OWN, ClaimSource, Finding, not_tested
from fedpace.reproduce.outcome import Outcome
from fedpace.reproduce.results import Results

# methods without their rule
SAME = {"FedNLAA": "FedAMS", "FedACA 1/8": "FedCAMS"}
SILENT = SAME | {"FedBACA 1/8": "compression with error feedback both ways, without AA,"}
ABOUT = {
    "FedNLAA": "FedAMS rather than NLA",
    "FedACA 1/8": "compression rather than AA",
    "FedBACA 1/8": "compression rather than AA",
}
RARELY = 0.01  # of the uploads: a rule that fires less often was not tested
ONCE = 1.0  # for each client, on average: a rule that fires no more often hardly counts
FIRST = 5  # seeds, on which the page was judged before


def fired(outcome: Outcome) -> float:
    """How often the lazy rule of the uplink acted, as a share of the uploads."""
    return outcome.traffic["up"].get("firing_rate", 0.0)


def rarely_fired(results: Results, name: str) -> bool:
    return results.spread(name, fired).mean < RARELY


def how_often(results: Results, name: str) -> str:
    """In numbers where the rule counts as tested and hardly acted."""
    if not hardly_fired(results, name):
        return f"its rule fired in {results.spread(name, fired).mean:.1%} of uploads"
    share = results.spread(name, lambda outcome: 100 * fired(outcome))
    return (
        f"its rule fired in {share:.2f} % of uploads{_first_seeds(share.values)}, {_counted(results, name)}"
    )


def hardly_fired(results: Results, name: str) -> bool:
    """Above the line, but no more than once for each client on average."""
    task = results.cells[name].task
    clients = task.clients if isinstance(task, NamedTask) else 0
    return not rarely_fired(results, name) and results.spread(name, _times).mean <= ONCE * clients


def _times(outcome: Outcome) -> float:
    return fired(outcome) * _uploads(outcome)


def _uploads(outcome: Outcome) -> float:
    return outcome.traffic["up"].get("frames", float("inf"))


def _first_seeds(shares: tuple[float, ...]) -> str:
    """Where they alone would not have counted."""
    first = statistics.fmean(shares[:FIRST])
    return f" ({first:.2f} % on the first {FIRST} seeds)" if first < 100 * RARELY else ""


def _counted(results: Results, name: str) -> str:
    uploads = results.spread(name, _uploads).mean
    return f"{results.spread(name, _times):.1f} of {uploads:.0f}, no more than once per client on average"


def with_its_rule(results: Results, name: str, method: str, found: Finding) -> list[Finding]:
    """The paper's claim where its rule fired; else untested, and of FedBACA what is left of it as a claim of ours."""
    often = how_often(results, name)
    if not rarely_fired(results, name):
        about = f": the row is about {ABOUT[method]}" if hardly_fired(results, name) else ""
        return [replace(found, note=" ".join(filter(None, (f"{often}{about}.", found.note))))]
    untested = not_tested(found.claim, found.published, found.ours, f"{often}: it is {SILENT[method]} here.")
    if method in SAME:
        return [untested]
    claim = found.claim.replace(method, f"{method} without AA", 1)
    note = "compression with error feedback both ways."
    own = replace(found, claim=claim, published=OWN, note=note, source=ClaimSource.OWN)
    return [untested, own]

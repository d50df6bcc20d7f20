"""Lazy, accelerated and compressed adaptive methods, one way and both."""

from __future__ import annotations

from fedpace.theory import two_way_bounds as bounds
from fedpace.theory.setting import ORDER, SUFFICIENT, UPPER, Section, Setting, StatedQuantity, rate_held
from fedpace.theory.two_way_bounds import Adaptive, Compression

PAPER = "Bidirectional"


def two_way(
    setting: Setting, server: Adaptive, link: Compression, client_lr: float, rounds: int, *, aa: bool
) -> Section:
    """The theorem for this link: 4.1 to 4.6, A.1 to A.4, E.1 and E.2."""
    theorem = _theorem(link, setting.sampled, aa)
    label = ORDER if aa or link.both_ways else UPPER
    where = f"{PAPER}, {theorem}, corrected"
    highest = bounds.limit(setting, server, link)
    rate, at = rate_held(client_lr, highest)
    terms = bounds.bound(setting, server, link, rate, rounds)
    own, server_lr = bounds.preset(setting, rounds)
    corollary = f"{PAPER}, Corollary {_corollary(link, setting.sampled)}"
    quantities = (
        StatedQuantity("q, what a codec may lose of a norm", link.q, UPPER, f"{PAPER}, Assumption 3.4"),
        StatedQuantity("client_lr up to which the bound holds", highest, SUFFICIENT, where),
        StatedQuantity(f"smallest squared gradient in {rounds} rounds{at}", terms.total, label, where),
        StatedQuantity("of which error floor", terms.stays, label, where),
        StatedQuantity("client_lr with the best rate", own, ORDER, corollary),
        StatedQuantity("server_lr with the best rate", server_lr, ORDER, corollary),
        StatedQuantity("rate at these", bounds.rate(setting, rounds), ORDER, corollary),
        StatedQuantity(
            "tau that the paper suggests", _suggested(setting), ORDER, f"{PAPER}, section 5: C/(alpha n)"
        ),
    )
    return Section("two-way compression" if link.both_ways else "compression", quantities, _notes(link, aa))


def _suggested(setting: Setting) -> float:
    return bounds.suggested_threshold(setting.clients, setting.m)


def _theorem(link: Compression, sampled: bool, aa: bool) -> str:
    number = 2 * sampled + aa
    if link.both_ways:
        return ("Theorem 4.5", "Theorem 4.6", "Theorem E.1", "Theorem E.2")[number]
    if link.q:
        return ("Theorem A.1", "Theorem A.2", "Theorem A.3", "Theorem A.4")[number]
    return ("Theorem 4.1", "Theorem 4.2", "Theorem 4.3", "Theorem 4.4")[number]


def _corollary(link: Compression, sampled: bool) -> str:
    if link.both_ways:
        return "4.3"
    return ("A.2" if sampled else "A.1") if link.q else ("4.2" if sampled else "4.1")


def _notes(link: Compression, aa: bool) -> tuple[str, ...]:
    notes = []
    if aa:
        notes.append("the theorems about AA are those about NLA with C/(alpha n) = 1, without a proof")
    if link.both_ways:
        notes.append(
            "the memory of a compressed model is never bounded: its terms do not vanish, and grow as client_lr "
            "falls; two_way compresses differences of models instead"
        )
    return tuple(notes)

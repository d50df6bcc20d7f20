"""Tables of `fedpace advise`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fedpace.cli import show

if TYPE_CHECKING:
    from fedpace.server_opt import Stages
    from fedpace.theory import Section, Setting, StatedQuantity, Work
    from fedpace.theory.advisor import StageRow
    from fedpace.theory.stability import Delays


def work(planned: Work, setting: Setting, client_lr: float, rounds: int, picture_file: str | None) -> None:
    """Bars of intended and effective weights, the bias of plain averaging, and FedNova's numbers."""
    from fedpace.theory import advisor, picture

    show.console().print(picture.bars(planned), end="\n\n")
    figures("plain averaging", advisor.bias(planned, setting))
    figures("fednova", advisor.normalised(planned, setting, client_lr, rounds))
    if picture_file is not None:
        from fedpace.record.report import plot

        plot.save(picture.picture(planned), picture_file)


def server(
    stages: Stages, setting: Setting, client_lr: float, delay: int | None, steps: Sequence[float]
) -> None:
    """The stage table, limits and bounds, and the rates that are stable."""
    from fedpace.theory import advisor

    delays = 1 if delay is None else delay + 1
    stability = "" if delay is None else f"; max lr c: mean stability, delays uniform on 0..{delay}"
    table = stage_table(stages, delays, stability)
    figures("server momentum", advisor.server_momentum(stages, setting, client_lr, delay, steps))
    show.console().print(_recommended(table, setting, client_lr, delays))


def stage_table(stages: Stages, delays: Delays, stability: str = "") -> Sequence[StageRow]:
    """Every stage with the effect of its momentum, and the constraints of the theory that it violates."""
    from fedpace.theory import advisor, violations

    columns = ("rounds", "lr", "beta", "nu", "W1", "rounds x lr", "mean age", "variance", "max lr c")
    table = advisor.stage_rows(stages, delays)
    rows = [
        (
            f"{row.first}-{row.last}",
            *(f"{value:.4g}" for value in (row.rule.lr, row.rule.beta, row.rule.nu, row.w1, row.w2)),
            *(f"{value:.4g}" for value in (row.mean_age, row.variance, row.stability)),
        )
        for row in table
    ]
    caption = f"exact; Sun et al. 2024, sections 3 and 4{stability}"
    show.table(columns, rows, "r" * len(columns), caption=caption)
    show.console().print()
    for violation in violations(stages):
        show.console().print(f"outside the theory: {violation}")
    return table


def _recommended(table: Sequence[StageRow], setting: Setting, client_lr: float, delays: int) -> str:
    """One line: each stage's rate, at most half of a quadratic's stability limit."""
    from fedpace.theory import mean_square_limit
    from fedpace.theory.stability import contraction

    c = contraction(client_lr, setting.steps, setting.smoothness)
    most = [
        mean_square_limit(row.rule.beta, row.rule.nu, delays, setting.m if delays > 1 else 1) / (2 * c)
        for row in table
    ]
    above = [f"{row.rule.lr:g}" for row, limit in zip(table, most, strict=True) if row.rule.lr > limit]
    listed = ", ".join(f"{limit:.3g}" for limit in most)
    return (
        f"recommended: server_lr up to {listed} in these stages, half of the stability limit at "
        f"client_lr {client_lr:g} and smoothness {setting.smoothness:g} (c = {c:.3g}); "
        + (f"{', '.join(above)} is above it" if above else "all are below it")
    )


def sections(found: Iterable[Section]) -> None:
    for section in found:
        figures(section.title, section.quantities)
        for note in section.notes:
            show.console().print(f"note: {note}\n")


def figures(title: str, found: Iterable[StatedQuantity]) -> None:
    rows = [(f.name, f"{f.value:.4g}", f.label, f.source) for f in found]
    show.table((title, "", "label", "source"), rows, "trlt")
    show.console().print()

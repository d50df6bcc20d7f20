"""Citations: the papers behind algorithms and rules, and `cite`, which finds those a run used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from fedpace.bibliography import PAPERS
from fedpace.errors import ConfigError, unknown
from fedpace.paper import Paper

# The paper an algorithm is published in first, then those it builds on.
ALGORITHMS: dict[str, tuple[str, ...]] = {
    "fedavg": ("mcmahan2017",),
    "fedsgd": ("mcmahan2017",),
    "fedavgm": ("hsu2019", "sun2024"),
    "fednag": ("sun2024",),
    "fedgm": ("sun2024", "ma2019"),
    "multistage_fedgm": ("sun2024",),
    "autonomous_fedgm": ("sun2024",),
    "fedprox": ("li2020",),
    "fednova": ("wang2020",),
    "fednova_vr": ("wang2020",),
    "scaffold": ("karimireddy2020",),
    "fedadam": ("reddi2021",),
    "fedyogi": ("reddi2021",),
    "fedadagrad": ("reddi2021",),
    "fedams": ("wang2022",),
    "fedcams": ("wang2022",),
    "fedasync": ("xie2019",),
    "fedbuff": ("nguyen2022",),
    "asysg": ("lian2015",),
    "favano": ("leconte2023",),
    "quafl": ("zakerinia2022",),
    "defedavg_niid": ("wang2025",),
    "defedavg_iid": ("wang2025",),
    "ca2fl": ("wang2023", "wang2024"),  # the workshop's text, which the code follows; its later version
    "mf_ca2fl": ("wang2023", "wang2024"),
    "lag": ("chen2018",),
    "fednlaa": ("bidirectional",),
    "fedaa": ("bidirectional",),
    "fednlaca": ("bidirectional",),
    "fedaca": ("bidirectional",),
    "fedbnlaca": ("bidirectional",),
    "fedbaca": ("bidirectional",),
    "fedper": ("arivazhagan2019",),
    "fedbn": ("li2021fedbn",),
    "fedrep": ("collins2021",),
    "ditto": ("li2021ditto",),
    "feddyn": ("acar2021",),
    "two_way": ("richtarik2021", "karimireddy2019", "sattler2019", "bidirectional"),
}

# What a rule is owed wherever it is used, by the name of its class.
RULES: dict[str, tuple[str, ...]] = {
    "Momentum": ("sun2024", "ma2019"),
    "Adam": ("reddi2021",),
    "Yogi": ("reddi2021",),
    "Adagrad": ("reddi2021",),
    "AMSGrad": ("wang2022",),
    "Stages": ("sun2024",),
    "Normalised": ("wang2020",),
    "Cached": ("wang2023", "wang2024"),
    "PerStep": ("sun2024",),
    "Scaffold": ("karimireddy2020",),
    "VarianceReduced": ("wang2020",),
    "Ditto": ("li2021ditto",),
    "DynamicTerm": ("acar2021",),
    "DynamicMean": ("acar2021",),
    "Mixing": ("xie2019",),
    "Buffered": ("nguyen2022",),
    "Polled": ("wang2025",),
    "Arrivals": ("wang2025",),
    "Immediate": ("xie2019",),
    "TopK": ("stich2018",),
    "ScaledSign": ("karimireddy2019",),
    "Octaves": ("sattler2019", "horvath2019"),
    "EntropyCoded": ("ziv1985", "sullivan1996", "witten1987"),
    "Accumulate": ("ghadikolaei2021",),
    "Quantize": ("alistarh2017",),
    "ErrorFeedback": ("karimireddy2019",),
    "EF21": ("richtarik2021",),
    "EControl": ("gao2024",),
    "Averaged": ("fatkhullin2023",),
}


def papers(what: Any) -> list[Paper]:
    """The papers behind an algorithm's name, an `Algorithm` value or a `Run`, each once."""
    keys = dict.fromkeys(_keys(what))
    return [PAPERS[key] for key in keys]


def cite(what: Any) -> str:
    """BibTeX entries for an algorithm's name, an `Algorithm` value or a `Run`.

    >>> import fedpace
    >>> print(fedpace.cite("fedavgm").partition(",")[0])
    @misc{hsu2019
    """
    return "\n\n".join(paper.bibtex() for paper in papers(what))


def _keys(what: Any) -> Iterator[str]:
    if isinstance(what, str):
        yield from _keys_of_name(what)
        return
    value = getattr(what, "algorithm", what)
    if not is_dataclass(value):
        raise ConfigError(f"cite takes an algorithm, its name or a Run; got {what!r}")
    yield from ALGORITHMS.get(getattr(value, "name", ""), ())
    for rule in _rules(value):
        if getattr(rule, "remembers", True):  # Momentum without memory is plain averaging
            yield from RULES.get(type(rule).__name__, ())
            yield from _by_choice(rule)


def _by_choice(rule: Any) -> Iterator[str]:
    """Rules that several papers share, told apart by their parameters."""
    if getattr(rule, "prox_mu", 0.0):
        yield "li2020"
    if type(rule).__name__ == "Lazy":
        yield "chen2018" if rule.rule == "lag" else "bidirectional"
    if type(rule).__name__ == "Private":
        head, norm = rule.first is not None, "batch-norm" in rule.patterns
        yield "collins2021" if head else "li2021fedbn" if norm else "arivazhagan2019"
    if type(rule).__name__ == "Interrupting":
        yield "zakerinia2022" if rule.averaging else "leconte2023"


def _keys_of_name(name: str) -> tuple[str, ...]:
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


def _rules(value: Any) -> Iterator[Any]:
    """Every dataclass value inside `value` that changes what it does."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _rules(item)
    elif is_dataclass(value):
        yield value
        for each in fields(value):
            yield from _rules(getattr(value, each.name))

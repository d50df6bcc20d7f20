"""Named algorithms: a few lines each that choose rules, under their paper's citation."""

from typing import NoReturn

from fedpace.algorithms.adaptive import fedadagrad, fedadam, fedams, fedyogi
from fedpace.algorithms.buffered import ca2fl, fedasync, fedbuff, mf_ca2fl
from fedpace.algorithms.compressed import fedaa, fedaca, fedbaca, fedbnlaca, fedcams, fednlaa, fednlaca, lag
from fedpace.algorithms.continuous import asysg, defedavg_iid, defedavg_niid, favano, quafl
from fedpace.algorithms.fedavg import fedavg, fedsgd
from fedpace.algorithms.momentum import autonomous_fedgm, fedavgm, fedgm, fednag, multistage_fedgm
from fedpace.algorithms.personal import ditto, fedbn, feddyn, fedper, fedrep
from fedpace.algorithms.two_way import two_way
from fedpace.algorithms.unequal import fednova, fednova_vr, fedprox, scaffold
from fedpace.errors import nearest, suggested

__all__ = [
    "asysg",
    "autonomous_fedgm",
    "ca2fl",
    "defedavg_iid",
    "defedavg_niid",
    "ditto",
    "favano",
    "fedaa",
    "fedaca",
    "fedadagrad",
    "fedadam",
    "fedams",
    "fedasync",
    "fedavg",
    "fedavgm",
    "fedbaca",
    "fedbn",
    "fedbnlaca",
    "fedbuff",
    "fedcams",
    "feddyn",
    "fedgm",
    "fednag",
    "fednlaa",
    "fednlaca",
    "fednova",
    "fednova_vr",
    "fedper",
    "fedprox",
    "fedrep",
    "fedsgd",
    "fedyogi",
    "lag",
    "mf_ca2fl",
    "multistage_fedgm",
    "quafl",
    "scaffold",
    "two_way",
]


def __getattr__(name: str) -> NoReturn:
    """The usual error, with the algorithm that is likely meant."""
    said = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(said if name.startswith("_") else suggested(nearest(name, __all__), said))

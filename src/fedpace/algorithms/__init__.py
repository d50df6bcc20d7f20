"""Named algorithms: five to fifteen lines each, under their paper's citation."""

from fedpace.algorithms.adaptive import fedadagrad, fedadam, fedams, fedyogi
from fedpace.algorithms.buffered import ca2fl, fedasync, fedbuff, mf_ca2fl
from fedpace.algorithms.continuous import asysg, defedavg_iid, defedavg_niid, favano, quafl
from fedpace.algorithms.fedavg import fedavg, fedsgd
from fedpace.algorithms.momentum import autonomous_fedgm, fedavgm, fedgm, fednag, multistage_fedgm
from fedpace.algorithms.unequal import fednova, fednova_vr, fedprox, scaffold

__all__ = [
    "asysg",
    "autonomous_fedgm",
    "ca2fl",
    "defedavg_iid",
    "defedavg_niid",
    "favano",
    "fedadagrad",
    "fedadam",
    "fedams",
    "fedasync",
    "fedavg",
    "fedavgm",
    "fedbuff",
    "fedgm",
    "fednag",
    "fednova",
    "fednova_vr",
    "fedprox",
    "fedsgd",
    "fedyogi",
    "mf_ca2fl",
    "multistage_fedgm",
    "quafl",
    "scaffold",
]

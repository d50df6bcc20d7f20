"""The parameters of the named algorithms: all that the contract names, in signature and help, and no others."""

import inspect
import pickle
import pydoc

import pytest

from fedpace import algorithms
from fedpace.errors import ConfigError

ALL = frozenset(algorithms.__all__)
BUFFERED = {"fedbuff", "ca2fl", "mf_ca2fl"}
INTERRUPTED = {"favano", "quafl"}
CONTINUOUS = {"defedavg_niid", "defedavg_iid", "asysg"}
ROUNDS = ALL - BUFFERED - INTERRUPTED - CONTINUOUS - {"fedasync", "autonomous_fedgm"}
LAZY = {"fednlaa", "fedaa"}
COMPRESSED = {"fednlaca", "fedaca", "fedbnlaca", "fedbaca"}
BOTH_WAYS = {"fedbnlaca", "fedbaca", "two_way"}
NOVA = {"fednova", "fednova_vr"}
LAYERED = {"fedper", "fedrep"}
AMSGRAD = {"fedams", "fedcams", "two_way"} | LAZY | COMPRESSED
MOMENTUM = {"fedgm", "fedprox", "scaffold", "multistage_fedgm", "autonomous_fedgm"} | NOVA | BUFFERED
GENERAL = MOMENTUM | {"defedavg_niid", "defedavg_iid"}

# parameter -> the functions that have it
CONTRACT = {
    "client_lr": ALL,
    "batch_size": ALL,
    "clip": ALL,
    "steps": ALL - {"fedsgd", "asysg"},  # one step by definition
    "epochs": ALL - {"fedsgd", "asysg"},
    "clients_per_round": (ROUNDS - {"lag"}) | INTERRUPTED | {"autonomous_fedgm"},  # LAG: all clients
    "buffer": BUFFERED | {"defedavg_iid", "asysg", "autonomous_fedgm", "two_way"},
    "draws": {"defedavg_niid", "two_way"},
    "concurrency": BUFFERED | {"fedasync", "autonomous_fedgm", "two_way"},
    "dispatch": BUFFERED | {"autonomous_fedgm"},
    "server_lr": ALL - INTERRUPTED - {"fedasync", "feddyn"},
    "beta": GENERAL | {"fedavgm", "fednag"},
    "nu": GENERAL,
    "b1": AMSGRAD | {"fedadam", "fedyogi"},
    "b2": AMSGRAD | {"fedadam", "fedyogi"},
    "eps": AMSGRAD | {"fedadam", "fedyogi", "fedadagrad"},
    "option": AMSGRAD,
    "alpha": LAZY | COMPRESSED | {"fedasync"},
    "over_n": LAZY | COMPRESSED,
    "reference": LAZY | COMPRESSED | {"two_way"},
    "staleness": {"fedasync", "fedbuff"},
    "cache_bits": {"ca2fl", "mf_ca2fl"},
    "reuse_model": CONTINUOUS,
    "energy_saving": {"defedavg_niid"},
    "server_period": INTERRUPTED,
    "k_ref": {"autonomous_fedgm"},
    "history": {"autonomous_fedgm"},
    "codec": COMPRESSED | {"fedcams", "two_way"},
    "down_codec": BOTH_WAYS,
    "tau": LAZY | COMPRESSED | {"lag", "two_way"},
    "tau_down": BOTH_WAYS,
    "memory": COMPRESSED | {"two_way"},
    "mode": LAZY | COMPRESSED,
    "max_staleness": LAZY | COMPRESSED | {"lag", "two_way", "fedasync", "fedbuff"},
    "select": ALL - {"lag", "defedavg_iid", "asysg"},
    "weighting": ROUNDS - {"feddyn"},
    "tau_eff": NOVA,
    "prox_mu": NOVA | {"fedprox", "fedasync", "feddyn"},
    "momentum": NOVA | {"fedprox", "fedavg", "fedbn"} | LAYERED,
    "private": LAYERED,
    "rounds": {"multistage_fedgm", "autonomous_fedgm"},
    "couple": {"multistage_fedgm", "autonomous_fedgm"},
}
OWN = {
    "asysg": {"aggregate"},
    "autonomous_fedgm": {"delays"},
    "ca2fl": {"spill"},
    "defedavg_iid": {"distinct"},
    "ditto": {"lam"},
    "favano": {"rescale"},
    "fednova_vr": {"accumulate"},
    "fedrep": {"head_epochs"},
    "mf_ca2fl": {"cache_scale", "quantize_fresh"},
    "lag": {"rule", "lipschitz"},
    "two_way": {"pace", "first", "newest", "per_tensor", "server_opt", "skip"},
}


def parameters(name):
    return inspect.signature(getattr(algorithms, name)).parameters


@pytest.mark.parametrize("name", sorted(ALL))
def test_an_algorithm_has_the_parameters_of_the_contract_and_its_own(name):
    contract = {parameter for parameter, functions in CONTRACT.items() if name in functions}
    assert set(parameters(name)) == contract | OWN.get(name, set())


def test_defaults_that_the_contract_names():
    batch = {name for name in CONTRACT["dispatch"] if parameters(name)["dispatch"].default == "batch"}
    assert batch == BUFFERED
    samples = {name for name in CONTRACT["weighting"] if parameters(name)["weighting"].default == "samples"}
    assert samples == {"fedprox", "fednova", "fednova_vr"}
    assert {parameters(name)["weighting"].default for name in CONTRACT["weighting"] - samples} == {"uniform"}
    assert parameters("autonomous_fedgm")["history"].default is None
    assert parameters("ca2fl")["cache_bits"].default == 32  # unquantised


@pytest.mark.parametrize("name", sorted(ALL))
def test_signature_and_help_show_every_parameter_with_its_default(name):
    make = getattr(algorithms, name)
    for parameter in parameters(name).values():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default is not parameter.empty and parameter.annotation is not parameter.empty
    text = pydoc.render_doc(make, renderer=pydoc.plaintext)
    assert make.__doc__.splitlines()[0] in text
    assert "**shared" not in text and all(f"{parameter}: " in text for parameter in parameters(name))


@pytest.mark.parametrize("name", sorted(ALL))
def test_the_defaults_in_the_signature_are_the_ones_used(name):
    make = getattr(algorithms, name)
    assert make() == make(**{parameter.name: parameter.default for parameter in parameters(name).values()})
    assert pickle.loads(pickle.dumps(make)) is make


@pytest.mark.parametrize("name", sorted(ALL))
def test_an_unknown_parameter_is_answered_with_the_known_ones(name):
    with pytest.raises(ConfigError) as caught:
        getattr(algorithms, name)(client_rl=0.1, other=1)
    known = ", ".join(sorted(parameters(name)))
    assert str(caught.value) == (
        f"did you mean client_lr? parameter of {name} must be one of {known}; got 'client_rl'"
    )


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_parameter_without_its_name_is_refused_in_words(name):
    with pytest.raises(TypeError) as caught:
        getattr(algorithms, name)(0.1)
    assert str(caught.value) == f"{name} takes parameters by name, as in client_lr=0.1; got 0.1"

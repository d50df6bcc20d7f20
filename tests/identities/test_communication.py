"""The compressed and lazy algorithms on the simulator: golden runs and equivalences of the specification."""

import numpy as np
import pytest

import fedpace
from fedpace import algorithms as a
from fedpace.errors import ConfigError
from fedpace.link import Dense
from fedpace.server_opt import AMSGrad
from fedpace.tasks import quadratics

TASK = quadratics([[1.0, 2.0, -1.0], [3.0, 0.0, 1.0]])
LOCAL = {"client_lr": 0.5, "steps": 1}
AMS = {**LOCAL, "server_lr": 0.1}
FLAT = {**AMS, "b1": 0.9, "eps": 1e-3, "per_tensor": False}  # two_way with FedAMS's moments
TOP1, SIGN = "topk:1/3", "sign"

GOLDEN = [  # O24: theta_5, to the last printed digit
    (a.fedavg(**LOCAL), (1.875, 0.9375, 0)),
    (a.fedadam(**AMS), (0.55827991, 0.54879661, 0)),
    (a.fedams(**AMS), (0.56210211, 0.55648612, 0)),
    (a.fedams(option=2, **AMS), (0.54876622, 0.50774399, 0)),
    (a.fednlaa(tau=0.06, **AMS), (0.5620128, 0.55610567, 0)),
    (a.fedaa(tau=0.06, **AMS), (0.53509402, 0.52863496, 0)),
    (a.fedcams(codec=TOP1, **AMS), (0.49311217, 0.43081549, -0.03294873)),
    (a.fedcams(codec=SIGN, **AMS), (0.55793789, 0.30872213, -0.00777363)),
    (a.fednlaca(codec=SIGN, tau=0.5, memory="judged", **AMS), (0.53266752, 0.32371736, -0.02578859)),
    (a.fednlaca(codec=SIGN, tau=0.5, memory="fresh", **AMS), (0.55757702, 0.31567917, -0.01903761)),
    (a.fedaca(codec=SIGN, tau=0.5, memory="judged", **AMS), (0.51739502, 0.4089116, -0.06726254)),
    (a.fedaca(codec=SIGN, tau=0.5, memory="fresh", **AMS), (0.54880562, 0.41437775, -0.18483814)),
    (a.two_way(codec=TOP1, down_codec=TOP1, **FLAT), (0.50159389, 0.50270317, 0)),
]


def model(algorithm: fedpace.Algorithm, rounds: int = 4) -> np.ndarray:
    return fedpace.simulate(algorithm, TASK, rounds=rounds, evaluate_every=None).model


@pytest.mark.parametrize(("algorithm", "theta"), GOLDEN, ids=lambda value: getattr(value, "name", ""))
def test_golden_runs(algorithm, theta):
    np.testing.assert_allclose(model(algorithm), theta, atol=5.1e-9)


def test_the_lazy_rule_of_the_golden_run_fires_in_round_two_only():
    """6 DENSE and 2 SKIP uplinks: 20 + 3 * 8 bytes against 20."""
    run = fedpace.simulate(a.fednlaa(tau=0.06, **AMS), TASK, rounds=4)
    assert [record.bytes_up for record in run.history] == [88, 40, 88, 88]
    assert run.traffic["up"]["fired"] == 2 and run.traffic["up"]["firing_rate"] == 0.25


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (a.fednlaa(tau=0.0, **AMS), a.fedams(**AMS)),
        (a.fedaa(tau=0.0, **AMS), a.fedams(**AMS)),
        (a.fednlaca(codec=SIGN, tau=0.0, **AMS), a.fedcams(codec=SIGN, **AMS)),
        (a.fedaca(codec=SIGN, tau=0.0, memory="judged", **AMS), a.fedcams(codec=SIGN, **AMS)),
        (a.fednlaca(codec="dense", tau=0.06, memory="fresh", **AMS), a.fednlaa(tau=0.06, **AMS)),
        (a.fedaca(codec="dense", tau=0.06, memory="fresh", **AMS), a.fedaa(tau=0.06, **AMS)),
        (a.fedcams(codec="topk:1", **AMS), a.fedams(**AMS)),
        (a.fedbnlaca(codec=SIGN, tau=0.5, down_codec="dense", **AMS), a.fednlaca(codec=SIGN, tau=0.5, **AMS)),
        (a.fedbaca(codec=SIGN, tau=0.5, down_codec="dense", **AMS), a.fedaca(codec=SIGN, tau=0.5, **AMS)),
        (a.two_way(codec=TOP1, down_codec="topk:1", **FLAT), a.fedcams(codec=TOP1, **AMS)),
        (a.two_way(codec="topk:1", down_codec="topk:1", first="dense", **FLAT), a.fedams(**AMS)),
        (a.fedams(b1=0.0, b2=1.0, eps=1.0, **AMS), a.fedavg(**AMS)),
    ],
    ids=lambda algorithm: algorithm.name,
)
def test_equivalences_are_exact(one, other):
    """Section 13: a link that has nothing to save or lose changes nothing."""
    assert np.array_equal(model(one, 12), model(other, 12))


def test_a_shared_reference_equals_one_per_client_when_all_clients_are_met_each_round():
    settings = {"codec": TOP1, "down_codec": TOP1, **AMS}
    per_client = a.two_way(reference="per_client", **settings)
    assert np.array_equal(model(per_client, 12), model(a.two_way(reference="shared", **settings), 12))


def test_laziness_without_end_repeats_the_first_update_for_ever():
    """A threshold so large that nothing is ever fresh enough: the negative test of section 13."""
    stuck = a.fednlaa(tau=50.0, max_staleness=1000, **LOCAL, server_lr=0.1)
    run = fedpace.simulate(stuck, TASK, rounds=40, evaluate_every=None)
    assert run.traffic["up"]["fired"] == 2 * 39
    assert np.linalg.norm(run.model - TASK.optimum) > 1


def test_the_literal_reading_warns_and_counts_what_was_never_sent():
    with pytest.warns(UserWarning, match="not transmitted"):
        literal = a.fednlaa(tau=0.5, mode="literal", **AMS)
    assert fedpace.simulate(literal, TASK, rounds=10).traffic["up"]["phantom"] > 0
    published = a.fednlaa(tau=0.5, **AMS)
    assert fedpace.simulate(published, TASK, rounds=10).traffic["up"]["phantom"] == 0


def test_the_bytes_of_the_history_are_those_of_the_frames():
    run = fedpace.simulate(a.two_way(codec=TOP1, down_codec=TOP1, **FLAT), TASK, rounds=9)
    for side, total in (("up", run.bytes_up), ("down", run.bytes_down)):
        lane = run.traffic[side]
        assert lane["header_bytes"] + lane["payload_bytes"] + lane["control_bytes"] == total
    assert sum(account["bytes_up"] for account in run.traffic["clients"].values()) == run.bytes_up


def test_two_way_runs_under_every_pacing():
    """The client's model is a reference of its own; every pacing that moves forward keeps it in step."""
    task = quadratics(np.linspace(-1, 1, 24).reshape(8, 3), initial=2.0)
    for pace in ("rounds", "buffered", "polled", "arrivals"):
        settings = {
            "pace": pace,
            "buffer": 2,
            "concurrency": 4,
            "draws": 3,
            "codec": TOP1,
            "down_codec": TOP1,
        }
        devices = fedpace.sim.Population.from_times(np.linspace(1, 3, 8))
        algorithm = a.two_way(**settings, client_lr=0.2, steps=2, server_lr=0.03)
        run = fedpace.simulate(algorithm, task, devices, rounds=200, evaluate_every=None)
        assert np.linalg.norm(run.model - task.optimum) < 0.15 * np.linalg.norm(2.0 - task.optimum), pace


def test_codecs_can_work_tensor_by_tensor():
    """One scale per tensor: a vector of two tensors of very different size keeps both."""
    from fedpace.link import ScaledSign
    from fedpace.vector import Layout

    bound = a.two_way(codec="sign", down_codec="sign", per_tensor=True).bound(
        Layout.of({"w": (2,), "b": (2,)})
    )
    v, rng = np.array([1.0, 1.0, 0.01, -0.01]), np.random.default_rng(0)
    codec = bound.up.codec
    assert np.array_equal(codec.decode(codec.encode(v, rng), 4), v)
    flat = ScaledSign()
    np.testing.assert_allclose(((flat.decode(flat.encode(v, rng), 4) - v) ** 2).sum(), 0.9801)
    assert Dense().bind(Layout.of({"w": (2,)})) == Dense()


def test_one_doubled_update_slows_amsgrad_down_for_ever():
    """O25: A = 0.3 for 200 rounds; doubled once, at round 2, it raises the second moment, which never falls again."""
    opt = AMSGrad(lr=0.1, b1=0.9, b2=0.99, eps=1e-3, option=1)
    ends = []
    for second in (0.3, 0.6):
        theta = np.zeros(1)
        state = opt.init(theta)
        for step in range(200):
            theta, state = opt.apply(theta, np.array([second if step == 1 else 0.3]), state)
        ends.append(theta[0])
    np.testing.assert_allclose(ends, (27.60545879, 27.06504149), atol=5.1e-9)


def test_a_mode_is_found_by_its_former_word_with_a_line():
    for name in ("fednlaa", "fedaa", "fednlaca", "fedaca", "fedbnlaca", "fedbaca"):
        make = getattr(a, name)
        with pytest.warns(FutureWarning, match='"as_published" is now called "realisable"') as told:
            former = make(mode="as_published")
        assert former == make(mode="realisable") == make() and len(told) == 1


def test_alpha_needs_the_form_that_has_it():
    with pytest.raises(ConfigError, match="C / \\(alpha n\\)"):
        a.fednlaa(alpha=0.5)
    assert a.fednlaa(alpha=0.5, over_n=True, tau=0.2).up.tau == 0.4


def test_a_reference_that_was_never_sent_warns_by_either_name():
    with pytest.warns(UserWarning, match='reference="raw" uses values that were not transmitted'):
        a.fednlaca(reference="raw")
    assert a.fednlaca(reference="absent_is_zero").up.reference == "absent_is_zero"
    assert a.fedaca(reference="judged").up.reference == "judged"
    with pytest.raises(ConfigError, match="Lazy.reference"):
        a.fedaca(reference="raw")


def test_nominal_bits_count_one_scale_per_tensor():
    """d signs and a float32 scale: one for the vector, or one for each of its tensors."""
    task = fedpace.tasks.load("digits", model="mlp", clients=4)
    size, tensors = task.layout.size, len(task.layout.names)
    bits = []
    for per_tensor in (False, True):
        signs = a.two_way(codec="sign", down_codec="sign", per_tensor=per_tensor, steps=1)
        run = fedpace.simulate(signs, task, rounds=1, evaluate_every=None)
        bits.append(run.traffic["up"]["value_bits"])
    assert tensors > 1 and bits == [4 * (size + 32), 4 * (size + 32 * tensors)]


def test_clients_of_a_shared_reference_start_from_one_copy_of_the_public_model():
    """Also one that was away; with a reference for each client every one has a model of its own."""
    select = [[0, 1, 2], [0, 1, 3], [0, 2, 3]]
    settings = {"codec": TOP1, "down_codec": TOP1, "select": select, "clients_per_round": 3, **AMS}
    task = quadratics(np.linspace(-1, 1, 12).reshape(4, 3), initial=2.0)

    class Starts(fedpace.sim.Observer):
        def __init__(self):
            self.of = {}

        def began(self, client, session, now):
            self.of.setdefault(session.version, []).append(session.start)

    for reference, copies in (("shared", 1), ("per_client", 3)):
        starts = Starts()
        algorithm = a.two_way(reference=reference, **settings)
        fedpace.simulate(algorithm, task, rounds=3, evaluate_every=None, observers=[starts])
        assert [len({id(model) for model in starts.of[version]}) for version in (1, 2)] == [copies] * 2

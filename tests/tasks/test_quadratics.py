"""Quadratics: exact where the numbers are dyadic, and the optimum where it should be."""

from contextlib import nullcontext

import numpy as np
import pytest

from fedpace.compute.protocol import Request
from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.tasks import quadratics
from fedpace.vector import freeze


def solve(task, client, start, steps=2, lr=0.5, correction=None, **rule):
    x = freeze(np.atleast_1d(np.array(start, dtype=float)))
    local = SGD(lr=lr, steps=steps, **rule)
    return task.solve(Request(client, 0, x, 0, local, steps, 0, correction, data=client))


def test_two_half_steps_move_three_quarters_of_the_way():
    """Bed Q3 of the asynchronous spec: d_i(w) = 3/4 (b_i - w), exactly."""
    task = quadratics([4, 8, 16])
    for client, b in enumerate((4.0, 8.0, 16.0)):
        for w in (0.0, 4.5, 10.125, -465 / 32):
            assert solve(task, client, w).tolist() == [0.75 * (b - w)]


def test_oracle_a12_first_round_is_exact():
    """Curvatures (1, 2, 1/2), b = (1, 2, -1), lr 1/4, K = 3, server lr 1/2, clients 1 and 2: 149/256."""
    task = quadratics([1, 2, -1], curvatures=[1, 2, 0.5])
    deltas = [solve(task, client, 0.0, steps=3, lr=0.25) for client in (0, 1)]
    assert (0.5 * (deltas[0] + deltas[1]) / 2).tolist() == [149 / 256]


def test_scalar_curvature_equals_the_matrix_it_stands_for():
    centers = np.arange(6.0).reshape(3, 2)
    scalar = quadratics(centers, curvatures=[1, 2, 4], weights=[1, 2, 0.5])
    matrix = quadratics(centers, curvatures=[h * np.eye(2) for h in (1, 2, 4)], weights=[1, 2, 0.5])
    x = np.array([0.5, -3.0])
    assert scalar.evaluate(x) == pytest.approx(matrix.evaluate(x), rel=1e-14)
    for client in range(3):
        assert scalar.objective(client, x) == matrix.objective(client, x)
        assert solve(scalar, client, x).tolist() == solve(matrix, client, x).tolist()


def test_the_weighted_gradient_vanishes_at_the_optimum():
    """N2 of the momentum spec: x* = (.126062862219, .517365370786)."""
    h = np.array([[[2, 0.5], [0.5, 1]], [[1, -0.2], [-0.2, 3]], [[1.5, 0], [0, 0.5]]])
    e = np.array([[1.0, 0], [0, 2], [-1, 1]])
    p = [0.5, 0.3, 0.2]
    task = quadratics([np.linalg.solve(*pair) for pair in zip(h, e, strict=True)], h, p)
    np.testing.assert_allclose(task.optimum, [0.126062862219, 0.517365370786], atol=5e-13)
    total = sum(w * task.gradient(i, task.optimum) for i, w in enumerate(p))
    np.testing.assert_allclose(total, 0, atol=1e-15)
    assert task.evaluate(task.optimum)["distance"] == 0


def test_loss_is_the_weighted_mean_objective():
    task = quadratics([0, 4], curvatures=[1, 0.5], weights=[3, 1])
    # F_0(2) = 2, F_1(2) = 1
    assert task.evaluate(np.array([2.0])) == {"loss": 7 / 4, "distance": abs(2 - (0.5 * 4) / 3.5)}
    assert [task.samples(i) for i in range(2)] == [3.0, 1.0]
    assert task.training_loss(np.array([2.0])) == 7 / 4


def test_correction_is_added_to_every_gradient():
    task = quadratics([4.0])
    assert solve(task, 0, 0.0, steps=2, correction=np.array([4.0])).tolist() == [0.0]


def test_initial_is_broadcast_and_cannot_be_written():
    task = quadratics(np.zeros((2, 3)), initial=1.5)
    assert task.initial(0).tolist() == [1.5, 1.5, 1.5]
    assert task.layout.size == 3
    with pytest.raises(ValueError):
        task.initial(0)[0] = 0
    assert quadratics(np.zeros((2, 2)), initial=[1, 2]).initial(7).tolist() == [1.0, 2.0]


def test_repr_tells_tasks_apart():
    task = quadratics([1, 2], weights=[1, 3])
    assert (
        repr(task) == "quadratics(centers=[[1.0], [2.0]], curvatures=None, weights=[1.0, 3.0], initial=[0.0])"
    )
    many = [repr(quadratics(np.arange(100) + shift)) for shift in (0, 0, 1)]
    assert many[0] == many[1] != many[2]
    assert len(many[0]) < 200


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"centers": []}, "quadratics centers must be of shape (N,) or (N, d); got (0,)"),
        ({"centers": ["a"]}, "quadratics centers must be an array of numbers; got ['a']"),
        ({"centers": [1, np.inf]}, "quadratics centers must be finite; got [1, inf]"),
        (
            {"centers": [1, 2], "curvatures": [1]},
            "quadratics curvatures must be of shape (2,) or (2, 1, 1); got (1,)",
        ),
        ({"centers": [1, 2], "curvatures": [1, -1]}, "quadratics curvatures must be > 0; got [1.0, -1.0]"),
        (
            {"centers": [[1, 2]], "curvatures": [[[1, 2], [0, 1]]]},
            "quadratics curvatures must be symmetric, up to rounding; got [[[1.0, 2.0], [0.0, 1.0]]]",
        ),
        (
            {"centers": [[1, 2]], "curvatures": [[[1, 2], [2, 1]]]},
            "quadratics curvatures must be positive definite; got [[[1.0, 2.0], [2.0, 1.0]]]",
        ),
        ({"centers": [1, 2], "weights": [1]}, "quadratics weights must be of shape (2,); got (1,)"),
        ({"centers": [1, 2], "weights": [1, 0]}, "quadratics weights must be > 0; got [1.0, 0.0]"),
        (
            {"centers": [1, 2], "initial": [1, 2]},
            "quadratics initial must be a number or of shape (1,); got (2,)",
        ),
    ],
)
def test_bad_input_says_what_is_allowed(arguments, line):
    with pytest.raises(ConfigError) as error:
        quadratics(**arguments)
    assert str(error.value) == line


def test_curvatures_that_are_symmetric_up_to_rounding_are_made_so():
    """Q D Q' rounds differently on either side of the diagonal."""
    q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))
    h = q @ np.diag([1.0, 2, 3, 4, 5, 6]) @ q.T
    assert not np.array_equal(h, h.T)
    task = quadratics(np.ones((2, 6)), [h, 2 * h])
    kept = task.curvatures
    assert np.array_equal(kept, kept.transpose(0, 2, 1))
    np.testing.assert_allclose(kept[0], h, rtol=0, atol=6e-12)


def test_a_symmetric_curvature_keeps_every_bit():
    h = np.array([[[0.3, 0.1], [0.1, 0.7]]])
    assert np.array_equal(quadratics([[1, 2]], h).curvatures, h)


@pytest.mark.parametrize(("off", "refused"), [(0.5e-12, False), (2e-12, True)])
def test_what_is_less_symmetric_than_rounding_makes_it_is_refused(off, refused):
    h = np.array([[[4.0, 1.0], [1.0 + 4 * off, 4.0]]])
    with pytest.raises(ConfigError, match="symmetric, up to rounding") if refused else nullcontext():
        quadratics([[1, 2]], h)

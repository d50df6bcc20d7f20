"""Local solves in torch: the equations of the local rule, pure, and to the bit the same every time."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from fedpace.compute.protocol import Request
from fedpace.local import SGD
from fedpace.local import descend as reference
from fedpace.tasks import from_torch, load
from fedpace.tasks.descend import descend
from fedpace.tasks.examples import Tensors
from fedpace.tasks.images_last import as_given, channels_last
from fedpace.tasks.objective import CLASSIFICATION
from fedpace.tasks.torch_task import TorchTask
from fedpace.vector import freeze

EVERY_FIELD = [
    SGD(lr=0.1, steps=6),
    SGD(lr=0.1, steps=6, momentum=0.9),
    SGD(lr=0.1, steps=6, momentum=0.9, nesterov=True),
    SGD(lr=0.1, steps=6, prox_mu=0.5),
    SGD(lr=0.1, steps=6, weight_decay=0.01),
    SGD(lr=0.1, steps=6, clip=0.3),
    SGD(lr=0.1, steps=6, schedule=(1.0, 0.5, 0.25)),
    SGD(
        lr=0.1,
        steps=6,
        momentum=0.8,
        nesterov=True,
        prox_mu=1.0,
        weight_decay=0.1,
        clip=0.5,
        schedule=(1, 0.5),
    ),
    SGD(lr=0.1, steps=6, momentum=0.8, prox_mu=1.0, weight_decay=0.1, clip=0.5),
]


def request(task, *, client=0, session=0, local=None, steps=7, seed=0, start=None, correction=None):
    local = local or SGD(lr=0.1, steps=steps, batch_size=10)
    start = task.initial(0) if start is None else start
    return Request(client, session, start, 0, local, steps, seed, correction, data=client)


@pytest.mark.parametrize("local", EVERY_FIELD, ids=str)
@pytest.mark.parametrize("corrected", [False, True])
def test_torch_steps_equal_the_numpy_reference(local, corrected):
    """On F(y) = y'Hy/2 - e'y in float64 the two loops differ by rounding alone."""
    rng = np.random.default_rng(0)
    h, e = np.diag(rng.uniform(0.5, 2, 5)), rng.normal(size=5)
    start, correction = rng.normal(size=5), rng.normal(size=5) if corrected else None
    expected = reference(lambda y, _: h @ y - e, start, local, 6, correction)
    y = torch.from_numpy(start.copy())
    descend(
        lambda: torch.from_numpy(h) @ y - torch.from_numpy(e),
        y,
        local,
        6,
        None if correction is None else torch.from_numpy(correction),
    )
    np.testing.assert_allclose(y.numpy() - start, expected, rtol=1e-13, atol=1e-14)


def test_solve_equals_plain_torch():
    """Softmax regression with torch.optim.SGD on the same batches, parameter by parameter."""
    task = load("digits", 5, "dirichlet:0.5", "mlp")
    local = SGD(lr=0.05, steps=9, batch_size=16, momentum=0.9, nesterov=True, weight_decay=0.01)
    asked = request(task, client=3, local=local, steps=9)

    module = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    )
    torch.nn.utils.vector_to_parameters(torch.from_numpy(asked.start.copy()), module.parameters())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)
    data = task.client_data(3)
    for positions in task.batches(asked):
        optimizer.zero_grad()
        inputs, targets = data.inputs[positions], data.targets[positions]
        torch.nn.functional.cross_entropy(module(inputs), targets).backward()
        optimizer.step()
    end = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    np.testing.assert_allclose(asked.start + task.solve(asked), end, rtol=0, atol=1e-6)


def test_a_solve_leaves_no_trace():
    """Whatever ran before, the same request gives the same bits, and its inputs stay as they were."""
    task = load("digits", 5, "iid", "mlp")
    asked = request(task, correction=freeze(np.full(task.layout.size, 0.01, np.float32)))
    before = asked.start.copy()
    first = task.solve(asked)
    task.solve(request(task, client=2, local=SGD(lr=1, steps=3, momentum=0.9), steps=3))
    task.evaluate(first)
    torch.manual_seed(123)
    np.testing.assert_array_equal(task.solve(asked), first)
    np.testing.assert_array_equal(asked.start, before)
    assert first.dtype == np.float32


def test_the_same_bits_in_another_process_and_after_pickling():
    script = (
        "import hashlib, torch; torch.set_num_threads(1)\n"
        "from fedpace.tasks import load; from fedpace.local import SGD\n"
        "from fedpace.compute.protocol import Request\n"
        "t = load('digits', 20, 'dirichlet:0.5', 'mlp', 3)\n"
        "local = SGD(lr=.1, steps=12, batch_size=7, momentum=.5)\n"
        "d = t.solve(Request(4, 2, t.initial(1), 0, local, 12, 9, data=4))\n"
        "print(hashlib.sha256(d.tobytes()).hexdigest(), t)"
    )
    printed = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(printed) == 1
    task = pickle.loads(pickle.dumps(load("digits", 20, "dirichlet:0.5", "mlp", 3)))
    local = SGD(lr=0.1, steps=12, batch_size=7, momentum=0.5)
    delta = task.solve(Request(4, 2, task.initial(1), 0, local, 12, 9, data=4))
    assert printed.pop() == f"{hashlib.sha256(delta.tobytes()).hexdigest()} {task}\n"


def three_samples(client):
    inputs = torch.arange(12.0).reshape(3, 4) / (client + 5)
    return Tensors(inputs, torch.tensor([0, 1, 1]))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Softplus], ids=["compiled", "autograd"])
def test_a_task_of_ones_own_survives_pickling_after_it_was_used(activation):
    """Its parameters are views of one vector again, wherever a solve starts from, and its lanes work on those."""
    network = nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, 2))
    task = TorchTask("own", network, CLASSIFICATION, [3] * 4, three_samples, three_samples(9))
    asked = request(task, client=1, start=freeze(task.initial(0) + 1), steps=4)
    expected, together = task.solve(asked), task.lanes > 1 and task.solve_together([asked])[0]
    again = pickle.loads(pickle.dumps(task))
    np.testing.assert_array_equal(again.solve(asked), expected)
    assert again.evaluate(asked.start) == task.evaluate(asked.start)
    assert again.lanes == task.lanes
    if again.lanes > 1:
        np.testing.assert_array_equal(again.solve_together([asked])[0], together)


def test_batches_are_shuffled_passes_that_go_on():
    """23 samples in tens: 10, 10, 3, then a new order; no sample twice in a pass."""
    task = load("digits", 60, "iid", "softmax")
    client = next(c for c in range(60) if task.samples(c) == 24)
    local = SGD(lr=0.1, steps=7, batch_size=10)
    taken = [b.tolist() for b in task.batches(request(task, client=client, local=local, steps=7))]
    assert [len(b) for b in taken] == [10, 10, 4, 10, 10, 4, 10]
    passes = [sum(taken[:3], []), sum(taken[3:6], [])]
    assert [sorted(p) for p in passes] == [list(range(24))] * 2
    assert passes[0] != passes[1]


def test_full_batch_takes_everything_in_order_every_step():
    task = load("digits", 60, "iid", "softmax")
    taken = list(task.batches(request(task, local=SGD(lr=0.1, steps=3), steps=3)))
    assert [b.tolist() for b in taken] == [list(range(int(task.samples(0))))] * 3


def test_shuffles_are_named_by_seed_client_and_session():
    task = load("digits", 60, "iid", "softmax")

    def order(**names):
        return next(task.batches(request(task, **names))).tolist()

    assert order() == order()
    assert (
        len({tuple(order(seed=s, client=c, session=k)) for s in (0, 1) for c in (0, 1) for k in (0, 1)}) == 8
    )


def test_initial_model_follows_the_seed_and_cannot_be_written():
    task = load("digits", 10)
    np.testing.assert_array_equal(task.initial(5), task.initial(5))
    assert not np.array_equal(task.initial(5), task.initial(6))
    with pytest.raises(ValueError):
        task.initial(5)[0] = 1
    assert task.layout.names == ("1.weight", "1.bias", "3.weight", "3.bias")
    assert task.layout.size == 64 * 32 + 32 + 32 * 10 + 10


def test_repr_tells_tasks_apart():
    shown = {
        repr(load("digits", n, p, m, s))
        for n, p, m, s in [
            (10, "iid", "mlp", 0),
            (11, "iid", "mlp", 0),
            (10, "iid:unbalanced", "mlp", 0),
            (10, "iid", "softmax", 0),
            (10, "iid", "mlp", 1),
        ]
    }
    assert len(shown) == 5
    assert "load('digits', clients=10, partition=IID(sizes='balanced'), model='mlp', seed=0)" in shown


class AsRows(nn.Module):
    """Views the result of a convolution as rows, which channels that lie last do not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.out = nn.Conv2d(2, 3, 3), nn.Linear(48, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(torch.tanh(self.convolution(x)).view(len(x), -1))
        return y


def test_own_images_have_their_channels_last_where_the_module_can_take_them() -> None:
    """The same numbers within rounding; a named network keeps its bits."""
    torch.manual_seed(0)
    data = (torch.randn(20, 2, 6, 6), torch.arange(20) % 3)
    able = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 3))
    last, rows = (
        from_torch(module, nn.functional.cross_entropy, [data], data) for module in (able, AsRows())
    )
    assert (last._autograd.form, rows._autograd.form) == (channels_last, as_given)
    assert not load("digits", clients=2, model="cnn_ca2fl").own_module
    asked = Request(0, 0, last.initial(0), 0, SGD(0.1, steps=6, batch_size=5), 6, seed=0, data=0)
    moved = last.solve(asked)
    last._autograd.form = as_given
    plain = last.solve(asked)
    np.testing.assert_allclose(moved, plain, rtol=0, atol=1e-5 * np.abs(plain).max())
    rows.solve(Request(0, 0, rows.initial(0), 0, SGD(0.1, steps=1, batch_size=5), 1, seed=0, data=0))

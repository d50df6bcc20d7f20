"""Your own module: a federated run equals the loop one would write by hand, and mistakes are named."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

import fedpace
from fedpace.compute.protocol import Request
from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.tasks import from_torch
from fedpace.tasks.whole import WholeMetrics

CLASSES = 3


class Tied(nn.Module):
    """BatchNorm, a weight used in two places, a frozen layer, and a parameter that is not used."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(6, 8)
        self.frozen.requires_grad_(False)
        self.norm = nn.BatchNorm1d(8)
        self.first = nn.Linear(8, 8, bias=False)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.output = nn.Linear(8, CLASSES)
        self.idle = nn.Parameter(torch.ones(2))

    def forward(self, x):
        h = self.first(torch.relu(self.norm(self.frozen(x))))
        return self.output(torch.relu(self.second(torch.tanh(h))))


def samples(count, seed, width=6):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, width, generator=generator)
    return x, (x[:, :CLASSES] * 2).argmax(1)


def parts(clients=3, count=12):
    return [samples(count + k, k) for k in range(clients)]


def ask(task, client=0, session=0, x=None, local=None, steps=4, seed=0):
    local = local or SGD(lr=0.1, steps=steps)
    start = task.initial(0) if x is None else x
    return task.solve(Request(client, session, start, 0, local, steps, seed, data=client))


@pytest.fixture
def tied():
    torch.manual_seed(0)
    return Tied()


def by_hand(module, data, rounds, steps):
    """Federated averaging in plain torch: full batches, all clients take part."""
    for _ in range(rounds):
        ends = [copy.deepcopy(module).train() for _ in data]
        for local, (inputs, targets) in zip(ends, data, strict=True):
            optimizer = torch.optim.SGD([p for p in local.parameters() if p.requires_grad], lr=0.1)
            for _ in range(steps):
                optimizer.zero_grad()
                F.cross_entropy(local(inputs), targets).backward()
                optimizer.step()
        with torch.no_grad():
            for own, *theirs in zip(module.parameters(), *(end.parameters() for end in ends), strict=True):
                own.copy_(torch.stack(theirs).mean(0))
    return torch.cat([p.detach().reshape(-1) for p in module.parameters() if p.requires_grad]).numpy()


def test_a_federated_run_equals_a_hand_written_loop(tied):
    """BatchNorm, tied weights and a frozen layer, number for number."""
    data = parts()
    task = from_torch(tied, nn.CrossEntropyLoss(), [TensorDataset(*d) for d in data], samples(20, 9))
    algorithm = fedpace.algorithms.fedavg(client_lr=0.1, steps=4, batch_size=None, clients_per_round=3)
    run = fedpace.simulate(algorithm, task, rounds=3)
    np.testing.assert_allclose(run.model, by_hand(copy.deepcopy(tied), data, 3, 4), rtol=0, atol=1e-6)


def test_only_trainable_parameters_travel_in_their_own_order(tied):
    task = from_torch(tied, F.cross_entropy, parts(), samples(20, 9))
    travelling = [p for p in tied.parameters() if p.requires_grad]
    assert task.layout.size == sum(p.numel() for p in travelling) == 2 + 8 + 8 + 64 + 8 + 27
    np.testing.assert_array_equal(
        task.initial(0), torch.cat([p.detach().reshape(-1) for p in travelling]).numpy()
    )
    assert "second.weight" not in task.layout.names and "frozen.weight" not in task.layout.names


def test_the_module_is_never_modified(tied):
    before = copy.deepcopy(tied.state_dict())
    task = from_torch(tied, F.cross_entropy, parts(), samples(20, 9))
    task.evaluate(task.initial(0) + ask(task))
    assert tied.training
    for name, value in tied.state_dict().items():
        assert torch.equal(value, before[name])
    with torch.no_grad():
        tied.output.bias.add_(1)
    np.testing.assert_array_equal(task.initial(0)[-3:], before["output.bias"].numpy())


def test_running_statistics_are_those_of_the_model_that_is_evaluated(tied):
    """Evaluation normalises by the mean over clients of their batch means and variances, at the model itself."""
    data, test = parts(), samples(20, 9)
    task = from_torch(tied, F.cross_entropy, data, test)
    x = task.initial(0) + ask(task, steps=10, local=SGD(lr=0.5, steps=10))
    shown = task.evaluate(x)

    module = copy.deepcopy(tied)
    travelling = [p for p in module.parameters() if p.requires_grad]
    torch.nn.utils.vector_to_parameters(torch.from_numpy(x), travelling)
    with torch.no_grad():
        hidden = [module.frozen(inputs) for inputs, _ in data]
        module.norm.running_mean = torch.stack([h.mean(0) for h in hidden]).mean(0)
        module.norm.running_var = torch.stack([h.var(0) for h in hidden]).mean(0)
        output = module.eval()(test[0])
    assert shown["loss"] == pytest.approx(float(F.cross_entropy(output, test[1])), rel=1e-6)
    assert shown["accuracy"] == float((output.argmax(1) == test[1]).double().mean())
    assert task.evaluate(x) == shown


def test_a_normaliser_in_evaluation_mode_stays_as_it_came(tied):
    """Fine-tuning with frozen statistics: neither training nor evaluation replaces them."""
    with torch.no_grad():
        tied.norm.running_mean.fill_(0.25)
    tied.norm.eval()
    task = from_torch(tied, F.cross_entropy, parts(), samples(20, 9))
    task.evaluate(task.initial(0) + ask(task))
    assert not task.network.norm.training
    assert torch.equal(task.network.norm.running_mean, torch.full((8,), 0.25))


def test_dropout_is_decided_by_the_request():
    torch.manual_seed(0)
    task = from_torch(
        nn.Sequential(nn.Dropout(0.5), nn.Linear(6, CLASSES)), F.cross_entropy, parts(), samples(9, 9)
    )
    first = ask(task)
    torch.rand(5)
    state = torch.random.get_rng_state()
    np.testing.assert_array_equal(ask(task), first)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not np.array_equal(ask(task, session=1), first)


class Words(Dataset):
    """Samples as a text library gives them: dicts with lists of numbers."""

    def __init__(self, seed, count=10):
        self.rng = np.random.default_rng(seed)
        self.rows = self.rng.integers(0, 20, (count, 5))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        row = self.rows[k].tolist()
        return {"input_ids": row, "mask": [1.0] * 5, "labels": row[0] % CLASSES}


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.output = nn.Embedding(20, 4), nn.Linear(4, CLASSES)

    def forward(self, input_ids, mask):
        return self.output((self.embedding(input_ids) * mask[..., None]).mean(1))


def test_samples_may_be_dicts_and_reach_the_module_by_keyword():
    task = from_torch(Reader(), F.cross_entropy, [Words(0), Words(1)], Words(2))
    rows = torch.from_numpy(Words(0).rows)
    inputs, targets = task.client_data(0).take(np.arange(10))
    assert torch.equal(inputs["input_ids"], rows) and torch.equal(targets, rows[:, 0] % CLASSES)
    before, after = (task.evaluate(task.initial(0) + d) for d in (0, ask(task, local=SGD(lr=1.0, steps=4))))
    assert set(after) == {"loss", "accuracy"} and after["loss"] != before["loss"]


def test_samples_may_have_several_inputs_and_several_losses():
    """The sum is minimised, each part is measured, and no accuracy is claimed for real-valued targets."""

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

        def forward(self, a, b):
            return self.weight[0] * a + self.weight[1] * b

    data = TensorDataset(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]))
    losses = {"square": F.mse_loss, "size": lambda output, _: output.abs().mean()}
    task = from_torch(Two(), losses, [data], data)
    # outputs (1, 4), targets (0, 1): squares (1, 9), sizes (1, 4)
    assert task.evaluate(task.initial(0)) == {"loss": 7.5, "square": 5.0, "size": 2.5}
    # d square = (1 + 2*3*1, 3*1) * ... by hand: sum over samples of 2 (o - t) input / 2 + sign(o) input / 2
    np.testing.assert_allclose(ask(task, steps=1), -0.1 * np.array([(1 + 6) + 1.5, 3 + 0.5]), rtol=1e-6)


def test_a_module_may_take_a_dict_whole():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.reader = Reader()

        def forward(self, batch):
            return self.reader(batch["input_ids"], batch["mask"])

    task = from_torch(Whole(), F.cross_entropy, [Words(0)], Words(1))
    assert set(task.evaluate(task.initial(0))) == {"loss", "accuracy"}
    assert repr(task) == repr(from_torch(task.network, F.cross_entropy, [Words(0)], Words(1)))
    assert repr(task) != repr(from_torch(task.network, F.cross_entropy, [Words(2)], Words(1)))


def test_own_metrics_come_beside_accuracy_and_see_all_samples_at_once():
    task = from_torch(
        nn.Linear(6, CLASSES), F.cross_entropy, parts(), samples(9, 9), {"size": lambda o, t: len(t)}
    )
    assert task.evaluate(task.initial(0)).keys() == {"loss", "accuracy", "size"}
    assert task.evaluate(task.initial(0))["size"] == 9.0


def sorted_by_label(count: int = 1200) -> tuple[torch.Tensor, torch.Tensor]:
    """More samples than one batch of an evaluation, the rare class in the last batch alone."""
    labels = (torch.arange(count) >= count - 100).long()
    return torch.randn(count, 2) + labels[:, None], labels


def f1(output: torch.Tensor, target: torch.Tensor) -> float:
    found = output.argmax(1)
    hits = float(((found == 1) & (target == 1)).sum())
    return 2 * hits / float((found == 1).sum() + (target == 1).sum())


def test_a_metric_that_is_no_mean_is_that_of_the_whole_data_set():
    """F1 over batches sorted by label divides by zero in two of three, and is no mean of the third."""
    torch.manual_seed(1)
    data, model = sorted_by_label(), nn.Linear(2, 2)
    task = from_torch(model, F.cross_entropy, [data], data, {"f1": f1})
    with torch.no_grad():
        exact = f1(model(data[0]), data[1])
    assert task.evaluate(task.initial(0))["f1"] == pytest.approx(exact, abs=1e-12)


class Counting:
    """A metric with reset, update and compute: how many samples it saw since it was reset."""

    def reset(self) -> None:
        self.seen = 0

    def update(self, output: torch.Tensor, target: torch.Tensor) -> None:
        self.seen += len(target)

    def compute(self) -> int:
        return self.seen


def test_a_streaming_metric_sees_every_batch_once_per_evaluation():
    data = sorted_by_label()
    task = from_torch(nn.Linear(2, 2), F.cross_entropy, [data], data, {"seen": Counting()})
    assert [task.evaluate(task.initial(0))["seen"] for _ in range(2)] == [1200.0, 1200.0]


def test_a_metric_that_cannot_be_computed_is_named():
    def undefined(output: torch.Tensor, target: torch.Tensor) -> float:
        if len(target) > 2:
            raise ValueError("only one class present")
        return 0.0

    metrics = {"auc": undefined, "ratio": lambda o, t: math.nan}
    task = from_torch(nn.Linear(6, CLASSES), F.cross_entropy, parts(), samples(9, 9), metrics)
    with pytest.warns(UserWarning) as warned:
        found = task.evaluate(task.initial(0))
    assert found.keys() == {"loss", "accuracy"}
    said = [str(warning.message) for warning in warned]
    assert said == [
        "metric auc could not be computed: only one class present",
        "metric ratio could not be computed: it is nan",
    ]


def test_metrics_beyond_the_memory_for_outputs_are_left_out_in_words():
    metrics = WholeMetrics({"f1": f1, "seen": Counting()}, memory=10)
    metrics.see(torch.zeros(5, 2), torch.zeros(5, dtype=torch.int64))
    with pytest.warns(UserWarning, match="metrics f1 are left out: the outputs take more than"):
        assert metrics.values() == {"seen": 5.0}


@pytest.mark.parametrize("value", ["good", None, [1.0, 2.0], torch.zeros(2)])
def test_a_metric_that_is_no_number_is_refused_when_the_task_is_built(value):
    with pytest.raises(ConfigError, match="metric quality must return a number; got a "):
        from_torch(
            nn.Linear(6, CLASSES), F.cross_entropy, parts(), samples(9, 9), {"quality": lambda o, t: value}
        )


def test_double_precision_stays_double():
    torch.manual_seed(0)
    data = [(x.double(), y) for x, y in parts()]
    task = from_torch(nn.Linear(6, CLASSES).double(), F.cross_entropy, data, data[0])
    assert ask(task).dtype == np.float64


def test_every_way_of_giving_tensors_is_the_same_data():
    x, y = samples(12, 0)
    whole = TensorDataset(x, y)
    given = [(x, y), whole, (x.numpy(), y.numpy()), Subset(whole, range(12)), Subset(whole, range(-12, 0))]
    torch.manual_seed(0)
    module = nn.Linear(6, CLASSES)
    tasks = [from_torch(module, F.cross_entropy, [part], (x, y)) for part in given]
    assert len({repr(task) for task in tasks}) == 1
    assert len({ask(task).tobytes() for task in tasks}) == 1


def test_repr_tells_models_and_data_apart(tied):
    def shown(module, data):
        return repr(from_torch(module, F.cross_entropy, data, samples(20, 9)))

    first = shown(tied, parts())
    assert first == shown(copy.deepcopy(tied), parts())
    assert first != shown(tied, parts(count=13))
    changed = copy.deepcopy(tied)
    with torch.no_grad():
        changed.frozen.bias.add_(1)
    assert first != shown(changed, parts())
    assert first.startswith("from_torch(Tied, parameters=117, clients=3, samples=39, sha256 ")


def test_a_task_survives_pickling(tied):
    task = from_torch(tied, F.cross_entropy, parts(), samples(20, 9))
    first = ask(task)
    again = pickle.loads(pickle.dumps(task))
    np.testing.assert_array_equal(ask(again), first)
    assert repr(again) == repr(task)


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


class Bare(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, k):
        return torch.zeros(6)


class Unlabelled(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, k):
        return {"x": 1.0}


def good(**changes):
    return {
        "model": nn.Linear(6, CLASSES),
        "loss": F.cross_entropy,
        "clients": parts(),
        "test": samples(9, 9),
        **changes,
    }


def labelled(*labels):
    return samples(len(labels), 0)[0], torch.tensor(labels)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (good(model="no"), "model must be a torch.nn.Module; got 'str'"),
        (good(clients=[]), "clients must be data sets, at least one; got []"),
        (good(clients=[*parts(1), labelled()]), "client 1 must have samples; it has none"),
        (good(test=labelled()), "test data must have samples; it has none"),
        (
            good(test=Endless()),
            "test data must be a map-style data set (a length, and samples by number) or a pair of tensors; "
            "got Endless",
        ),
        (good(clients=[Unlabelled()]), "a sample must have one of labels, label, targets, target, y; got x"),
        (good(clients=[Bare()]), "a sample must be (input, target) or a dict; got Tensor"),
        (good(clients=[labelled(0, 1, 2), labelled(0, 3)]), "client 1 labels must be in 0..2; got 3"),
        (good(test=labelled(0, -1)), "test data labels must be in 0..2; got -1"),
        (
            good(test=(torch.zeros(4, 6), torch.tensor([0, 1]))),
            "test data must have one label per sample; got 4 samples and 2 labels",
        ),
        (
            good(loss={"loss": F.cross_entropy}),
            "names of losses and metrics must be others: it is what is minimised; got 'loss'",
        ),
        (
            good(clients=[labelled(0, 1), labelled(1, 0)], test=labelled(0, 1, 2)),
            "class 2 is in the test data but in no client's training data",
        ),
        (
            good(model=nn.Linear(5, CLASSES)),
            "model does not take its input float32 (2, 6): "
            "mat1 and mat2 shapes cannot be multiplied (2x6 and 5x3)",
        ),
        (
            good(loss=nn.CrossEntropyLoss(reduction="none")),
            "loss must be one number, a mean over the batch; got float32 (2,) (output float32 (2, 3), "
            "target int64 (2,))",
        ),
        (
            good(loss=F.mse_loss),
            "loss does not fit the model: output float32 (2, 3), target int64 (2,): ",
        ),
        (
            good(loss=lambda output, target: output),
            "loss must be one number, a mean over the batch; got float32 (2, 3) "
            "(output float32 (2, 3), target int64 (2,))",
        ),
        (
            good(model=nn.Linear(6, CLASSES).half()),
            "model does not take its input float32 (2, 6): ",
        ),
        (
            good(model=nn.Linear(6, CLASSES).half(), clients=[(x.half(), y) for x, y in parts()]),
            "trainable parameters must be all float32 or all float64 (precision= is for half precision); got",
        ),
        (
            good(model=nn.Linear(6, CLASSES).requires_grad_(False)),
            "the module must be one with trainable parameters; got 'Linear'",
        ),
    ],
)
def test_mistakes_are_named_in_one_line(arguments, line):
    with pytest.raises(ConfigError) as error:
        from_torch(**arguments)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


class Blurred(Dataset):
    """Random augmentation: a sample is another one every time it is taken."""

    def __len__(self):
        return 8

    def __getitem__(self, k):
        return torch.full((6,), float(k)) + 0.1 * torch.randn(6), k % CLASSES


def test_a_task_with_augmentation_is_the_same_task_and_run_in_every_process():
    def made():
        return from_torch(Tied(), F.cross_entropy, [Blurred(), Blurred()], Blurred())

    torch.manual_seed(1)
    one = made()
    torch.manual_seed(1)
    torch.randn(3)  # another process is at another place of its generator
    model = copy.deepcopy(one._model)
    other = from_torch(model, F.cross_entropy, [Blurred(), Blurred()], Blurred())
    assert repr(one) == repr(other)
    x = one.initial(0)
    assert one.evaluate(x) == other.evaluate(x) == one.evaluate(x)
    assert np.array_equal(one.evaluate_clients(x).values, other.evaluate_clients(x).values)


def test_repr_tells_losses_apart():
    def task(loss, **more):
        return repr(from_torch(**good(model=model, loss=loss, **more)))

    model = nn.Linear(6, CLASSES)
    losses = [
        F.cross_entropy,
        nn.CrossEntropyLoss(),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        lambda output, target: F.cross_entropy(output, target),
        lambda output, target: 2 * F.cross_entropy(output, target),
    ]
    assert len({task(loss) for loss in losses}) == len(losses)
    assert task(losses[1]) == task(nn.CrossEntropyLoss())
    assert task(losses[0], metrics={"a": F.cross_entropy}) != task(losses[0], metrics={"b": F.cross_entropy})


def test_labels_that_the_loss_ignores_are_no_mistake():
    x, y = samples(12, 0)
    y[0] = -100
    from_torch(**good(clients=[(x, y), samples(12, 1)]))


def test_frozen_parts_may_be_of_a_type_that_numpy_lacks():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(6, dtype=torch.bfloat16), requires_grad=False)
            self.output = nn.Linear(6, CLASSES)

        def forward(self, x):
            return self.output(x * self.scale.float())

    assert "sha256" in repr(from_torch(**good(model=Mixed())))


def test_a_module_that_needs_two_samples_runs_in_the_pool_too():
    module = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))
    task = from_torch(**good(model=module))
    algorithm = fedpace.algorithms.fedavg(steps=1, batch_size=None)
    one, two = (
        fedpace.simulate(algorithm, task, rounds=1, compute=compute, workers=2)
        for compute in ("inline", "pool")
    )
    assert np.array_equal(one.model, two.model)

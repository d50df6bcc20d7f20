"""Modules that compute their own loss from a dict, `collate_fn`, and columns that a module does not take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedpace
from fedpace.errors import ConfigError
from fedpace.local import SGD
from fedpace.tasks import from_torch

LENGTHS = (3, 1, 4, 2, 5, 2)


@dataclass
class Output:
    """What Hugging Face's models return: fields by name."""

    loss: Tensor | None
    logits: Tensor


class Classifier(nn.Module):
    """Mean of embedded tokens, as `transformers` would have it: forward(input_ids, attention_mask, labels)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 4), nn.Linear(4, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None) -> Output:
        weights = attention_mask / attention_mask.sum(1, keepdim=True)
        scores = self.head((self.embed(input_ids) * weights.unsqueeze(-1)).sum(1))
        loss = None if labels is None else nn.functional.cross_entropy(scores, labels)
        return Output(loss, scores)


class InDict(Classifier):
    """The same in a dictionary."""

    def forward(self, **batch: Tensor) -> dict[str, Any]:  # type: ignore[override]
        return vars(super().forward(**batch))


def sentences(seed: int) -> list[dict[str, Any]]:
    """Of different lengths, with a column that no model takes."""
    rng = np.random.default_rng(seed)
    return [
        {"input_ids": rng.integers(1, 20, n).tolist(), "labels": int(rng.integers(2)), "text": f"line {n}"}
        for n in LENGTHS
    ]


def padded(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
    longest = max(len(sample["input_ids"]) for sample in samples)
    ids = [sample["input_ids"] + [0] * (longest - len(sample["input_ids"])) for sample in samples]
    mask = [[1.0] * len(s["input_ids"]) + [0.0] * (longest - len(s["input_ids"])) for s in samples]
    labels = [sample["labels"] for sample in samples]
    return {
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(mask),
        "labels": torch.tensor(labels),
    }


def model(kind: type[nn.Module] = Classifier) -> nn.Module:
    torch.manual_seed(0)
    return kind()


def task(loss: Any = None, kind: type[nn.Module] = Classifier, **more: Any) -> fedpace.tasks.OwnTask:
    clients = [sentences(seed) for seed in range(3)]
    return from_torch(model(kind), loss, clients, sentences(9), collate_fn=padded, **more)


@pytest.mark.parametrize("kind", [Classifier, InDict])
def test_the_loss_that_the_module_returns_is_minimised(kind: type[nn.Module]) -> None:
    """One full-batch step is the gradient of `output.loss`."""
    made = task(kind=kind)
    delta = made.solve(made_request(made))
    by_hand = model(kind)
    output = by_hand(**padded(sentences(0)))
    (output["loss"] if isinstance(output, dict) else output.loss).backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in by_hand.parameters()])
    np.testing.assert_allclose(delta, -0.1 * gradient.numpy(), atol=1e-6)


def made_request(made: fedpace.tasks.OwnTask) -> Any:
    from fedpace.compute.protocol import Request

    return Request(0, 0, made.initial(0), 0, SGD(0.1, steps=1, batch_size=None), 1, seed=0, data=0)


def test_loss_and_accuracy_are_those_of_the_module() -> None:
    made = task()
    measured = made.evaluate(made.initial(0))
    with torch.no_grad():
        output = model().eval()(**padded(sentences(9)))
    labels = padded(sentences(9))["labels"]
    assert measured["loss"] == pytest.approx(float(output.loss), rel=1e-6)
    assert measured["accuracy"] == float((output.logits.argmax(1) == labels).double().mean())


def test_a_run_is_the_same_with_workers_and_after_a_journey(tmp_path) -> None:
    import cloudpickle

    rule = fedpace.algorithms.fedavg(client_lr=0.1, epochs=1, batch_size=2)
    here = fedpace.simulate(rule, task(), rounds=2)
    there = fedpace.simulate(
        rule, cloudpickle.loads(cloudpickle.dumps(task())), rounds=2, compute="pool", workers=2
    )
    np.testing.assert_array_equal(here.model, there.model)
    assert here.history == there.history and here.metrics["loss"] < here.initial_metrics["loss"]


def test_metrics_see_the_logits() -> None:
    def first_class(outputs: Tensor, targets: Tensor) -> float:
        assert outputs.shape == (len(targets), 2)
        return float((outputs.argmax(1) == 0).double().mean())

    assert 0 <= task(metrics={"first": first_class}).evaluate(task().initial(0))["first"] <= 1


class Silent(Classifier):
    """Returns no loss."""

    def forward(self, input_ids, attention_mask, labels=None):  # type: ignore[no-untyped-def]
        return super().forward(input_ids, attention_mask)


def test_a_module_without_a_loss_and_samples_without_names_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model must return its loss, one number, as output\.loss"):
        task(kind=Silent)
    pair = (torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(ConfigError, match="batches must be dicts, which the module takes by keyword"):
        from_torch(nn.Linear(2, 2), None, [pair], pair)


def test_a_collate_function_makes_the_batches_of_a_loss_of_ones_own() -> None:
    """The module's own loss and the same loss by hand: the same numbers."""

    def by_hand(output: Output, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output.logits, target)

    made = task(by_hand)
    np.testing.assert_array_equal(made.solve(made_request(made)), task().solve(made_request(task())))


def test_a_collate_function_is_part_of_what_identifies_a_task() -> None:
    assert repr(task()) == repr(task())

    def other(samples: list[dict[str, Any]]) -> dict[str, Tensor]:
        return padded(samples[::-1])

    changed = from_torch(model(), None, [sentences(s) for s in range(3)], sentences(9), collate_fn=other)
    assert repr(changed) != repr(task())


def test_it_applies_to_pairs_of_tensors_too() -> None:
    x, y = torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1])

    def doubled(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return 2 * torch.stack([s[0] for s in samples]), torch.stack([s[1] for s in samples])

    torch.manual_seed(0)
    made = from_torch(nn.Linear(2, 2), nn.CrossEntropyLoss(), [(x, y)], (x, y), collate_fn=doubled)
    torch.manual_seed(0)
    same = from_torch(nn.Linear(2, 2), nn.CrossEntropyLoss(), [(2 * x, y)], (2 * x, y))
    assert made.evaluate(made.initial(0)) == pytest.approx(same.evaluate(same.initial(0)))


def test_samples_of_different_lengths_are_told_to_need_one() -> None:
    ragged = [{"x": list(range(n)), "labels": 0} for n in (1, 2)]
    with pytest.raises(ConfigError, match="samples must make a batch, or collate_fn must make it"):
        from_torch(nn.Linear(1, 1), nn.MSELoss(), [ragged], ragged)


def test_columns_that_a_module_does_not_take_are_left_out() -> None:
    class Named(nn.Linear):
        def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
            return scale * super().forward(x)

    samples = [{"x": torch.ones(2) * k, "writer": k, "label": k % 2} for k in range(4)]
    made = from_torch(Named(2, 2), nn.CrossEntropyLoss(), [samples], samples)
    assert set(made.evaluate(made.initial(0))) == {"loss", "accuracy"}


def test_metrics_of_outputs_that_cannot_be_joined_are_left_out_with_a_warning() -> None:
    from fedpace.tasks.whole import WholeMetrics

    seen = WholeMetrics({"share": lambda outputs, targets: 1.0})
    for width in (2, 3):
        seen.see(torch.zeros(1, width), torch.zeros(1))
    with pytest.warns(UserWarning, match="metrics share are left out: .* different shapes"):
        assert seen.values() == {}

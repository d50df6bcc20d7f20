"""Hugging Face's `datasets` as they are: one table per client, in whatever format they have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fedpace
from fedpace.errors import ConfigError
from fedpace.tasks import from_torch
from fedpace.tasks.hugging_face import is_hugging_face


@pytest.fixture
def datasets() -> Any:
    return pytest.importorskip("datasets", reason="needs the extra fedpace[datasets]")


class Table:
    """What is relied on of a `datasets.Dataset`, where the library is not installed."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns, self.features, self.column_names = columns, dict(columns), list(columns)

    def __len__(self) -> int:
        return len(self.columns["label"])

    def __getitem__(self, rows: list[int]) -> dict[str, list[Any]]:
        return {name: [column[row] for row in rows] for name, column in self.columns.items()}

    def with_format(self, kind: str) -> Table:
        return self


class Scores(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


def rows(seed: int, count: int = 12) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=(count, 3)).round(3).tolist(),
        "label": rng.integers(2, size=count).tolist(),
        "text": [f"line {k}" for k in range(count)],
    }


def tensors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(rows(seed)["x"]), torch.tensor(rows(seed)["label"])


def task(clients: list[Any], test: Any, **more: Any) -> fedpace.tasks.OwnTask:
    torch.manual_seed(0)
    return from_torch(Scores(3, 2), nn.CrossEntropyLoss(), clients, test, **more)


def test_rows_are_fetched_many_at_a_time_and_text_is_left_out() -> None:
    made, same = task([Table(rows(0))], Table(rows(1))), task([tensors(0)], tensors(1))
    assert made.evaluate(made.initial(0)) == pytest.approx(same.evaluate(same.initial(0)))
    with pytest.raises(ConfigError, match="got 'one Table'"):
        task(Table(rows(0)), Table(rows(1)))  # type: ignore[arg-type]
    ragged = Table({"x": [[1.0], [1.0, 2.0]], "label": [0, 1]})
    with pytest.raises(
        ConfigError, match="column x of a data set must be numbers of one shape; .*collate_fn"
    ):
        task([ragged], ragged)


@pytest.mark.parametrize("form", [None, "torch", "numpy"])
def test_they_are_trained_on_like_tensors(datasets: Any, form: str | None) -> None:
    """Whatever their format; columns of text are left out."""
    sets = [datasets.Dataset.from_dict(rows(seed)).with_format(form) for seed in range(3)]
    rule = fedpace.algorithms.fedavg(client_lr=0.1, epochs=1, batch_size=4)
    run = fedpace.simulate(rule, task(sets[:2], sets[2]), rounds=2)
    same = fedpace.simulate(rule, task([tensors(0), tensors(1)], tensors(2)), rounds=2)
    np.testing.assert_allclose(run.model, same.model, atol=1e-6)
    assert run.metrics["accuracy"] == same.metrics["accuracy"]


def test_a_transform_of_the_data_set_is_applied(datasets: Any) -> None:
    def doubled(batch: dict[str, Any]) -> dict[str, Any]:
        return {"x": 2 * torch.tensor(batch["x"]), "label": torch.tensor(batch["label"])}

    found = datasets.Dataset.from_dict(rows(0)).with_transform(doubled)
    x, y = tensors(0)
    made, same = task([found], found), task([(2 * x, y)], (2 * x, y))
    assert made.evaluate(made.initial(0)) == pytest.approx(same.evaluate(same.initial(0)))


def test_a_collate_function_gets_rows(datasets: Any) -> None:
    found = datasets.Dataset.from_dict(rows(0))

    def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        assert set(samples[0]) == {"x", "label", "text"}
        return {
            "x": torch.tensor([s["x"] for s in samples]),
            "labels": torch.tensor([s["label"] for s in samples]),
        }

    made, plain = task([found], found, collate_fn=collate), task([found], found)
    assert made.evaluate(made.initial(0)) == plain.evaluate(plain.initial(0))


def test_train_and_test_of_a_client_and_mistakes(datasets: Any) -> None:
    split = datasets.Dataset.from_dict(rows(0)).train_test_split(test_size=0.25, seed=0)
    made = task([(split["train"], split["test"])], split["test"])
    assert made.sizes == (9,) and len(made.client_tests[0]) == 3
    with pytest.raises(ConfigError, match="got 'one Dataset'"):
        task(split["train"], split["test"])
    with pytest.raises(ConfigError, match=r"list\(clients.values\(\)\); got 'DatasetDict'"):
        task(split, split["test"])
    ragged = datasets.Dataset.from_dict({"x": [[1.0], [1.0, 2.0]], "label": [0, 1]})
    with pytest.raises(
        ConfigError, match="column x of a data set must be numbers of one shape; .*collate_fn"
    ):
        task([ragged], ragged)
    stream = datasets.Dataset.from_dict(rows(0)).to_iterable_dataset()
    assert not is_hugging_face(stream)
    with pytest.raises(ConfigError, match="must be a map-style data set"):
        task([stream], stream)

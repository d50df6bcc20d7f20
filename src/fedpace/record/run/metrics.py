"""Which metric counts, and which way it is better."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fedpace.errors import require

RISING = {"f1", "auc", "auroc", "auprc", "precision", "recall", "r2", "iou", "dice", "bleu", "mcc", "ndcg"}


def rises(metric: str) -> bool:
    """Accuracy, F1, AUC and others of their kind are maximised, every other metric (losses, errors) is minimised."""
    words = re.split(r"[^a-z0-9]+", metric.lower())
    return any(word in RISING or word.startswith("acc") for word in words)


def main_metric(known: Mapping[str, float]) -> str:
    """The metric to compare by where none is named."""
    require(len(known) > 0, "metrics of the task", [], "at least one")
    return next((name for name in ("accuracy", "loss") if name in known), next(iter(known)))

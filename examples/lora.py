"""Federated LoRA: `peft` adapters on a `transformers` model, and only the adapters travel.

    pip install 'fedpace[lora]'
    python examples/lora.py

The model is a small GPT-2, randomly initialised: nothing is downloaded. Four clients learn to continue sequences that
count upwards, each in steps of its own.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional as F

import fedpace

TOKENS, LENGTH = 32, 12


def model() -> torch.nn.Module:
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = GPT2Config(
        vocab_size=TOKENS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    lora = LoraConfig(r=4, lora_alpha=16, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)
    return get_peft_model(GPT2LMHeadModel(sizes), lora)


def sequences(step: int, count: int = 64) -> list[dict[str, Tensor]]:
    """Sequences as Hugging Face's data sets have them: inputs by name, and the labels."""
    first = torch.arange(count) % TOKENS
    tokens = (first[:, None] + step * torch.arange(LENGTH + 1)) % TOKENS
    return [{"input_ids": row[:-1], "labels": row[1:]} for row in tokens]


def loss(output: object, labels: Tensor) -> Tensor:
    return F.cross_entropy(output.logits.transpose(1, 2), labels)  # type: ignore[attr-defined]


def main() -> None:
    torch.set_num_threads(1)
    adapted = model()
    everything = sum(p.numel() for p in adapted.parameters())
    clients = [sequences(step) for step in (1, 2, 3, 4)]
    test = [sample for data in clients for sample in data[::8]]
    task = fedpace.tasks.from_torch(adapted, loss, clients, test, trainable="lora_*")
    print(f"communicated: {task.layout.size:,} of {everything:,} parameters")
    print(f"before: loss {task.evaluate(task.initial(0))['loss']:.2f}")
    algorithm = fedpace.algorithms.fedadam(client_lr=0.5, steps=5, batch_size=16, server_lr=0.02)
    run = fedpace.simulate(algorithm, task, rounds=20, evaluate_every=20)
    print(f"after {run.history[-1].version} steps: loss {run.history[-1].metrics['loss']:.2f}")


if __name__ == "__main__":
    try:
        main()
    except ImportError as missing:
        sys.exit(f"this example needs fedpace[lora]: {missing}")

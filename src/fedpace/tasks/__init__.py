"""Data of all clients and a model: everything an experiment trains.

    quadratics   exact quadratics in float64, the laboratory
    load         data sets, partitions and networks by name
    from_torch   your own module and data
    ModelOnly    your own module alone: what a server of a deployment has

Torch is imported when `load` or `from_torch` is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedpace.on_demand import importing
from fedpace.tasks.partition import PARTITIONS
from fedpace.tasks.quadratics import Quadratics, quadratics

if TYPE_CHECKING:
    from fedpace.tasks.model_only import ModelOnly
    from fedpace.tasks.named import LoadedTask, load
    from fedpace.tasks.own import OwnTask, from_torch
    from fedpace.tasks.torch_task import TorchTask

__all__ = [
    "MODELS",
    "OUTSIDE",
    "PARTITIONS",
    "TASKS",
    "LoadedTask",
    "ModelOnly",
    "OwnTask",
    "Quadratics",
    "TorchTask",
    "from_torch",
    "load",
    "quadratics",
]

TASKS = {
    "digits": "1,797 handwritten digits, 8x8, 10 classes; part of scikit-learn, no download",
    "synthetic": "FedProx's synthetic(1, 1), one device per client, 10 classes; or synthetic:ALPHA,BETA",
    "mnist": "70,000 handwritten digits, 28x28, 10 classes",
    "fashion-mnist": "70,000 articles of clothing, 28x28, 10 classes",
    "cifar10": "60,000 photographs, 32x32 in colour, 10 classes",
    "cifar100": "60,000 photographs, 32x32 in colour, 100 classes",
    "shakespeare": "next character in Shakespeare's plays, split by speaking role",
}

OUTSIDE = {
    "folder:PATH": "folder with one file per client, .npz (x, y) or .csv, and test.npz or test.csv",
    "leaf:PATH": "data in LEAF's JSON format, e.g. FEMNIST: folder with train and test",
}

MODELS = {
    "softmax": "multinomial logistic regression: convex",
    "mlp": "one hidden layer: 784-200-10, on digits 64-32-10; mlp:64 for another width",
    "cnn": "DeFedAvg's: 5x5 convolutions of 32 and 64 channels, 512 units; cnn:8 for a quarter of each",
    "cnn_ca2fl": "CA2FL's: padded 5x5 convolutions, 512 and 128 units",
    "resnet18": "ResNet-18 for small images, BatchNorm; resnet18_gn with GroupNorm",
    "resnet20": "ResNet-20 for small images, BatchNorm; resnet20_gn with GroupNorm",
    "vgg11": "VGG-11 for 32x32 images, no normalisation; vgg11_bn, vgg11_gn; vgg11:16 for a quarter of the channels",
    "gru": "one recurrent layer over characters; gru:256 for another width",
    "transformer": "two causal attention layers over characters; transformer:128 for another width",
}

_HOMES = {
    "model_only": ("ModelOnly",),
    "named": ("LoadedTask", "load"),
    "own": ("OwnTask", "from_torch"),
    "torch_task": ("TorchTask",),
}

__getattr__, __dir__ = importing(__name__, _HOMES)

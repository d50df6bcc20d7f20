"""What there is to load, in a line each."""

from __future__ import annotations

TASKS = {
    "digits": "1,797 handwritten digits, 8x8, 10 classes; inside scikit-learn, nothing to download",
    "synthetic": "FedProx's synthetic(1, 1), one device per client, 10 classes; synthetic:ALPHA,BETA for others",
    "mnist": "70,000 handwritten digits, 28x28, 10 classes",
    "fashion-mnist": "70,000 articles of clothing, 28x28, 10 classes",
    "cifar10": "60,000 photographs, 32x32 in colour, 10 classes",
    "cifar100": "60,000 photographs, 32x32 in colour, 100 classes",
    "shakespeare": "next character in Shakespeare's plays, split by speaking role",
}

MODELS = {
    "softmax": "multinomial logistic regression: convex",
    "mlp": "one hidden layer: 784-200-10, on digits 64-32-10; mlp:64 for another width",
    "cnn": "DeFedAvg's: 5x5 convolutions of 32 and 64 channels, 512 units",
    "cnn_ca2fl": "CA2FL's: padded 5x5 convolutions, 512 and 128 units",
    "resnet18": "ResNet-18 for small images, BatchNorm; resnet18_gn with GroupNorm",
    "resnet20": "ResNet-20 for small images, BatchNorm; resnet20_gn with GroupNorm",
    "vgg11": "VGG-11 for 32x32 images, no normalisation; vgg11_bn, vgg11_gn",
    "gru": "one recurrent layer over characters; gru:256 for another width",
    "transformer": "two causal attention layers over characters; transformer:128 for another width",
}

"""This client's part of the study: the model, the loss and its own data."""

from sklearn.datasets import load_digits
from torch import float32, nn, tensor

loss = nn.CrossEntropyLoss()


def model():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def data(client):
    """Put your own in its place. Here: every client knows mostly four of the ten digits."""
    x, y = load_digits(return_X_y=True)
    favoured = (y - 2 * client) % 10 < 4
    mine = [at for at in range(len(y)) if at % (4 if favoured[at] else 40) == client % 4]
    inputs, targets = tensor(x[mine], dtype=float32) / 16, tensor(y[mine])
    return (inputs[30:], targets[30:]), (inputs[:30], targets[:30])

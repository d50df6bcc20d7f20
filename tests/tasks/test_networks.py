"""The networks have the sizes the papers and the specification give."""

import numpy as np
import pytest
import torch

from fedpace.errors import ConfigError
from fedpace.tasks import MODELS, networks
from fedpace.tasks.networks import build

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


def made(model, shape, classes=10, seed=0):
    return build(model, networks.IMAGES, shape, classes, seed)


def size(network):
    return sum(p.numel() for p in network.parameters())


@pytest.mark.parametrize(
    ("model", "shape", "parameters"),
    [
        ("softmax", GREY, 784 * 10 + 10),
        ("mlp", GREY, 785 * 200 + 201 * 10),
        ("mlp:64", GREY, 785 * 64 + 65 * 10),
        ("mlp", (1, 8, 8), 65 * 32 + 33 * 10),
        ("cnn", GREY, 582_026),
        ("cnn", COLOUR, 878_538),
        ("cnn:32", GREY, 582_026),
        ("cnn:8", GREY, (25 + 1) * 8 + (25 * 8 + 1) * 16 + (256 + 1) * 128 + 129 * 10),
        ("cnn_ca2fl", COLOUR, 2_218_314),
        ("resnet18", COLOUR, 11_173_962),
        ("resnet20", COLOUR, 269_722),
        ("vgg11", COLOUR, 9_750_922),
        ("vgg11:64", COLOUR, 9_750_922),
        ("vgg11:16", COLOUR, 611_434),
    ],
)
def test_parameter_counts(model, shape, parameters):
    assert size(made(model, shape)) == parameters


@pytest.mark.parametrize("model", ["resnet18", "resnet20", "vgg11"])
def test_group_norm_variants_have_no_statistics_and_as_many_parameters_as_batch_norm(model):
    batch = made("vgg11_bn" if model == "vgg11" else model, COLOUR)
    group = made(f"{model}_gn", COLOUR)
    assert size(group) == size(batch)
    assert list(group.buffers()) == [] and list(batch.buffers()) != []


def test_initialisation_of_the_ca2fl_network():
    """Kaiming-normal weights (deviation sqrt(2 / fan in)) and zero biases, but in the last layer."""
    network = made("cnn_ca2fl", COLOUR)
    weight = network.hidden[0].weight
    # 2,097,152 draws: the deviation is within 5 standard errors of sqrt(2 / 4096)
    expected = (2 / 4096) ** 0.5
    assert abs(float(weight.detach().std()) - expected) < 5 * expected / (2 * weight.numel()) ** 0.5
    assert all(
        float(b.detach().abs().max()) == 0 for n, b in network.hidden.named_parameters() if n.endswith("bias")
    )
    assert float(network.output.bias.detach().abs().max()) > 0


@pytest.mark.parametrize("model", sorted(networks.IMAGES))
def test_every_image_network_takes_a_batch_and_follows_the_seed(model):
    network = made(model, COLOUR, classes=7).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, *COLOUR)).shape == (2, 7)
    again, other = made(model, COLOUR, 7), made(model, COLOUR, 7, seed=1)
    assert all(map(torch.equal, network.parameters(), again.parameters()))
    assert not all(map(torch.equal, network.parameters(), other.parameters()))


@pytest.mark.parametrize("model", ["gru", "gru:16", "transformer", "transformer:32"])
def test_character_networks_see_no_character_before_they_predict_it(model):
    network = build(model, networks.TEXT, (80,), 65, 0).eval()
    codes = torch.from_numpy(np.random.default_rng(0).integers(0, 65, (2, 80)))
    changed = codes.clone()
    changed[:, 40] = (changed[:, 40] + 1) % 65
    with torch.no_grad():
        before, after = network(codes), network(changed)
    assert before.shape == (2, 65, 80)
    assert torch.equal(before[:, :, :40], after[:, :, :40])
    assert not torch.equal(before[:, :, 40], after[:, :, 40])


def test_building_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    made("cnn", GREY)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_every_network_has_a_line_of_description():
    described = set(MODELS)
    for name in {*networks.IMAGES, *networks.TEXT}:
        assert name in described or any(name in line for line in MODELS.values())


@pytest.mark.parametrize(
    ("model", "shape", "line"),
    [
        ("mpl", GREY, "did you mean mlp. model must be one of .*; got 'mpl'"),
        ("mlp:x", GREY, "model must be a name, or mlp, .*, vgg11_gn with a width .mlp:64.; got 'mlp:x'"),
        (
            "cnn_ca2fl:3",
            GREY,
            "model must be a name, or mlp, .*, vgg11_gn with a width .mlp:64.; got 'cnn_ca2fl:3'",
        ),
        ("cnn", (1, 8, 8), r"model cnn does not fit inputs of shape \(1, 8, 8\) "),
        ("vgg11", GREY, r"model vgg11 does not fit inputs of shape \(1, 28, 28\) "),
    ],
)
def test_a_network_that_does_not_fit(model, shape, line):
    with pytest.raises(ConfigError, match=f"^{line}") as error:
        made(model, shape)
    assert "\n" not in str(error.value)

"""Memories on disk: the same bits, places used again, nothing left behind."""

import gc
import os

import numpy as np
import pytest

import fedpace
from fedpace import algorithms
from fedpace.errors import ConfigError
from fedpace.link.uplinks.error_feedback import Memory
from fedpace.spill import PART, Slab, plus
from fedpace.tasks import quadratics

TASK = quadratics(np.random.default_rng(0).normal(size=(6, 1000)))


@pytest.mark.parametrize(
    "algorithm",
    [
        algorithms.scaffold(clients_per_round=3, steps=2),
        algorithms.fednova_vr(steps=[1, 2, 3, 4, 5, 6]),
        algorithms.fedcams(clients_per_round=3, steps=2, codec="sign"),
        algorithms.two_way(clients_per_round=3, steps=2, memory="ef21", codec="topk:1/8"),
    ],
    ids=lambda algorithm: algorithm.name,
)
def test_memories_on_disk_change_no_bit(algorithm, tmp_path):
    spilled = fedpace.simulate(algorithm, TASK, rounds=12, spill=str(tmp_path), evaluate_every=None)
    assert np.array_equal(spilled.model, fedpace.simulate(algorithm, TASK, rounds=12).model)
    assert os.listdir(tmp_path) == []


def test_long_vectors_go_to_disk_and_short_ones_stay(tmp_path):
    slab, long, short = Slab(str(tmp_path)), np.arange(1000.0), np.arange(3.0)
    kept = slab.keep(Memory(long))
    assert isinstance(kept.e, np.memmap) and np.array_equal(kept.e, long)
    assert slab.keep(short) is short and slab.keep("text") == "text"
    with pytest.raises(ValueError, match="read-only"):
        kept.e[0] = 1


def test_a_place_is_used_again_when_nobody_holds_its_vector(tmp_path):
    slab = Slab(str(tmp_path), rows=2)
    for k in range(50):
        kept = slab.keep(np.full(1000, float(k)))
        assert kept[0] == k
    del kept
    gc.collect()
    assert sum(map(len, slab._free.values())) == 2


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="spill must be a folder that exists"):
        Slab("no/such/folder")


def test_a_long_vector_on_disk_is_added_in_parts(tmp_path):
    kept = np.random.default_rng(0).normal(size=PART + 5).astype(np.float32)
    v = kept[::-1].copy()
    np.testing.assert_array_equal(plus(v, Slab(str(tmp_path), rows=1).keep(kept)), v + kept)

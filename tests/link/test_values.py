"""Numbers on the wire: rounding, saturation, and what is refused."""

import numpy as np
import pytest

from fedpace.errors import ConfigError, FrameError
from fedpace.link import Dense, NonFiniteError, ScaledSign, TopK
from fedpace.link.wire import frame as wire
from fedpace.link.wire.values import as_sent

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dense_sends_the_vector_itself_and_reads_it_without_a_copy(dtype):
    v = np.array([1 / 3, -0.0, 5e-324, 1e30]).astype(dtype)
    frame = Dense().encode(v, RNG)
    back = Dense().decode(frame, v.size)
    assert len(frame) == 20 + v.nbytes
    assert back.dtype == v.dtype and back.tobytes() == v.tobytes()
    assert not back.flags.owndata and not back.flags.writeable


def test_value_types_are_named_in_the_flags():
    """Bits 6-7: 0 fp32, or fp16 with bit 2; 1 bf16; 2 fp64."""
    v = np.ones(3)
    flags = {name: Dense(name).encode(v, RNG)[2] for name in ("fp32", "fp16", "bf16", "fp64")}
    assert flags == {"fp32": 0, "fp16": 4, "bf16": 64, "fp64": 128}
    assert Dense().encode(v.astype(np.float32), RNG)[2] == 0
    assert Dense().encode(v, RNG)[2] == 128


def test_bf16_rounds_to_nearest_and_ties_to_even():
    one = np.float32(1).view(np.uint32)
    inputs = np.array([one | 0x7FFF, one | 0x8000, one | 0x18000, one | 0x8001], np.uint32).view(np.float32)
    step = 2.0**-7
    np.testing.assert_array_equal(as_sent(inputs, "bf16"), [1, 1, 1 + 2 * step, 1 + step])


@pytest.mark.parametrize(
    "name, top", [("fp16", 65504.0), ("bf16", 2.0**127 * (2 - 2**-7)), ("fp32", 2.0**128 * (1 - 2**-24))]
)
def test_narrowing_saturates_instead_of_becoming_infinite(name, top):
    np.testing.assert_array_equal(as_sent(np.array([1e300, -1e300, 0.0]), name), [top, -top, 0])


def test_half_precision_of_a_third():
    """O8: 1/3 as fp16 decodes to .333251953125."""
    v = np.array([1 / 3])
    assert Dense("fp16").decode(Dense("fp16").encode(v, RNG), 1)[0] == 0.333251953125


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("codec", [Dense(), Dense("fp16"), Dense("bf16"), TopK(0.5, "fp16"), ScaledSign()])
def test_what_is_not_finite_never_arrives(codec, bad):
    v = np.array([1.0, bad, 2.0, 3.0])
    with pytest.raises(NonFiniteError):
        codec.decode(codec.encode(v, RNG), 4)


def test_a_codec_reads_only_the_type_it_writes():
    v = np.ones(3)
    for codec, other in ((Dense("fp16"), Dense()), (Dense(), Dense("bf16")), (Dense("fp32"), Dense("fp64"))):
        with pytest.raises(FrameError, match="values must be"):
            codec.decode(other.encode(v, RNG), 3)


def test_a_negative_scale_is_refused():
    frame = bytearray(ScaledSign("fp32").encode(np.ones(8), RNG))
    frame[23] |= 0x80
    with pytest.raises(FrameError, match="a scale is negative"):
        ScaledSign("fp32").decode(wire.sealed(bytes(frame)), 8)


def test_bad_types_fail_when_the_codec_is_built():
    with pytest.raises(
        ConfigError, match="Dense.dtype must be None or one of fp32, fp16, bf16, fp64; got 'int8'"
    ):
        Dense("int8")
    with pytest.raises(
        ConfigError, match="a vector's dtype must be float16 or float32 or float64; got int64"
    ):
        Dense().encode(np.arange(3), RNG)


def test_half_precision_vectors_travel_as_they_are():
    v = np.array([0.1, -2], np.float16)
    frame = Dense().encode(v, RNG)
    assert wire.parse(frame).flags == wire.FP16
    np.testing.assert_array_equal(Dense().decode(frame, 2), v)

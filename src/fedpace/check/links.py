"""What every codec, uplink and downlink promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from fedpace.check.purity import assert_value, guarded, pure
from fedpace.errors import FrameError
from fedpace.link.protocol import Codec, Context, Downlink, Uplink, sends_exactly
from fedpace.link.wire import frame as wire
from fedpace.link.wire.frame import Kind, ResyncError
from fedpace.vector import Layout, Vector, freeze

SIGMAS = 5  # a sound codec fails one check in about two million
CONTROL = tuple(wire.build(kind) for kind in (Kind.SKIP, Kind.RESYNC, Kind.ACK))


def check_codec(codec: Codec, *, size: int = 60, draws: int = 400, seed: int = 0) -> None:
    """Pure, exact about its cost, as good as it claims, and deaf to anything it did not write."""
    assert_value(codec)
    rng = np.random.default_rng(seed)
    for v in _vectors(size, rng):
        frame = pure(codec, "encode", v, np.random.default_rng(seed))
        again = codec.encode(v, np.random.default_rng(seed))
        assert frame == again, f"{codec}: the same vector and stream gave different bytes"
        _check_frame(codec, frame, v)
        _check_claims(codec, v, draws, rng)
        _check_entries(codec, v, rng)
    _check_not_finite(codec, size, rng)
    half = Layout.of({"a": (size // 2,), "b": (size - size // 2,)})
    v = freeze(rng.normal(size=size))
    _check_frame(codec.bind(half), codec.bind(half).encode(v, rng), v)


def check_uplink(link: Uplink, *, size: int = 40, rounds: int = 12, seed: int = 0) -> None:
    """Remembers only what was acknowledged, survives loss, and is refused without harm when malformed."""
    assert_value(link)
    rng = np.random.default_rng(seed)
    dtype = np.dtype(np.float64)
    sender, receiver = link.init(size, dtype), link.init(size, dtype)
    drift = rng.normal(size=size)
    for t in range(1, rounds + 1):
        v = freeze(drift + 0.1 * rng.normal(size=size))
        frame, after = _send(link, v, sender, t)
        assert (frame, t) == (_send(link, v, sender, t)[0], wire.parse(frame).round), (
            f"{link}: sending must not change the sender, and stamps the round"
        )
        _check_refusals(_reader(link, receiver, size), frame, str(link))
        used, heard = pure(link, "receive", frame, receiver, size)
        assert used.shape == (size,) and np.isfinite(used).all(), f"{link}: the server must get a vector"
        fate = t % 4  # 1: the frame is lost; 2: its acknowledgement is; else all is well
        receiver = receiver if fate == 1 else heard
        sender = sender if fate in (1, 2) else after
        if fate == 2:
            sender, receiver = _recover(link, v, sender, receiver, t, size)


def check_downlink(
    link: Downlink, *, size: int = 40, clients: int = 3, rounds: int = 8, seed: int = 0
) -> None:
    """Every client can follow from its bytes alone, whenever it takes a model; one that lost its copy starts afresh."""
    assert_value(link)
    rng = np.random.default_rng(seed)
    x = freeze(rng.normal(size=size))
    state, held = link.init(x, clients), dict.fromkeys(range(clients))
    for version in range(rounds):
        state = link.publish(x, version, state, rng)
        models = {}
        for client in range(clients):
            if version % (client + 1):
                continue
            frame, state = guarded(link, "send", client, x, version, state, np.random.default_rng(version))
            _check_refusals(_reader(link, held[client], size), frame, str(link))
            models[client], held[client] = pure(link, "receive", frame, held[client], size)
            assert models[client].shape == (size,) and np.isfinite(models[client]).all(), f"{link}: no model"
        same = all(np.array_equal(model, models[0]) for model in models.values())
        assert same or not link.shared, f"{link}: shared, but clients reconstructed different models"
        x = freeze(x + 0.1 * rng.normal(size=size))
    state = link.publish(x, rounds, link.forget(0, state), rng)
    frame, state = guarded(link, "send", 0, x, rounds, state, rng)
    guarded(link, "receive", frame, None, size)


# ---------------------------------------------------------------- parts


def _reader(link: Uplink | Downlink, state: object, size: int) -> Callable[[bytes], object]:
    return lambda frame: guarded(link, "receive", frame, state, size)


def _vectors(size: int, rng: np.random.Generator) -> Iterator[Vector]:
    """Ordinary, lopsided, level, half empty and zero; read-only, so that writing to one raises."""
    spike = np.zeros(size)
    spike[size // 3] = -2.0
    shapes = (
        rng.normal(size=size),
        rng.standard_cauchy(size=size),
        np.where(rng.random(size) < 0.5, 1.0, -1.0),
        spike,
        spike + 1e-3,
        np.zeros(size),
    )
    for v in shapes:
        yield freeze(v.astype(np.float32))
        yield freeze(v.copy())


def _check_frame(codec: Codec, frame: bytes, v: Vector) -> None:
    header = wire.parse(frame)
    assert (header.round, header.ref) == (0, 0), f"{codec}: round and ref are the link's to fill in"
    decoded = codec.decode(frame, v.size)
    assert decoded.shape == v.shape, f"{codec}: {v.shape} became {decoded.shape}"
    assert np.array_equal(decoded, codec.decode(frame, v.size)), f"{codec}: decoding twice differs"
    _check_refusals(lambda bad: codec.decode(bad, v.size), frame, str(codec))
    for foreign in CONTROL:
        _check_refused(lambda bad: codec.decode(bad, v.size), foreign, f"{codec}: a control frame")


def _check_refusals(read: Callable[[bytes], object], frame: bytes, whose: str) -> None:
    for length in range(len(frame)):
        _check_refused(read, wire.sealed(frame[:length]), f"{whose}: a frame cut to {length} bytes")
    _check_refused(read, wire.sealed(frame + b"\0"), f"{whose}: a frame with a byte too many")
    _check_refused(read, wire.sealed(b"\1" + frame[1:]), f"{whose}: a frame of another version")
    _check_refused(read, wire.sealed(frame[:1] + b"\x63" + frame[2:]), f"{whose}: a frame of unknown kind")
    for at in range(len(frame)):
        damaged = frame[:at] + bytes([frame[at] ^ 1 << at % 8]) + frame[at + 1 :]
        _check_refused(read, damaged, f"{whose}: a frame with a bit of byte {at} flipped")


def _check_refused(read: Callable[[bytes], object], bad: bytes, what: str) -> None:
    try:
        read(bad)
    except FrameError:
        return
    raise AssertionError(f"{what} was accepted")


def _check_not_finite(codec: Codec, size: int, rng: np.random.Generator) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        v = rng.normal(size=size)
        v[size // 2] = bad
        try:
            codec.decode(codec.encode(v, rng), size)
        except FrameError:
            continue
        raise AssertionError(f"{codec}: {bad} went through")


def _check_claims(codec: Codec, v: Vector, draws: int, rng: np.random.Generator) -> None:
    contraction, omega = (_claim(codec, name, v.size) for name in ("contraction", "omega"))
    if contraction is None and omega is None:
        return
    by_chance = _draws(codec, v, rng)
    frames = (codec.encode(v, rng) for _ in range(draws if by_chance else 1))
    errors = np.stack([codec.decode(frame, v.size) - v.astype(float) for frame in frames])
    squares = np.square(errors).sum(axis=1)
    norm2, rounding = float(np.square(v.astype(float)).sum()), float(8 * np.finfo(v.dtype).eps)
    slack = SIGMAS * squares.std() / math.sqrt(squares.size) + rounding * norm2
    for name, claim in (("contraction", contraction), ("omega", omega)):
        held = claim is None or squares.mean() <= claim * norm2 + slack
        assert held, f"{codec}: {name} {claim} claimed, {squares.mean() / norm2} seen on {v}"
    bias = float(np.linalg.norm(errors.mean(axis=0)))
    spread = math.sqrt((omega or 0.0) * norm2 / draws) if by_chance else 0.0
    allowed = SIGMAS * spread + rounding * math.sqrt(norm2)
    assert omega is None or bias <= allowed, f"{codec}: claims to be unbiased; is off by {bias} on {v}"


def _check_entries(codec: Codec, v: Vector, rng: np.random.Generator) -> None:
    """Entries that are said to arrive unchanged do, and no others arrive."""
    if not sends_exactly(codec, v.dtype):
        return
    at = codec.support(v)
    expected = np.zeros_like(v)
    expected[at] = v[at]
    assert (np.diff(at) > 0).all(), f"{codec}: the positions of support must ascend; got {at}"
    decoded = codec.decode(codec.encode(v, rng), v.size)
    assert np.array_equal(decoded, expected), (
        f"{codec}: says that entries {at} arrive unchanged; not so for {v}"
    )


def _draws(codec: Codec, v: Vector, rng: np.random.Generator) -> bool:
    """Whether encoding takes numbers from the stream."""
    before = rng.bit_generator.state
    codec.encode(v, rng)
    return bool(rng.bit_generator.state != before)


def _claim(codec: Codec, name: str, size: int) -> float | None:
    claim: float | None = getattr(codec, name, lambda size: None)(size)
    return claim


def _send(link: Uplink, v: Vector, state: object, t: int) -> tuple[bytes, object]:
    sent: tuple[bytes, object] = pure(
        link, "send", v, state, Context(t, step_norms=(1.0,)), np.random.default_rng(t)
    )
    return sent


def _recover(
    link: Uplink, v: Vector, sender: object, receiver: object, t: int, size: int
) -> tuple[object, object]:
    """The receiver may be one frame ahead of the sender: the next frame is taken, or RESYNC mends it."""
    frame, after = _send(link, v, sender, t)
    try:
        _, receiver = guarded(link, "receive", frame, receiver, size)
    except ResyncError:
        frame, after = _send(link, v, link.resync(sender), t)
        _, receiver = guarded(link, "receive", frame, receiver, size)
    return after, receiver

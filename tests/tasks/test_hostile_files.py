"""Files made to crash, to fill the memory or to wait for ever: one line each, and nothing is called."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import socket
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

from fedpace.cli import main
from fedpace.errors import ConfigError
from fedpace.tasks.datasets import bounded, catalogue, cifar, find, idx, npy, shakespeare, store
from fedpace.tasks.datasets.archive import LIMIT_MEMBERS
from fedpace.tasks.datasets.unpickle import unpickle
from tasks import forms

MNIST, CIFAR10, CIFAR100 = forms.mnist_arrays(), forms.cifar_arrays(10), forms.cifar_arrays(100)
LIMIT = 1 << 20
ZEROS = bytes(16 * LIMIT)


@pytest.fixture(autouse=True)
def small_data_sets(monkeypatch, tmp_path):
    """An empty cache, and a catalogue in which small arrays are the published data."""
    monkeypatch.setenv("FEDPACE_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, arrays in (("mnist", MNIST), ("cifar10", CIFAR10), ("cifar100", CIFAR100)):
        monkeypatch.setitem(catalogue.SOURCES, name, forms.entry(name, arrays))


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(bounded, "LIMIT_BYTES", LIMIT)
    monkeypatch.setattr(bounded, "LIMIT_ARCHIVE_BYTES", LIMIT)


def complaint(name, path, capsys):
    """What `fedpace data import` says: one line, exit code 2, nothing imported."""
    assert main(["data", "import", name, str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and not store.stored(name)
    return said.removeprefix("fedpace data: ").rstrip("\n")


# ------------------------------------------------------------ pickles


class Made:
    """Pickles as whatever call and state are wanted."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def array(kind, shape=(2,), raw=b"A" * 16):
    return Made(np.zeros(0).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, shape, kind, False, raw))


def typed(code, state):
    return Made(np.dtype, (code, False, True), state)


PLAIN_STATE = (3, "|", None, None, None, -1, -1, 0)
HIDDEN_OBJECT = typed("V8", (3, "|", None, ("x",), {"x": (np.dtype("O"), 0)}, 8, 1, 0))
BYTES = np.dtype(np.uint8)

HOSTILE = {
    "object behind flags": array(HIDDEN_OBJECT),
    "object behind the type of bytes": array(
        typed("u1", (3, "|", None, ("x",), {"x": (np.dtype("O"), 0)}, 8, 1, 0))
    ),
    "bytes of another size": array(typed("u1", (*PLAIN_STATE[:5], 8, 8, 0))),
    "bytes with flags": array(typed("u1", (*PLAIN_STATE[:7], 63))),
    "objects": array(np.dtype("O")),
    "floats": array(np.dtype("f8")),
    "shape too large": array(BYTES, (2**40,)),
    "shape that overflows": array(BYTES, (2**32, 2**32, 16)),
    "shape below zero": array(BYTES, (-4, -4)),
    "shape of nothing": array(BYTES, (0, 2**62), b""),
    "shape of text": array(BYTES, ("16",)),
    "no type": array(None),
    "not bytes": array(BYTES, (16,), [None] * 16),
    "another class": Made(np.zeros(0).__reduce__()[0], (str, (0,), b"b"), PLAIN_STATE),
    "a call of a type": Made(np.dtype, ("O8", False, True)),
    "a call of an array": Made(np.ndarray, ((2**40,),)),
    "a class": np.ndarray,
    "a type": BYTES,
    "a tuple": (1, 2),
    "a number with a point": 1.5,
    "a set": {1, 2},
    "a system call": Made(os.system, ("touch called",)),
    "a name with orders to the terminal": Made(os.system, ("\x1b[2J",)),
}


@pytest.mark.parametrize("field", [b"data", b"labels", b"filenames"])
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_value_in_any_field_is_refused(tmp_path, capsys, field, what):
    batches = forms.python_batches(CIFAR10, 10)
    whole = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 2], b"filenames": [b"a", b"b"]}
    batches["data_batch_1"] = pickle.dumps({**whole, field: HOSTILE[what]}, protocol=2)
    folder = forms.write_files(tmp_path / "py", batches)
    said = complaint("cifar10", folder, capsys)
    assert said.startswith(f"{folder}: data_batch_1 must be a pickle of plain data; it asks for ")
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8c\x05posix\x8c\x06sy\nst\x1b\x93.",  # a name made of control characters
        b"\x80\x02(" + b"(" * 100_000 + b".",
        b"\x80\x02]" + b"\x85" * 100_000 + b".",  # tuples in tuples
        b"\x80\x02]q\x00h\x00a.",  # a list that holds itself
        b"\x80\x02h\x07.",
        b"\x80\x02}]K\x01s.",  # a list as a key
        b"\x80\x02K\x01K\x02.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R.",  # never filled
        b"\x80\x02NNb.",
        b"\x80\x02NNR.",
        b"\x80\x02T\xff\xff\xff\x7fabc.",
        b"\x8e" + b"\xff" * 7 + b"\x7f.",
        b"\x80\x05\x96" + b"\xff" * 7 + b"\x7f.",
        b"I" + b"9" * 100_000 + b"\n.",
    ],
)
def test_hostile_opcodes_are_one_line(content):
    try:
        value = unpickle(content, "a pickle")
    except ConfigError as error:
        assert str(error).startswith("a pickle ") and str(error).isprintable() and len(str(error)) < 200
    else:
        assert isinstance(value, list) and value[0] is value


@pytest.mark.parametrize("labels", [None, 7, "1" * 40, b"1" * 40, [1.0] * 40, [True] * 40, [[1]] * 40])
@pytest.mark.parametrize("classes", [10, 100])
def test_labels_of_a_wrong_type(tmp_path, capsys, labels, classes):
    name, key = f"cifar{classes}", "labels" if classes == 10 else "fine_labels"
    file = cifar.TEST[classes]
    batches = forms.python_batches(CIFAR10 if classes == 10 else CIFAR100, classes)
    if labels is not None and isinstance(labels, list) and isinstance(labels[0], float):
        reason = "must be a pickle of plain data; it asks for opcode BINFLOAT"
    elif labels is None:
        reason = "must be a pickle of plain data; it asks for a NoneType in a wrong place"
    else:
        reason = f"{key} must be a list of whole numbers in 0..{classes - 1}; it is not"
    batch = {b"data": np.zeros((40, 3072), np.uint8), key.encode(): labels}
    folder = forms.write_files(tmp_path / "py", {**batches, file: pickle.dumps(batch, protocol=2)})
    assert complaint(name, folder, capsys) == f"{folder}: {file} {reason}"


# ------------------------------------------------------------ bombs

COMPRESSED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


@pytest.mark.parametrize("method", COMPRESSED)
def test_no_more_comes_out_at_a_time_than_a_block(method):
    """A few hundred bytes of bz2 are 16 MB; they are given out 1 MB at a time, and only when asked for."""
    bomb = COMPRESSED[method](ZEROS)
    assert len(bomb) < 1 << 16  # all of it goes in at once
    sizes = [len(block) for block in bounded.blocks(bounded.chunks_of(bomb), method)]
    assert max(sizes) == bounded.BLOCK_BYTES and sum(sizes) == len(ZEROS)


@pytest.mark.parametrize("method", COMPRESSED)
@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 16, (1 << 16) + 1, 1 << 18])
def test_what_is_not_a_bomb_comes_out_whole(monkeypatch, method, size):
    monkeypatch.setattr(bounded, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(bounded, "CHUNK_BYTES", 1 << 12)
    content = np.random.default_rng(size).integers(0, 7, size, dtype=np.uint8).tobytes()
    for whole in (content, bytes(size)):
        assert bounded.decompressed(COMPRESSED[method](whole), method) == whole


@pytest.mark.parametrize("method", COMPRESSED)
def test_a_compressed_file_that_is_too_large_is_refused(tmp_path, capsys, small_limits, method):
    files = forms.official("mnist", MNIST)
    bomb = COMPRESSED[method](ZEROS)
    images = files.pop("train-images-idx3-ubyte")
    folder = forms.write_files(tmp_path / "raw", {**files, f"train-images-idx3-ubyte{method}": bomb})
    assert complaint("mnist", folder, capsys) == (
        f"{folder}: train-images-idx3-ubyte{method} must hold at most 1,048,576 bytes; it holds more"
    )
    assert len(images) < LIMIT


@pytest.mark.parametrize("method", ["", *COMPRESSED])
def test_a_tar_that_is_too_large_is_refused(tmp_path, capsys, small_limits, method):
    path = tmp_path / f"all.tar{method}"
    with tarfile.open(path, f"w:{method[1:]}") as archive:
        member = tarfile.TarInfo("inside/train-images-idx3-ubyte")
        member.size = len(ZEROS)
        archive.addfile(member, io.BytesIO(ZEROS))
    assert complaint("mnist", path, capsys) == f"{path} must hold at most 1,048,576 bytes; it holds more"


def test_the_header_of_a_tar_may_be_a_bomb_too(tmp_path, capsys, small_limits):
    """An extended header is read as a whole before anything else is known."""
    member = tarfile.TarInfo("./PaxHeaders/x")
    member.type, member.size = tarfile.XHDTYPE, len(ZEROS)
    path = tmp_path / "all.tar.bz2"
    path.write_bytes(bz2.compress(member.tobuf() + ZEROS))
    assert complaint("mnist", path, capsys) == f"{path} must hold at most 1,048,576 bytes; it holds more"


def test_a_tar_of_very_many_files_is_refused(tmp_path, capsys):
    path = tmp_path / "all.tar.gz"
    path.write_bytes(gzip.compress(tarfile.TarInfo("x").tobuf() * (LIMIT_MEMBERS + 1), compresslevel=1))
    assert complaint("mnist", path, capsys) == f"{path} must have at most 10,000 files; it has more"


@pytest.mark.parametrize("method", ZIP_METHODS)
def test_a_zip_member_that_is_too_large_is_refused(tmp_path, capsys, small_limits, method):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in forms.official("mnist", MNIST).items():
            archive.writestr(f"inside/{name}", ZEROS if name.startswith("train-images") else content)
    assert complaint("mnist", path, capsys) == (
        f"{path}: {path} train-images-idx3-ubyte must hold at most 1,048,576 bytes; it holds more"
    )


@pytest.mark.parametrize("method", ZIP_METHODS[1:])
def test_a_zip_member_that_lies_about_its_size_is_refused(tmp_path, capsys, method):
    """The table of contents says 100 bytes; the data would go on for 16 MB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for part in MNIST:
            archive.writestr(f"{part}.npy", ZEROS)
    lied = buffer.getvalue().replace(len(ZEROS).to_bytes(4, "little"), (100).to_bytes(4, "little"))
    path = tmp_path / "mnist.npz"
    path.write_bytes(lied)
    assert complaint("mnist", path, capsys) == (
        f"{path}: mnist.npz x_train is damaged (its checksum does not match)"
    )


@pytest.mark.parametrize("method", ZIP_METHODS)
def test_an_npz_of_any_method_is_read(tmp_path, method):
    with zipfile.ZipFile(tmp_path / "mnist.npz", "w", method) as archive:
        for part, values in MNIST.items():
            buffer = io.BytesIO()
            np.save(buffer, values)
            archive.writestr(f"{part}.npy", buffer.getvalue())
    np.testing.assert_array_equal(find.import_data("mnist", tmp_path / "mnist.npz").x_train, MNIST["x_train"])


def made_npy(header, raw=b"", version=b"\1\0"):
    padded = header.encode() + b" " * 20 + b"\n"
    return b"\x93NUMPY" + version + len(padded).to_bytes(2, "little") + padded + raw


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be an .npy file; it starts with ''"),
        (b"\x93NUMPY\x09\0\1\0", "must be an .npy file; it starts with '934e554d50590900'"),
        (made_npy("{'descr': '|u1'}"), "must be an .npy file with type, order and shape; it is damaged"),
        (made_npy("(" * 9000), "must be an .npy file with type, order and shape; it is damaged"),
        (
            made_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (" + "1" * 60_000),
            "must be an .npy file with type, order and shape; it is damaged",
        ),
        (
            made_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,), }", b"x"),
            "must have as many values as its shape (1000000000000,) says; got 1 bytes",
        ),
        (
            made_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5), }"),
            "must have as many values as its shape (0, 5) says; got 0 bytes",
        ),
        (
            made_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", b"x"),
            "must have as many values as its shape () says; got 1 bytes",
        ),
        (
            made_npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"x"),
            "must be whole numbers in 0..255; got |O (1,)",
        ),
        (
            made_npy("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,), }", b"x" * 8),
            "must be whole numbers in 0..255; got <M8[ns] (1,)",
        ),
    ],
)
def test_hostile_headers_of_arrays(content, reason):
    with pytest.raises(ConfigError) as error:
        npy.from_npy(content, "it")
    assert str(error.value) == f"it {reason}"


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("kind", ["u1", "i1", "<u2", ">i4", "<i8"])
def test_arrays_are_read_as_numpy_reads_them(order, kind):
    values = np.asarray(np.arange(24).reshape(2, 3, 4), dtype=kind, order=order)
    buffer = io.BytesIO()
    np.save(buffer, values)
    np.testing.assert_array_equal(npy.from_npy(buffer.getvalue(), "it"), values)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\0\0\x08\0" + b"x", "it must have 1 to 4 axes; got 0"),
        (b"\0\0\x08\xff" + bytes(4 * 255), "it must have 1 to 4 axes; got 255"),
        (b"\0\0\x08\4" + b"\x80\0\0\0" * 4, f"it must hold {2**124} values; got 0"),  # 0 in 64 bits
        (b"\0\0\x08\2" + b"\xff\xff\xff\xff" + bytes(4), "it must hold some values; got 0"),
    ],
)
def test_hostile_idx(content, reason):
    with pytest.raises(ConfigError) as error:
        idx.from_idx(content, "it")
    assert str(error.value) == reason


# ------------------------------------------------------------ zip archives that are no data


def test_an_encrypted_or_unknown_zip_is_one_line(tmp_path, capsys):
    for bit, at, reason in (
        (1, 6, "must not be encrypted; it is"),
        (99, 8, "must be stored or compressed by"),
    ):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for part in MNIST:
                archive.writestr(f"{part}.npy", b"x")
        content = bytearray(buffer.getvalue())
        place = content.index(b"PK\1\2")  # the table of contents; its fields lie two bytes later
        content[at], content[place + at + 2] = bit, bit
        path = tmp_path / "mnist.npz"
        path.write_bytes(content)
        assert f"mnist.npz x_train {reason}" in complaint("mnist", path, capsys)


# ------------------------------------------------------------ pictures and their labels


def png(width, height):
    """The head of a picture of one bit per pixel; nobody gets to see the rest."""

    def chunk(kind, content):
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000)))


@pytest.mark.parametrize(
    ("width", "height"), [(1024, 60_001), (1025, 40), (12_000, 12_000), (30_000, 30_000)]
)
def test_oversized_pictures_are_refused_before_they_are_decoded(tmp_path, capsys, width, height):
    files = {**forms.png_strips(CIFAR10), "data_batch_1.png": png(width, height)}
    folder = forms.write_files(tmp_path / "png", files)
    said = complaint("cifar10", folder, capsys)
    assert said.startswith(f"{folder}: data_batch_1.png ")
    assert f"got {width} x {height}" in said or "decompression bomb" in said


def test_a_picture_of_another_format_is_none(tmp_path, capsys):
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1024 40\n%%EndComments\n"
    folder = forms.write_files(tmp_path / "png", {**forms.png_strips(CIFAR10), "data_batch_1.png": eps})
    assert complaint("cifar10", folder, capsys).startswith(f"{folder}: data_batch_1.png is damaged (")


@pytest.mark.parametrize(
    "labels",
    [b"[[1, 2], 3]", b"[1.5]", b'{"a": 1}', b'"abc"', b"[300]", b"[-1]", b"[]", b"[1e400]", b"[true]"],
)
def test_labels_that_are_none(tmp_path, capsys, labels):
    files = {**forms.png_strips(CIFAR10), "train_lables.json": labels}
    folder = forms.write_files(tmp_path / "png", files)
    assert complaint("cifar10", folder, capsys) == (
        f"{folder}: train_lables.json must be a list of whole numbers in 0..9; it is not"
    )


@pytest.mark.parametrize("labels", [b"[" * 200_000, b"[1", b"\xff\xfe", b"[" + b"9" * 5000 + b"]"])
def test_labels_that_are_no_json(tmp_path, capsys, labels):
    folder = forms.write_files(tmp_path / "png", {**forms.png_strips(CIFAR10), "train_lables.json": labels})
    assert complaint("cifar10", folder, capsys).startswith(f"{folder}: train_lables.json must be a list of")


def test_fewer_labels_than_pictures(tmp_path, capsys):
    files = {**forms.png_strips(CIFAR10), "train_lables.json": json.dumps([1] * 70).encode()}
    folder = forms.write_files(tmp_path / "png", files)
    assert complaint("cifar10", folder, capsys) == (
        f"{folder}: data_batch_2.png must have one label per image; got 40 images, labels (30,)"
    )


@pytest.mark.parametrize("shape", [(100,), (200, 2), (201,)])
def test_ragged_labels_in_an_npz(tmp_path, capsys, shape):
    path = forms.as_npz(tmp_path / "in", "cifar10", {**CIFAR10, "y_train": np.zeros(shape, np.uint8)})
    assert complaint("cifar10", path, capsys) == (
        f"{path}: y_train must have one label per image; got 200 images, labels {shape}"
    )


# ------------------------------------------------------------ texts


def test_a_text_that_is_no_play():
    for text, reason in (
        ("A:\n\u00e9\n", "must be written in 65 characters; got '\u00e9'"),
        ("", "got none"),
    ):
        with pytest.raises(ConfigError) as error:
            shakespeare.samples(text)
        assert reason in str(error.value)


# ------------------------------------------------------------ what is no file


def test_pipes_devices_and_sockets_are_refused(tmp_path, capsys):
    pipe, plug = tmp_path / "pipe", tmp_path / "plug"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(plug))
        for path in (pipe, plug, "/dev/zero"):
            assert complaint("mnist", path, capsys) == (
                f"{path} must be a file or a folder; there is a pipe or a device"
            )


def test_pipes_beside_the_data_are_not_waited_for(tmp_path, capsys):
    folder = forms.write_files(tmp_path / "raw", forms.official("mnist", MNIST))
    (folder / "train-images-idx3-ubyte").unlink()
    os.mkfifo(folder / "train-images-idx3-ubyte")
    assert "nothing of it found" in complaint("mnist", folder, capsys)


def test_a_file_too_large_to_be_data_is_not_read(tmp_path, capsys):
    folder = forms.write_files(tmp_path / "raw", forms.official("mnist", MNIST))
    with open(folder / "train-images-idx3-ubyte", "wb") as file:
        file.truncate(1 << 40)  # no block of it is on the disk
    assert "train-images-idx3-ubyte" in complaint("mnist", folder, capsys)


# ------------------------------------------------------------ the cache


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        {"arrays": []},
        {"arrays": {"x_train": 1}},
        {"arrays": {"x_train": {}}},
        {"arrays": {"x_train": {"sha256": 1, "bytes": "2", "mtime_ns": None}}},
        {"arrays": {"../../x_train": {"sha256": "0", "bytes": 0, "mtime_ns": 0}}},
        {"arrays": {}},
    ],
)
def test_a_manifest_of_another_shape(tmp_path, capsys, manifest):
    folder = forms.write_files(tmp_path / "cache" / "mnist", {"manifest.json": json.dumps(manifest).encode()})
    for words in (["data", "check", "mnist"], ["data", "show", "mnist"]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert (
            said.startswith(f"fedpace data: {folder / 'manifest.json'} is unreadable (")
            and said.count("\n") == 1
        )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY\1\0",
        made_npy("{}"),
        made_npy("(" * 9000),
        made_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999,), }"),
        made_npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"x" * 8),
    ],
)
def test_arrays_of_the_cache_that_are_none(tmp_path, capsys, content):
    folder = tmp_path / "cache" / "mnist"
    contents = dict.fromkeys((f"{part}.npy" for part in MNIST), content)
    entry = {"sha256": forms.sha256(content), "bytes": len(content), "mtime_ns": 0}
    manifest = json.dumps({"arrays": dict.fromkeys(MNIST, entry)}).encode()
    forms.write_files(folder, {**contents, "manifest.json": manifest})
    assert main(["data", "show", "mnist"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fedpace data: {folder / 'x_train.npy'} must ") and said.count("\n") == 1

"""Small data sets written in every form that can be imported, and a catalogue entry for them."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import numpy as np

from fedpace.tasks.datasets import cifar, idx
from fedpace.tasks.datasets.catalogue import Download, Source


def mnist_arrays(train=40, test=20, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x_train": rng.integers(0, 256, (train, 28, 28), dtype=np.uint8),
        "y_train": (np.arange(train) % 10).astype(np.uint8),
        "x_test": rng.integers(0, 256, (test, 28, 28), dtype=np.uint8),
        "y_test": (np.arange(test) % 10).astype(np.uint8),
    }


def cifar_arrays(classes, train=200, test=100, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x_train": rng.integers(0, 256, (train, 32, 32, 3), dtype=np.uint8),
        "y_train": (np.arange(train) % classes).astype(np.uint8),
        "x_test": rng.integers(0, 256, (test, 32, 32, 3), dtype=np.uint8),
        "y_test": (np.arange(test) % classes).astype(np.uint8),
    }


def official(name, arrays):
    """The official files of a data set of this kind."""
    if name.startswith("cifar"):
        return dict(cifar.official(arrays, 10 if name == "cifar10" else 100))
    return {file: idx.to_idx(arrays[part]) for part, file in idx.FILES.items()}


def entry(name, arrays, url="http://127.0.0.1:9", downloads=None):
    """A catalogue entry for which `arrays` are the published content."""
    contents = {file: sha256(content) for file, content in official(name, arrays).items()}
    decode = cifar.decode if name.startswith("cifar") else idx.decode
    files = downloads or {}
    return Source(
        name,
        100 if name == "cifar100" else 10,
        decode,
        contents,
        tuple(Download(file, f"sha256:{sha256(content)}", (url,)) for file, content in files.items()),
    )


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def write_files(folder: Path, contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def as_npz(folder: Path, name, arrays):
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", **arrays)
    return folder / f"{name}.npz"


def gzipped(contents):
    return {f"{name}.gz": gzip.compress(content) for name, content in contents.items()}


def python_batches(arrays, classes):
    """Pickled as the authors did."""
    names = cifar.BATCHES[classes]
    xs, ys = np.array_split(arrays["x_train"], len(names)), np.array_split(arrays["y_train"], len(names))
    parts = {name: python_batch(x, y, classes) for name, x, y in zip(names, xs, ys, strict=True)}
    return {**parts, cifar.TEST[classes]: python_batch(arrays["x_test"], arrays["y_test"], classes)}


def python_batch(x, y, classes):
    """Byte by byte what Python 2 and the numpy of 2009 wrote: text as strings, rows of planes, labels as a list."""
    rows = np.ascontiguousarray(x.transpose(0, 3, 1, 2).reshape(len(x), -1))
    label = b"labels" if classes == 10 else b"fine_labels"
    return b"".join(
        (
            b"\x80\x02}q\x01(",
            py2_text(b"batch_label") + b"q\x02" + py2_text(b"training batch 1 of 5") + b"q\x03",
            py2_text(label) + b"q\x04]q\x05(" + b"".join(b"K" + bytes([n]) for n in y) + b"e",
            py2_text(b"data") + b"q\x06" + py2_array(rows.tobytes(), rows.shape),
            py2_text(b"filenames") + b"q\x0e]q\x0f(",
            b"".join(py2_text(b"leptodactylus_pentadactylus_s_%06d.png" % n) for n in range(len(x))),
            b"eu.",
        )
    )


def py2_text(text):
    return b"U" + bytes([len(text)]) + text


def py2_array(raw, shape, code=b"u1", state=b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"):
    """numpy.core.multiarray._reconstruct, then the state of the array."""
    lengths = b"".join(b"J" + int(n).to_bytes(4, "little", signed=True) for n in shape)
    return b"".join(
        (
            b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t(K\x01",
            b"(" + lengths + b"t",
            b"cnumpy\ndtype\nq\n" + py2_text(code) + b"K\x00K\x01\x87Rq\x0b" + state,
            b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb",
        )
    )


def png_strips(arrays):
    """One image per row, labels in lists of their own: the form of the npm package."""
    from PIL import Image

    def png(x):
        buffer = io.BytesIO()
        Image.fromarray(x.reshape(len(x), 1024, 3)).save(buffer, format="PNG")
        return buffer.getvalue()

    strips = np.array_split(arrays["x_train"], 5)
    files = {f"data_batch_{k + 1}.png": png(strip) for k, strip in enumerate(strips)}
    files["test_batch.png"] = png(arrays["x_test"])
    files["train_lables.json"] = json.dumps(arrays["y_train"].tolist()).encode()
    files["test_lables.json"] = json.dumps(arrays["y_test"].tolist()).encode()
    return files


def as_tar(path: Path, contents):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"inside/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path

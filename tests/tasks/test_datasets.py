"""Importing, checking and caching data sets: every form, every damage, two processes at once."""

import functools
import gzip
import http.server
import json
import os
import pickle
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedpace
from fedpace.disk.home import data_cache
from fedpace.errors import ConfigError
from fedpace.tasks.datasets import catalogue, fetch, find, idx, shakespeare, store
from fedpace.tasks.datasets.bounded import decompressed
from fedpace.tasks.datasets.cifar import SUPERCLASS
from fedpace.tasks.datasets.data import Data
from fedpace.tasks.datasets.unpickle import unpickle
from tasks import forms

PARTS = ("x_train", "y_train", "x_test", "y_test")
MNIST, CIFAR10, CIFAR100 = forms.mnist_arrays(), forms.cifar_arrays(10), forms.cifar_arrays(100)


@pytest.fixture(autouse=True)
def small_data_sets(monkeypatch, tmp_path):
    """An empty cache, and a catalogue in which small arrays are the published data."""
    monkeypatch.setenv("FEDPACE_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name, arrays in (("mnist", MNIST), ("cifar10", CIFAR10), ("cifar100", CIFAR100)):
        monkeypatch.setitem(catalogue.SOURCES, name, forms.entry(name, arrays))


def assert_imports(name, path, arrays):
    data = find.import_data(name, path)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(data, part), arrays[part])
        assert isinstance(getattr(data, part), np.memmap)
    store.check(name)


# ------------------------------------------------------------------- forms


def test_idx(tmp_path):
    assert_imports("mnist", forms.write_files(tmp_path / "raw", forms.official("mnist", MNIST)), MNIST)


def test_idx_compressed_and_in_a_folder_below(tmp_path):
    files = forms.gzipped(forms.official("mnist", MNIST))
    forms.write_files(tmp_path / "all" / "deep" / "raw", files)
    assert_imports("mnist", tmp_path / "all", MNIST)


def test_idx_by_one_of_its_files(tmp_path):
    folder = forms.write_files(tmp_path / "raw", forms.gzipped(forms.official("mnist", MNIST)))
    assert_imports("mnist", folder / "t10k-labels-idx1-ubyte.gz", MNIST)


def test_idx_as_some_unpackers_name_it(tmp_path):
    files = {name.replace("-idx", ".idx"): c for name, c in forms.official("mnist", MNIST).items()}
    assert_imports("mnist", forms.write_files(tmp_path / "raw", files), MNIST)


def test_the_folder_that_fits_is_found_among_others_like_it(tmp_path):
    """A folder with Fashion-MNIST and MNIST side by side, under the same file names."""
    other = forms.official("mnist", forms.mnist_arrays(seed=1))
    forms.write_files(tmp_path / "all" / "A" / "raw", other)
    forms.write_files(tmp_path / "all" / "B" / "raw", forms.official("mnist", MNIST))
    assert_imports("mnist", tmp_path / "all", MNIST)


@pytest.mark.parametrize(("name", "arrays"), [("mnist", MNIST), ("cifar10", CIFAR10), ("cifar100", CIFAR100)])
def test_npz(tmp_path, name, arrays):
    assert_imports(name, forms.as_npz(tmp_path / "in", "any", arrays), arrays)


def test_npz_with_labels_in_a_column(tmp_path):
    kept = {**CIFAR10, "y_train": CIFAR10["y_train"][:, None].astype(np.int64)}
    assert_imports("cifar10", forms.as_npz(tmp_path / "in", "cifar10", kept), CIFAR10)


@pytest.mark.parametrize(("name", "arrays"), [("cifar10", CIFAR10), ("cifar100", CIFAR100)])
def test_cifar_binary_python_and_archived(tmp_path, name, arrays):
    binary, python = (
        forms.official(name, arrays),
        forms.python_batches(arrays, 10 if name == "cifar10" else 100),
    )
    assert_imports(name, forms.write_files(tmp_path / "bin", binary), arrays)
    assert_imports(name, forms.write_files(tmp_path / "py", python), arrays)
    assert_imports(name, forms.as_tar(tmp_path / "bin.tar.gz", binary), arrays)
    assert_imports(name, forms.as_tar(tmp_path / "py.tar.gz", python), arrays)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file, content in binary.items():
            archive.writestr(f"inside/{file}", content)
    assert_imports(name, tmp_path / "all.zip", arrays)


def test_png_strips(tmp_path):
    assert_imports("cifar10", forms.write_files(tmp_path / "png", forms.png_strips(CIFAR10)), CIFAR10)


def test_superclasses_have_five_classes_each():
    assert (np.bincount(SUPERCLASS) == 5).all() and len(SUPERCLASS) == 100


def test_files_beside_are_found_without_being_told(tmp_path):
    forms.as_npz(tmp_path / "shared" / "data", "mnist", MNIST)
    np.testing.assert_array_equal(find.find("mnist").y_train, MNIST["y_train"])


def test_installed_packages_are_found(tmp_path, monkeypatch):
    folder = forms.write_files(tmp_path / "usr", forms.gzipped(forms.official("mnist", MNIST)))
    monkeypatch.setitem(catalogue.SOURCES, "mnist", replace(catalogue.SOURCES["mnist"], installed=(folder,)))
    np.testing.assert_array_equal(find.find("mnist").y_train, MNIST["y_train"])


# ----------------------------------------------------------------- damages


def complaint(name, path):
    with pytest.raises(ConfigError) as error:
        find.import_data(name, path)
    assert not store.stored(name)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_truncated_file_is_named_with_both_checksums(tmp_path):
    files = forms.official("mnist", MNIST)
    cut = files["train-images-idx3-ubyte"][:-5]
    folder = forms.write_files(tmp_path / "raw", {**files, "train-images-idx3-ubyte": cut})
    expected, found = forms.sha256(files["train-images-idx3-ubyte"]), forms.sha256(cut)
    assert complaint("mnist", folder) == (
        f"{folder}: mnist train-images-idx3-ubyte must have sha256 {expected}; got {found}"
    )


def test_a_truncated_compressed_file_is_named_with_both_checksums(tmp_path):
    files = forms.gzipped(forms.official("mnist", MNIST))
    cut = files["train-images-idx3-ubyte.gz"][:-100]
    folder = forms.write_files(tmp_path / "raw", {**files, "train-images-idx3-ubyte.gz": cut})
    found = forms.sha256(decompressed(cut, ".gz"))
    expected = catalogue.SOURCES["mnist"].contents["train-images-idx3-ubyte"]
    assert complaint("mnist", folder).endswith(f"must have sha256 {expected}; got {found}")


def test_one_altered_pixel_in_an_npz_is_noticed(tmp_path):
    altered = MNIST["x_test"].copy()
    altered[3, 4, 5] ^= 1
    path = forms.as_npz(tmp_path / "in", "mnist", {**MNIST, "x_test": altered})
    assert f"{path}: mnist t10k-images-idx3-ubyte must have sha256" in complaint("mnist", path)


def test_one_altered_pixel_in_a_batch_is_noticed(tmp_path):
    altered = CIFAR10["x_train"].copy()
    altered[190, 4, 5, 2] ^= 1
    batches = forms.python_batches({**CIFAR10, "x_train": altered}, 10)
    folder = forms.write_files(tmp_path / "py", batches)
    assert f"{folder}: cifar10 data_batch_5.bin must have sha256" in complaint("cifar10", folder)


@pytest.mark.parametrize("keep", [0, 10, 500, -30])
def test_a_truncated_npz_is_damaged(tmp_path, keep):
    path = forms.as_npz(tmp_path / "in", "mnist", MNIST)
    path.write_bytes(path.read_bytes()[:keep])
    assert complaint("mnist", path).startswith(f"{path}: mnist.npz is damaged (")


@pytest.mark.parametrize("keep", [0, 10, 500, -30])
def test_a_truncated_archive_is_damaged(tmp_path, keep):
    path = forms.as_tar(tmp_path / "c.tar.gz", forms.official("cifar10", CIFAR10))
    path.write_bytes(path.read_bytes()[:keep])
    assert complaint("cifar10", path).startswith(str(path))


def test_a_truncated_strip_is_damaged(tmp_path):
    files = forms.png_strips(CIFAR10)
    files["data_batch_2.png"] = files["data_batch_2.png"][:-200]
    folder = forms.write_files(tmp_path / "png", files)
    assert complaint("cifar10", folder).startswith(f"{folder}: data_batch_2.png is damaged (")


def test_strips_without_labels(tmp_path):
    files = {name: c for name, c in forms.png_strips(CIFAR10).items() if not name.startswith("train_")}
    folder = forms.write_files(tmp_path / "png", files)
    assert "strips of PNG must come with train_labels.json" in complaint("cifar10", folder)


def test_an_npz_that_lacks_an_array(tmp_path):
    path = forms.as_npz(tmp_path / "in", "mnist", {k: v for k, v in MNIST.items() if k != "y_test"})
    assert complaint("mnist", path) == (
        f"{path}: mnist.npz must have x_train, y_train, x_test, y_test; it lacks y_test"
    )


def test_objects_in_an_npz_are_refused(tmp_path):
    path = forms.as_npz(tmp_path / "in", "mnist", {**MNIST, "y_test": np.array([{}], dtype=object)})
    assert complaint("mnist", path).endswith("y_test must be whole numbers in 0..255; got |O (1,)")


@pytest.mark.parametrize("path", ["nowhere", "empty"])
def test_nothing_there(tmp_path, path):
    (tmp_path / "empty").mkdir()
    assert str(tmp_path / path) in complaint("mnist", tmp_path / path)


def test_not_at_hand_says_what_to_do():
    with pytest.raises(ConfigError) as error:
        find.find("mnist")
    assert str(error.value) == (
        "mnist is not downloaded: `fedpace data get mnist` downloads it, "
        "`fedpace data import mnist PATH` takes it from a file or folder"
    )


# --------------------------------------------------------------- unpickling


class Evil:
    def __reduce__(self):
        return os.system, ("echo pwned > pwned",)


def test_a_pickle_cannot_run_anything(tmp_path):
    batches = forms.python_batches(CIFAR10, 10)
    batches["data_batch_1"] = pickle.dumps({b"data": Evil()}, protocol=2)
    folder = forms.write_files(tmp_path / "py", batches)
    assert complaint("cifar10", folder) == (
        f"{folder}: data_batch_1 must be a pickle of plain data; it asks for posix.system"
    )
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("protocol", range(2, 6))
def test_plain_data_is_read_at_any_protocol_since_the_authors(protocol):
    value = {b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"labels": [1, 2], b"name": b"\xff\x00"}
    again = unpickle(pickle.dumps(value, protocol=protocol), "a pickle")
    assert again.keys() == value.keys() and again[b"labels"] == [1, 2] and again[b"name"] == b"\xff\x00"
    np.testing.assert_array_equal(again[b"data"], value[b"data"])


@pytest.mark.parametrize("content", [b"", b"junk", pickle.dumps({b"a": 1})[:-3], b"cbuiltins\neval\n."])
def test_broken_pickles_are_one_line(content):
    with pytest.raises(ConfigError, match="^a pickle (is damaged|must be a pickle of plain data)"):
        unpickle(content, "a pickle")


# -------------------------------------------------------------------- cache


@pytest.fixture
def cached(tmp_path):
    find.import_data("mnist", forms.as_npz(tmp_path / "in", "mnist", MNIST))
    return data_cache() / "mnist"


@pytest.mark.parametrize("damage", ["cut", "altered", "gone"])
def test_a_damaged_cache_is_noticed_before_use_and_named(cached, damage):
    path = cached / "x_train.npy"
    expected, content = (
        json.loads((cached / "manifest.json").read_text())["arrays"]["x_train"]["sha256"],
        path.read_bytes(),
    )
    new = {"cut": content[:-7], "altered": content[:-1] + bytes([content[-1] ^ 1]), "gone": None}[damage]
    path.unlink()
    if new is not None:
        path.write_bytes(new)
    found = "no file" if new is None else forms.sha256(new)
    for use in (lambda: find.find("mnist"), lambda: store.check("mnist")):
        with pytest.raises(ConfigError) as error:
            use()
        assert str(error.value) == (
            f"{path} must have sha256 {expected}; got {found} (remove {cached} and import it again)"
        )


def test_importing_again_repairs_a_damaged_cache(cached, tmp_path):
    (cached / "y_train.npy").write_bytes(b"")
    find.import_data("mnist", tmp_path / "in" / "mnist.npz")
    store.check("mnist")
    assert sorted(p.name for p in data_cache().iterdir()) == [".mnist.lock", "mnist"]


def test_a_copied_cache_is_checked_once_more_and_used(cached):
    """Another time of change, the same content."""
    os.utime(cached / "x_train.npy", (1, 1))
    np.testing.assert_array_equal(find.find("mnist").x_train, MNIST["x_train"])


def test_an_interrupted_import_leaves_nothing_that_is_used(tmp_path, monkeypatch):
    def interrupted(path, text):
        raise KeyboardInterrupt

    path = forms.as_npz(tmp_path / "in", "mnist", MNIST)
    with monkeypatch.context() as patched:
        patched.setattr(store, "_write_text", interrupted)
        with pytest.raises(KeyboardInterrupt):
            find.import_data("mnist", path)
    assert not store.stored("mnist") and list(data_cache().iterdir()) == []


def test_what_a_killed_process_left_is_neither_used_nor_kept_for_ever(tmp_path):
    left = data_cache() / ".mnist.0123.part"
    left.mkdir(parents=True)
    (left / "x_train.npy").write_bytes(b"half")
    find.import_data("mnist", forms.as_npz(tmp_path / "in", "mnist", MNIST))
    assert left.exists()
    os.utime(left, (1, 1))
    find.import_data("cifar10", forms.as_npz(tmp_path / "in", "cifar10", CIFAR10))
    assert not left.exists()


def test_two_processes_may_import_at_once(tmp_path):
    """Six processes, one cache: all succeed, one folder, whole."""
    path = forms.as_npz(tmp_path / "in", "mnist", MNIST)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import forms; from pathlib import Path\n"
        "from fedpace.tasks.datasets import catalogue, find\n"
        "arrays = forms.mnist_arrays()\n"
        "catalogue.SOURCES['mnist'] = forms.entry('mnist', arrays)\n"
        "for _ in range(20): assert (find.import_data('mnist', Path(sys.argv[2])).x_train == arrays['x_train']).all()\n"
    )
    command = [sys.executable, "-c", script, str(Path(forms.__file__).parent), str(path)]
    env = {**os.environ, "PYTHONPATH": str(Path(fedpace.__file__).parents[1])}
    running = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    assert [process.communicate()[1] for process in running] == [""] * 6
    store.check("mnist")
    assert sorted(p.name for p in data_cache().iterdir()) == [".mnist.lock", "mnist"]


# ---------------------------------------------------------------- downloads


@pytest.fixture
def server(tmp_path):
    """A web server with one folder."""
    folder = tmp_path / "web"
    folder.mkdir()
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def test_downloads_come_from_the_first_source_that_has_them(server, monkeypatch):
    folder, url = server
    files = forms.gzipped(forms.official("mnist", MNIST))
    forms.write_files(folder / "mirror", files)
    entry = forms.entry("mnist", MNIST, downloads=files)
    downloads = tuple(
        catalogue.Download(d.file, d.checksum, (f"{url}/gone", f"{url}/mirror")) for d in entry.downloads
    )
    monkeypatch.setitem(catalogue.SOURCES, "mnist", replace(entry, downloads=downloads))
    said = []
    data = fetch.get("mnist", said.append)
    np.testing.assert_array_equal(data.x_train, MNIST["x_train"])
    assert said[:2] == [
        f"downloading {url}/{where}/train-images-idx3-ubyte.gz" for where in ("gone", "mirror")
    ]
    assert sorted(p.name for p in data_cache().iterdir()) == [".mnist.lock", "mnist"]
    said.clear()
    fetch.get("mnist", said.append)
    assert said == []


def test_a_download_that_is_not_as_published_is_refused(server, monkeypatch):
    folder, url = server
    files = forms.gzipped(forms.official("mnist", MNIST))
    bad = {**files, "train-images-idx3-ubyte.gz": gzip.compress(b"something else")}
    forms.write_files(folder, bad)
    monkeypatch.setitem(catalogue.SOURCES, "mnist", forms.entry("mnist", MNIST, url, files))
    with pytest.raises(ConfigError) as error:
        fetch.get("mnist")
    shown = str(error.value)
    assert shown.startswith(f"train-images-idx3-ubyte.gz could not be downloaded from {url}/train-images")
    assert forms.sha256(files["train-images-idx3-ubyte.gz"]) in shown
    assert forms.sha256(bad["train-images-idx3-ubyte.gz"]) in shown
    assert not store.stored("mnist") and list(data_cache().iterdir()) == []


def test_a_source_that_cannot_be_reached(monkeypatch):
    files = forms.gzipped(forms.official("mnist", MNIST))
    monkeypatch.setitem(catalogue.SOURCES, "mnist", forms.entry("mnist", MNIST, "http://127.0.0.1:9", files))
    with pytest.raises(ConfigError) as error:
        fetch.get("mnist")
    assert str(error.value) == (
        "train-images-idx3-ubyte.gz could not be downloaded from "
        "http://127.0.0.1:9/train-images-idx3-ubyte.gz (not reachable)"
    )


# --------------------------------------------------------------------- data


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"y_train": np.full(40, 12)}, "mnist train labels must be in 0..9; got 12"),
        ({"y_test": np.full(20, -1)}, "mnist test labels must be in 0..9; got -1"),
        (
            {"y_train": np.arange(39) % 10},
            "mnist train data must have one label per sample; got 40 samples and 39 labels",
        ),
        (
            {"x_test": np.zeros((0, 28, 28)), "y_test": np.zeros(0)},
            "mnist test data must have one label per sample; got 0 samples and 0 labels",
        ),
        (
            {"y_train": np.arange(40) % 9},
            "mnist training data must have samples of all 10 classes; none of class 9",
        ),
    ],
)
def test_unusable_data_is_refused_in_one_line(changes, line):
    with pytest.raises(ConfigError) as error:
        Data("mnist", classes=10, **{**MNIST, **changes})
    assert str(error.value) == line


# -------------------------------------------------------------- shakespeare

TEXT = "\n\n".join(
    [
        "ROMEO:\n" + "But soft, what light through yonder window breaks?\n" * 12,
        "\nJULIET:\n" + "O Romeo, Romeo! wherefore art thou Romeo?\n" * 5,
        "NURSE:\nMadam!",
        "ROMEO:\n" + "He jests at scars that never felt a wound.\n" * 3,
        "Not a speech, for no name heads it.",
    ]
)


def test_speeches_are_gathered_by_role():
    said = shakespeare.speeches(TEXT)
    assert list(said) == ["ROMEO", "JULIET", "NURSE"]
    assert said["NURSE"] == "Madam!"
    assert said["ROMEO"].count("soft") == 12 and said["ROMEO"].count("scars") == 3


def test_roles_are_cut_into_pieces_and_tested_on_the_last_fifth():
    """ROMEO has 737 characters, 9 pieces of 81: 8 to train on; JULIET 2 pieces, one each; NURSE none."""
    arrays = shakespeare.samples(TEXT)
    pieces = [len(shakespeare.windows(speech)) for speech in shakespeare.speeches(TEXT).values()]
    assert pieces == [9, 2, 0]
    assert arrays["groups_train"].tolist() == [0] * 8 + [1]
    assert arrays["groups_test"].tolist() == [0, 1]
    whole = np.concatenate([arrays["x_train"][:8], arrays["y_train"][:8, -1:]], axis=1)
    read = "".join(shakespeare.ALPHABET[code] for code in whole.ravel())
    assert shakespeare.speeches(TEXT)["ROMEO"].startswith(read)


def test_another_text_is_not_shakespeare(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(TEXT)
    assert f"{path}: shakespeare input.txt must have sha256 86c4e6aa" in complaint("shakespeare", path)
    assert "must hold shakespeare" in complaint("shakespeare", tmp_path)


# ---------------------------------------------------------- malformed content


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "it must be an idx file of bytes; it starts with ''"),
        (b"\x00\x00\x0d\x01", "it must be an idx file of bytes; it starts with '00000d01'"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x05abc", "it must hold 5 values; got 3"),
    ],
)
def test_malformed_idx(content, line):
    with pytest.raises(ConfigError) as error:
        idx.from_idx(content, "it")
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("batch", "line"),
    [
        ([1, 2], "data_batch_1 must be a pickled dict; got list"),
        ({b"data": b"x", b"labels": [1]}, "data_batch_1 must have data: bytes of shape (N, 3072); got None"),
        (
            {b"data": np.zeros((2, 5), np.uint8)},
            "data_batch_1 must have data: bytes of shape (N, 3072); got (2, 5)",
        ),
        (
            {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]},
            "data_batch_1 must have one label per image; got 2 images, labels (1,)",
        ),
        (
            {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 10]},
            "data_batch_1 labels must be a list of whole numbers in 0..9; it is not",
        ),
    ],
)
def test_malformed_batches(tmp_path, batch, line):
    batches = {**forms.python_batches(CIFAR10, 10), "data_batch_1": pickle.dumps(batch, protocol=2)}
    folder = forms.write_files(tmp_path / "py", batches)
    assert complaint("cifar10", folder) == f"{folder}: {line}"


def test_malformed_npz(tmp_path):
    path = forms.as_npz(tmp_path / "in", "cifar10", {**CIFAR10, "x_train": CIFAR10["x_train"][..., 0]})
    assert "x_train must be of shape (N, 32, 32, 3); got (200, 32, 32)" in complaint("cifar10", path)
    path = forms.as_npz(tmp_path / "in", "mnist", {**MNIST, "x_train": MNIST["x_train"] / 255})
    assert "mnist.npz x_train must be whole numbers in 0..255; got <f8 (40, 28, 28)" in complaint(
        "mnist", path
    )


def test_a_cache_without_readable_manifest(cached):
    (cached / "manifest.json").write_text("{")
    with pytest.raises(ConfigError, match="manifest.json is unreadable"):
        find.find("mnist")

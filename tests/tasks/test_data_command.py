"""fedpace data: what it prints, what it writes, how it refuses."""

import pytest

from fedpace.cli import main
from fedpace.disk.home import data_cache
from fedpace.tasks.datasets import catalogue
from tasks import forms


@pytest.fixture(autouse=True)
def small_mnist(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDPACE_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(catalogue.SOURCES, "mnist", forms.entry("mnist", forms.mnist_arrays()))


def said(capsys, *words, code=0):
    assert main(["data", *words]) == code
    captured = capsys.readouterr()
    return captured.err.strip() if code else captured.out


def test_import_check_and_list(capsys, tmp_path):
    path = forms.as_npz(tmp_path / "in", "mnist", forms.mnist_arrays())
    assert said(capsys, "import", "mnist", str(path)) == (
        "mnist: 40 training and 20 test samples, 10 classes, as published\n"
    )
    assert said(capsys, "check") == "mnist: as published\n"
    assert said(capsys, "check", "mnist") == "mnist: as published\n"
    listed = said(capsys, "list").splitlines()
    assert any(line.split()[:2] == ["mnist", "downloaded"] for line in listed)
    assert any(line.split()[:2] == ["cifar10", "-"] for line in listed)
    assert said(capsys, "get", "mnist").startswith("mnist: 40 training")


def test_show_draws_classes_by_clients(capsys, tmp_path):
    picture = tmp_path / "split.png"
    out = said(capsys, "show", "digits", "--clients", "20", "--partition", "classes:2", "-o", str(picture))
    table = [line.split() for line in out.splitlines()]
    assert ["classes", "2", "2", "2"] in table
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["import", "minst", "x"], "did you mean mnist. data set must be one of .*; got 'minst'"),
        (["import", "mnist", "x"], "x must be a file or a folder; there is none"),
        (["import", "digits", "x"], "digits is built in; it needs no download or import"),
        (["get", "digits"], "digits is built in; it needs no download or import"),
        (["check", "mnist"], "mnist is not downloaded .*"),
        (["show", "digits", "--clients", "5000"], "clients must be <= 1437 .*; got 5000"),
        (["show", "digits", "--partition", "x"], "partition must be one of .*; got 'x'"),
        (["show", "digits", "-o", "no/such/folder.png"], "--output must be a file that can be written .*"),
        (["show", "mnist"], "mnist is not downloaded: .*"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(capsys, words, line):
    import re

    shown = said(capsys, *words, code=2)
    assert re.fullmatch(f"fedpace data: {line}", shown)


def test_a_damaged_cache_fails_the_check(capsys, tmp_path):
    path = forms.as_npz(tmp_path / "in", "mnist", forms.mnist_arrays())
    said(capsys, "import", "mnist", str(path))
    (data_cache() / "mnist" / "x_test.npy").write_bytes(b"")
    assert "x_test.npy must have sha256" in said(capsys, "check", code=2)

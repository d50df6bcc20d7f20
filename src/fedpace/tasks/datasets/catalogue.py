"""The data sets that are files: where they come from, and what they must contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedpace.tasks.datasets import cifar, idx, shakespeare
from fedpace.tasks.datasets.archive import Files
from fedpace.tasks.datasets.data import Array, Verify

Decode = Callable[[Files, str, Verify], Mapping[str, Array] | None]


@dataclass(frozen=True, slots=True)
class Download:
    """A file, its checksum as published (`md5:...`, `sha256:...`), and the folders that have it."""

    file: str
    checksum: str
    folders: tuple[str, ...]

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"{folder}/{self.file}" for folder in self.folders)


@dataclass(frozen=True, slots=True)
class Source:
    """A data set that has to be fetched or imported.

    `contents` are the SHA-256 of the official, uncompressed files. Whatever form the data came in, the
    arrays are written out in the official form and must match, so an import is checked by what it means.
    """

    name: str
    classes: int
    decode: Decode
    contents: Mapping[str, str]
    downloads: tuple[Download, ...]
    installed: tuple[Path, ...] = ()  # where system packages put it


_MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
    "https://raw.githubusercontent.com/fgnt/mnist/master",
)
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
)
_CIFAR = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")
_SHAKESPEARE = ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare",)


def _idx_downloads(folders: tuple[str, ...], md5: tuple[str, ...]) -> tuple[Download, ...]:
    files = zip(idx.FILES.values(), md5, strict=True)
    return tuple(Download(f"{file}.gz", f"md5:{checksum}", folders) for file, checksum in files)


_ALL = (
    Source(
        "mnist",
        10,
        idx.decode,
        {
            "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
        _idx_downloads(
            _MNIST,
            (
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
    ),
    Source(
        "fashion-mnist",
        10,
        idx.decode,
        {
            "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
        _idx_downloads(
            _FASHION,
            (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
        installed=(Path("/usr/share/datasets/fashion-mnist"),),  # Debian's dataset-fashion-mnist
    ),
    Source(
        "cifar10",
        10,
        cifar.decode,
        {
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        },
        (
            Download(
                "cifar-10-binary.tar.gz",
                "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                _CIFAR,
            ),
        ),
    ),
    Source(
        "cifar100",
        100,
        cifar.decode,
        {
            "train.bin": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
            "test.bin": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
        },
        (
            Download(
                "cifar-100-binary.tar.gz",
                "sha256:58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                _CIFAR,
            ),
        ),
    ),
    Source(
        "shakespeare",
        len(shakespeare.ALPHABET),
        shakespeare.decode,
        {"input.txt": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
        (
            Download(
                "input.txt",
                "sha256:86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
                _SHAKESPEARE,
            ),
        ),
    ),
)

SOURCES: dict[str, Source] = {source.name: source for source in _ALL}

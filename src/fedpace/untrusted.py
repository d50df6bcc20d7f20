"""What comes from elsewhere: files that may be pipes or devices, text that may be orders to a terminal."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: str | Path) -> BinaryIO:
    """A regular file to read from; OSError for pipes and devices, which are neither waited for nor read."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return open(handle, "rb")


def read_regular(path: str | Path, most_bytes: int) -> bytes:
    """The content of a regular file; OSError if it is larger than anything that is expected there."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than {most_bytes:,}", str(path))
        return file.read()


def visible(text: str) -> str:
    """The text on one line, with control characters written out: `\\x1b` instead of an order to the terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)

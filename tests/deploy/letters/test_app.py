"""The two halves of a Flower app without Flower between them: the template's project, served and continued."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fedpace.cli import main
from fedpace.deploy import replay
from fedpace.deploy.flower import transport
from fedpace.deploy.flower.client import answer
from fedpace.deploy.flower.known import KnownProgram
from fedpace.deploy.flower.letters import AnswerStatus, Letter, LetterAnswer
from fedpace.deploy.flower.server import serve_on_grid
from fedpace.deploy.flower.templates import new_app
from fedpace.deploy.projects.program import Program
from fedpace.errors import ConfigError, FedpaceError
from fedpace.record.store.store import Store

SOURCE = Path(__file__).parents[3] / "src"
ALGORITHM = "fedavg(client_lr=0.1, clients_per_round=2)"
LIGHT = """\
import numpy as np
from fedpace.tasks import quadratics

def task():
    return quadratics(np.arange(12.0).reshape(4, 3))
"""


class Post:
    """Answers as the ClientApp gives them; `most` letters, then Flower is gone."""

    def __init__(self, project: Path, config: dict[str, Any], most: int = sys.maxsize) -> None:
        self.project, self.config, self.most = project, config, most
        self.waiting: dict[str, tuple[int, Letter]] = {}
        self.sent = 0

    def nodes(self) -> set[int]:
        return {10, 11, 12, 13}

    def push(self, node: int, letter: Letter) -> str:
        self.sent += 1
        if self.sent > self.most:
            raise ConnectionError("the SuperLink is gone")
        self.waiting[str(self.sent)] = (node, letter)
        return str(self.sent)

    def pull(self, letters: Iterable[str]) -> dict[str, LetterAnswer]:
        return {name: self._answer(*self.waiting.pop(name)) for name in letters}

    def _answer(self, node: int, letter: Letter) -> LetterAnswer:
        return answer(letter, self.project / "client.py", {"partition-id": node - 10}, self.config)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    new_app(tmp_path / "study")
    return tmp_path / "study"


@pytest.fixture
def light(project: Path) -> Path:
    """The project with a client.py that takes no time."""
    (project / "client.py").write_text(LIGHT, encoding="utf-8")
    return project


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    folder = str(tmp_path / "place")
    return {"name": "study", "folder": folder, "algorithm": ALGORITHM, "rounds": 2, "in-order": True}


def test_a_project_is_served_continued_and_repeated(
    light: Path, config: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(FedpaceError, match="the next `flwr run` continues after step"):
        serve_on_grid(light, Post(light, config, most=7), config, "7")
    run = serve_on_grid(light, Post(light, config), config, "8")
    place = tmp_path / "place" / "runs" / "study"
    again = replay(place, Program(light / "client.py").whole_task(4))
    assert again.run.model.tobytes() == run.model.tobytes() and again.different == ()
    assert json.loads((place / "run.json").read_bytes())["rounds"] == 2
    entry = Store().find("study")
    assert entry is not None and entry.status == "done"
    serve_on_grid(light, Post(light, config), config, "9")
    assert (place.with_name("study-2") / "run.json").exists()


def test_a_federation_that_is_too_small_is_said_to_be(
    light: Path,
    config: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two of four, until the log says that; then the others come, and the run begins."""

    class Late(Post):
        def nodes(self) -> set[int]:
            return {10, 11, 12, 13} if caplog.messages else {10, 11}

    monkeypatch.setenv("FEDPACE_HOME", config["folder"])
    monkeypatch.setattr(transport, "MISSING_S", 1.0)
    words = "2 of 2 SuperNodes have joined so far; a new run waits for 4 (wait_for in run.toml"
    for run, (post, said) in enumerate([(Late, 1), (Post, 0)]):
        assert len(serve_on_grid(light, post(light, config), config, str(run)).history) == 2
        assert capsys.readouterr().out.count(words) == said


def test_a_letter_without_training_needs_neither_torch_nor_numba_nor_the_clients_program(
    light: Path, config: dict[str, Any], tmp_path: Path
) -> None:
    """Once a client's program is known in a Flower run, what it is lies in the client's folder."""
    folder, imported = tmp_path / "place" / "clients" / "0", light / "imported"
    marked = f"{LIGHT}\n__import__('pathlib').Path(__file__).with_name('imported').touch()\n"
    (light / "client.py").write_text(marked, encoding="utf-8")
    folder.mkdir(parents=True)
    KnownProgram(light / "client.py", 0, folder, "8").initial(0)
    imported.unlink()
    assert _answered_elsewhere(light, config, Letter("8-again", 0)) == "DONE"
    assert _answered_elsewhere(light, config, Letter("8-again", 1)) == "DONE"
    assert not imported.exists()
    assert _answered_elsewhere(light, config, Letter("9-another-run", 0)) == "DONE"
    assert imported.exists()


def _answered_elsewhere(project: Path, config: dict[str, Any], letter: Letter) -> str:
    """The status of an answer that another process gives, which must need neither torch nor numba for it."""
    code = (
        "import sys, json, pathlib\n"
        "from fedpace.deploy.flower import client, letters\n"
        "project, config, link, number = json.loads(sys.argv[1])\n"
        "letter = letters.Letter(link, number)\n"
        "found = client.answer(letter, pathlib.Path(project, 'client.py'), {'client': 0}, config)\n"
        "assert {'torch', 'numba', 'sklearn', 'pandas', 'scipy'}.isdisjoint(sys.modules)\n"
        "print(found.status.name)"
    )
    about = json.dumps([str(project), config, letter.link, letter.number])
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code, about], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_node_that_does_not_say_which_client_it_is_is_refused(
    project: Path, config: dict[str, Any]
) -> None:
    for node in ({}, {"client": "0"}, {"client": -1}, {"client": True}):
        said = answer(Letter("7-a", 0), project / "client.py", node, config)
        assert said.status is AnswerStatus.REFUSED
        assert said.reason.startswith(
            "a SuperNode must say which client it is, as in --node-config 'client=0'"
        )


def test_a_nodes_owner_says_where_its_state_lies(light: Path, config: dict[str, Any], tmp_path: Path) -> None:
    own = tmp_path / "own"
    said = answer(Letter("7-a", 0), light / "client.py", {"client": 3, "folder": str(own)}, config)
    assert (said.status, said.client) == (AnswerStatus.DONE, 3)
    assert (own / "link.json").exists() and not (tmp_path / "place").exists()


def test_the_project_is_a_flower_app(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    app = about["tool"]["flwr"]["app"]
    assert app["components"] == {"serverapp": "server_app:app", "clientapp": "client_app:app"}
    assert app["config"] == {"name": "study", "folder": "", "algorithm": "", "rounds": 0, "in-order": False}
    assert about["project"]["name"] == "study"
    for half in ("server", "client"):
        text = (project / f"{half}_app.py").read_text(encoding="utf-8")
        assert f"app = {half}_app(__file__)" in text


def test_the_command_makes_one_and_says_how_to_run_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", "new", "--flower", "wards"]) == 0
    assert 'flwr run wards --stream --federation-config "num-supernodes=4"' in capsys.readouterr().out
    assert (tmp_path / "wards" / "run.toml").exists()
    assert main(["deploy", "new", "--flower", "wards"]) == 2
    assert "a folder without run.toml" in capsys.readouterr().err


def test_a_name_that_flower_would_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="letters, digits and hyphens; got 'my_study'"):
        new_app(tmp_path / "my_study")

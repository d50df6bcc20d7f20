"""What the site adds to the pages as they lie in docs/: sections, generated reference, diagrams, versions."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import reference
from shipped import MATHJAX, MERMAID

# Pages that open into others in the side bar. On a forge they are plain pages with links.
SECTIONS = {
    "theory": ["theory/*"],
    "evidence": ["results/README", "results/coverage", "results/*/README", "results/*/full"],
}
GLOB = re.compile(r"^(\S*\*\S*)\n", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#\s]+)(#[^)]*)?\)")


class Diagram(SphinxDirective):
    """A state diagram in Mermaid's language, as forges draw it too; drawn by the browser."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        text = html.escape("\n".join(self.content))
        return [nodes.raw("", f'<pre class="mermaid">\n{text}\n</pre>', format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("mermaid", Diagram)
    app.connect("config-inited", _prepare)
    app.connect("source-read", _read)
    app.connect("html-page-context", _complete)
    return {"parallel_read_safe": True}


def _prepare(app: Sphinx, _config: object) -> None:
    docs = Path(app.srcdir)
    reference.write(docs / "reference" / "generated")
    for program in (MATHJAX, MERMAID):
        program.fetch(docs / "_static")


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    docs = Path(app.srcdir)
    text = _without_links_out(source[0], docs, page).replace("```mermaid\n", "```{mermaid}\n")
    if page == app.config.root_doc:  # a section without pages yet is no error
        text = GLOB.sub(lambda match: match[0] if any(docs.glob(match[1])) else "", text)
    if page in SECTIONS:
        entries = [f"/{entry}" for entry in SECTIONS[page]]
        text += "\n".join(["\n", "```{toctree}", ":hidden:", ":glob:", "", *entries, "```", ""])
    source[0] = text


def _without_links_out(text: str, docs: Path, page: str) -> str:
    """Files of the repository that are no pages are named, not linked."""

    def shown(match: re.Match[str]) -> str:
        words, target, _ = match.groups()
        file = Path(os.path.normpath((docs / page).parent / target))
        if file.is_relative_to(docs):
            return match[0]
        path = f"`{file.relative_to(docs.parent).as_posix()}`"
        return path if words.strip("`/") in path else f"{words} ({path})"

    return LINK.sub(shown, text)


def _complete(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    file = Path(app.srcdir) / "versions.json"
    context["versions"] = json.loads(file.read_text(encoding="utf-8"))
    if '<pre class="mermaid">' in context.get("body", ""):
        app.add_js_file(MERMAID.file)
        app.add_js_file("diagrams.js")

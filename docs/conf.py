"""The site: `./scripts/docs` builds it into `site/`, and a warning fails the build."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import fedpace  # noqa: E402

# The cells of tutorials run in processes of their own, with this fedpace and a run store that nobody else sees.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
os.environ["FEDPACE_HOME"] = tempfile.mkdtemp(prefix="fedpace-docs-")
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "fedpace"
author = "The fedpace authors"
project_copyright = "The fedpace authors, Apache-2.0"
version = release = fedpace.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "site_pages",  # in _ext
]
exclude_patterns = ["_ext", "_static", "_templates", "README.md", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
suppress_warnings = ["ref.python"]  # a name that two modules have, in a signature: no link is better than one

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = os.environ.get("FEDPACE_DOCS_EXECUTE", "force")  # "off" while writing prose
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_ipywidgets_js: dict[str, str] = {}  # from a CDN otherwise
nb_merge_streams = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"

maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"fedpace {version}"
html_static_path = ["_static"]
html_css_files = ["fedpace.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = (
    False  # summaries are fetched page by page, which a browser refuses to a site on disk
)
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_theme_options = {"navigation_with_keys": True}

# One file with its glyphs and extensions inside, from the npm registry (_ext/shipped.py); nothing is loaded after it.
mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {"options": {"enableMenu": False}}

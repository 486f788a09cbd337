"""Settings of the documentation: Sphinx with MyST and furo (extra `docs`).

Built with warnings as errors by `.ci/run`: `sphinx-build -W -b html docs docs/_build`.
"""

import re

from sphinx.application import Sphinx

from refold import __version__

project = "Refold"
author = "The authors of Refold"
copyright = "2026, the authors of Refold"  # noqa: A001 - Sphinx's name
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"Refold {version}"
html_show_sourcelink = False

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "show-inheritance": False}
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_use_rtype = False
default_role = "code"  # `name` in docstrings, as in Markdown

_PAGES = {"CONTRACT": "contract", "SECURITY": "security", "ARCHITECTURE": "architecture"}
"""Documents of the repository's root that are pages here, and the pages."""


def _led_to_pages(app: Sphinx, path: str, page: str, content: list[str]) -> None:
    """Let links of an included document, which stands elsewhere, lead to the pages."""
    del app, path, page
    text = re.sub(r"\]\(docs/([\w./#-]+)\)", r"](\1)", content[0])
    for name, title in _PAGES.items():
        text = text.replace(f"]({name}.md)", f"]({title}.md)")
    content[0] = text.replace("[CONTRIBUTING.md](CONTRIBUTING.md)", "CONTRIBUTING.md")


def setup(app: Sphinx) -> None:
    """Register what is ours."""
    app.connect("include-read", _led_to_pages)

"""Sphinx configuration. Build: sphinx-build -W -b html docs docs/_build/html."""

import inspect
import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from pymc.step_methods.compound import BlockedStep

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pymc-pmala"
author = "The pymc-pmala developers"
copyright = "The pymc-pmala developers"
version = release = installed_version("pymc-pmala")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "distribution_table",
    "notebook_pictures",
]

# The inventories of other projects are fetched where there is a network and a reader to
# follow the links: elsewhere their names stay plain code.
if os.environ.get("READTHEDOCS") or os.environ.get("DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "pymc": ("https://www.pymc.io/projects/docs/en/stable", None),
    "pytensor": ("https://pytensor.readthedocs.io/en/latest", None),
    "arviz": ("https://python.arviz.org/en/stable", None),
}

exclude_patterns = ["_build", "_benchmark", "_estimates", "_hierarchies", "_paper"]
templates_path = ["_templates"]
default_role = "py:obj"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "pymc-pmala"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "pymc-pmala"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "show_toc_level": 2,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
# Pages without a section have nothing to show beside them.
html_sidebars = {"index": [], "quickstart": [], "changelog": []}


def join_continued_lines(app, what, name, obj, options, lines):
    r"""Join lines that end in a backslash, which a raw docstring keeps."""
    lines[:] = "\n".join(lines).replace("\\\n", "").split("\n")


def signature_of_step_method(app, what, name, obj, options, signature, return_annotation):
    """Show the arguments of ``__init__``: those of ``__new__`` are any."""
    if what != "class" or not issubclass(obj, BlockedStep):
        return None
    _, *others = inspect.signature(obj.__init__).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in others]
    return str(inspect.Signature(plain)), return_annotation


def setup(app):
    # Before numpydoc parses the docstring.
    app.connect("autodoc-process-docstring", join_continued_lines, priority=400)
    app.connect("autodoc-process-signature", signature_of_step_method)

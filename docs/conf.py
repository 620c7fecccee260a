"""The documentation as a site: ``sphinx-build -W --keep-going -n docs site``.

Nothing is fetched, neither while the site is built nor when it is read.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import mcage
from mcage.errors import UserError
from mcage.tracing.emulation.code_object import tool

# The tutorials call commands by their names.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
os.environ["COLUMNS"] = "80"


def compilers_are_there() -> bool:
    """Whether kernels can be compiled for AMD GPUs."""
    try:
        return all(map(tool, ("clang", "ld.lld", "llvm-objdump")))
    except UserError:
        return False


project = "mcage"
author = "The mcage maintainers"
project_copyright = f"{author}. Apache License 2.0"
release = version = mcage.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "command_reference",
    "public_names",
    "repository_files",
    "variable_reference",
]
exclude_patterns = ["_ext", "_static"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"  # docstrings say shapes and units
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_use_ivar = True  # attributes of a docstring are those that autodoc finds
nitpicky = True
# Docstrings also name what only readers of the source look at.
nitpick_ignore_regex = [("py:.*", r"(?!mcage\.\w+$).*")]
default_role = "py:obj"

# Pages are Markdown; links to headings are those that forges make.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

# The tutorials run while the site is built, each in a folder that is removed afterwards.
nb_execution_mode = "force"
# One compiles a kernel for an AMD GPU: `mcage trace emulate` says what that needs.
nb_execution_excludepatterns = [] if compilers_are_there() else ["tutorials/wrong-answers.md"]
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # by default, scripts of a distant server

html_theme = "furo"
html_title = f"mcage {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

"""Links to files ``.md`` of the repository that are no pages of the site become downloads."""

import os
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class RepositoryFiles(SphinxTransform):
    """MyST makes downloads of links to other files, but takes each ``.md`` for a page."""

    default_priority = 5
    """Before Sphinx collects what is to be downloaded."""

    def apply(self, **_: object) -> None:
        """Replace the links to pages that are none."""
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("refdomain") != "doc" or link["reftarget"] in self.env.found_docs:
                continue
            file = Path(self.env.srcdir, f"{link['reftarget']}.md")
            if file.is_file():
                target = os.path.relpath(file, folder)
                download = addnodes.download_reference(reftarget=target, refdoc=self.env.docname)
                download += link.children or nodes.literal("", target)
                link.replace_self(download)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the transform."""
    app.add_transform(RepositoryFiles)
    return {"parallel_read_safe": True}

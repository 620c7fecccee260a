"""Links between the pages in ``docs/`` and those in ``results/``, which the site has as well.

The folder ``results`` here is a link to the one beside ``docs``: pages link to each other by where
they really lie, as forges show them.
"""

import os
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

NOTES = "results"
"""Folder of the pages of measurements."""


class RepositoryFiles(SphinxTransform):
    """Gives links to pages, pictures and files their place in the site."""

    default_priority = 5
    """Before Sphinx collects pictures and what is to be downloaded."""

    def apply(self, **_: object) -> None:
        """Replace the targets of links, pictures and downloads by their paths in the site."""
        self._docs, page = Path(self.env.srcdir), self.env.docname
        really_in = Path(self.env.doc2path(page)).resolve().parent
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("refdomain") == "doc" and link["reftarget"] not in self.env.found_docs:
                self._link(link, Path(self._docs, f"{link['reftarget']}.md"))
        for picture in self.document.findall(nodes.image):
            if "://" not in picture["uri"] and (place := self._placed(really_in / picture["uri"])):
                picture["uri"] = f"/{place}"
        for file in self.document.findall(addnodes.download_reference):
            if place := self._placed(really_in / file["reftarget"]):
                file["reftarget"] = f"/{place}"

    def _link(self, link: addnodes.pending_xref, file: Path) -> None:
        """Link to a page where it lies in the site; what is no page there becomes a download."""
        place = self._placed(file)
        if place and place.with_suffix("").as_posix() in self.env.found_docs:
            link["reftarget"] = place.with_suffix("").as_posix()
        elif file.is_file():
            folder = Path(self.env.doc2path(self.env.docname)).parent
            target = os.path.relpath(file, folder)
            download = addnodes.download_reference(reftarget=target, refdoc=self.env.docname)
            download += link.children or nodes.literal("", target)
            link.replace_self(download)

    def _placed(self, path: Path) -> Path | None:
        """Path below the folder of the site's pages; None of what is not there."""
        for folder in (self._docs, self._docs / NOTES):
            really = folder.resolve()
            if path.exists() and path.resolve().is_relative_to(really):
                return folder.relative_to(self._docs) / path.resolve().relative_to(really)
        return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the transform."""
    app.add_transform(RepositoryFiles)
    return {"parallel_read_safe": True}

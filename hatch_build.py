"""Writes the commit into wheels and source archives, so that they know it without git."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds a file with the commit of the checkout to the package; a checkout itself asks git."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, unless the package stays in its checkout or no commit is known."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from mcage.version import COMMIT_FILE, commit_of_checkout

        commit = commit_of_checkout(Path(self.root))
        if commit:
            self._folder = tempfile.TemporaryDirectory()
            file = Path(self._folder.name) / COMMIT_FILE
            file.write_text(commit, encoding="ascii")
            build_data["force_include"][str(file)] = f"mcage/{COMMIT_FILE}"

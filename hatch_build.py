"""What goes into wheels and source archives beside the package: commit, kernels, pages."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds files to the package that is built; an editable install needs none of them."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the commit, unless none is known, and to a wheel kernels and pages."""
        if version == "editable":
            return
        added, root = build_data["force_include"], Path(self.root)
        sys.path.insert(0, self.root)
        from mcage.version import COMMIT_FILE, commit_of_checkout

        commit = commit_of_checkout(root)
        if commit:
            self._folder = tempfile.TemporaryDirectory()
            file = Path(self._folder.name) / COMMIT_FILE
            file.write_text(commit, encoding="ascii")
            added[str(file)] = f"mcage/{COMMIT_FILE}"
        if self.target_name == "wheel":
            added[str(root / "kernels")] = "mcage/kernels"
            for page in sorted((root / "docs").rglob("*.md")):
                added[str(page)] = f"mcage/{page.relative_to(root).as_posix()}"

"""Where tests keep what later runs load or run again: loading a library runs it."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from mcage.files.disk_cache import all_own, is_own_folder


@cache
def kept_folder(name):
    """Folder in the one for temporary files; another user can have written nothing in it.

    Where that cannot be said, it is a new folder, which is removed at the end.
    """
    folder = Path(tempfile.gettempdir(), f"mcage-{name}-{os.getuid()}")
    if not folder.is_symlink() and is_own_folder(folder) and all_own(folder):
        return folder
    folder = Path(tempfile.mkdtemp(prefix=f"mcage-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder

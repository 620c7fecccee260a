"""``python -m mcage``: the command line, without the name ``mcage`` on the path of the shell."""

import sys

# Python puts the current folder first, where a stranger's file could stand in for any module.
if not sys.flags.safe_path:
    del sys.path[0]

from mcage.cli.main import main

main()

"""Does Ctrl-C end a command quietly while it still imports what it needs?"""

import os
import subprocess
import sys

HEAVY = {"typing", "typer", "numpy", "threading", "pathlib", "contextlib", "importlib"}

CHILDREN = """
import os, runpy, signal, sys

def child(start, moment):
    \"\"\"Exit code of a child that Ctrl-C reaches at this import, counted from that of Typer.\"\"\"
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    imports = []

    def interrupt(event, arguments):
        if event == "import" and (imports or arguments[0] == "typer"):
            imports.append(arguments[0])
            if len(imports) == moment:
                os.kill(os.getpid(), signal.SIGINT)

    sys.addaudithook(interrupt)
    sys.argv = ["mcage", "techniques"]
    sys.stdout = open(os.devnull, "w")
    start()

def as_script():
    from mcage.cli.main import main
    main()

def as_module():
    runpy.run_module("mcage", run_name="__main__")

print(*(child(as_script, moment) for moment in (1, 5, 25, 125, 300)), child(as_module, 50))
"""


def test_ctrl_c_while_commands_are_imported():
    line = [sys.executable, "-c", CHILDREN]
    ran = subprocess.run(line, capture_output=True, text=True, env=searched_here())
    assert ran.stdout.split() == ["130"] * 6, ran.stderr
    assert set(ran.stderr.splitlines()) <= {
        "interrupted: stopping (Ctrl-C once more stops at once)"
    }


def test_the_entry_point_imports_nothing_that_takes_time():
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import mcage.cli.main\n"
        "print(*{*sys.modules} - before)"
    )
    line = [sys.executable, "-S", "-c", program]
    ran = subprocess.run(line, capture_output=True, text=True, env=searched_here(), check=True)
    assert "mcage.cli.main" in ran.stdout.split()
    assert not HEAVY & set(ran.stdout.split())


def searched_here():
    """Environment of a process that finds modules where this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

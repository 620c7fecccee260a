"""Campaigns in which calls of the system fail: one process forks them, with a shim below it.

`failing_calls.c` is preloaded, so that Python, HDF5 and NumPy meet the same failures. For each line
of standard input, a JSON list ``[folder, kind, call, error, from_then_on, instances, shard_size,
delay]``, a campaign runs in a child; a line with its exit code, its words and its calls of each
kind comes back. Exit codes are those of the command line: 0, 2 for an error that a user reads, 1
for any other exception.
"""

import ctypes
import errno
import json
import os
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

KINDS = ("write", "truncate", "flush", "name", "create", "remove", "lock", "memory")
"""As `failing_calls.c` counts them: names are links and renames."""

ERRORS = {
    "write": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "truncate": (errno.EIO, errno.EFBIG),
    "flush": (errno.EIO, errno.ENOSPC),
    "name": (errno.EIO, errno.ENOSPC, errno.EACCES),
    "create": (errno.EMFILE, errno.ENOSPC, errno.EROFS),
    "remove": (errno.EACCES, errno.EIO),
    "lock": (errno.ENOLCK, errno.EOPNOTSUPP),
    "memory": (errno.ENOMEM,),
}
"""What the system may answer."""

OUT = "r.h5"


@dataclass(frozen=True)
class Failure:
    """A call that fails.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    call : int
        The how-many-eth of its kind; 0: none.
    error : int
        What the system answers.
    from_then_on : bool
        Whether all later calls of this kind fail, too, as on a disk that is full.
    """

    kind: str
    call: int
    error: int
    from_then_on: bool = False


NONE = Failure("write", 0, 0)


@dataclass(frozen=True)
class Outcome:
    """How a campaign has ended: its exit code, what it said, its calls of each kind."""

    code: int
    words: list[str]
    calls: dict[str, int]


def library(folder, compiler):
    """The shim, compiled."""
    made = Path(folder) / "failing_calls.so"
    source = Path(__file__).with_suffix(".c")
    flags = ("-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", made, "-x", "c", source, "-ldl")
    subprocess.run([compiler, *map(str, flags)], check=True)
    return made


class Nursery:
    """The process of campaigns, seen from a test."""

    def __init__(self, library):
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "LD_PRELOAD": str(library)},
        )

    def run(self, folder, failure=NONE, instances=8, shard_size=4, write_microseconds=0):
        """Run, or continue, the campaign of a folder."""
        of_failure = (failure.kind, failure.call, failure.error, failure.from_then_on)
        line = [str(folder), *of_failure, instances, shard_size, write_microseconds]
        print(json.dumps(line), file=self._process.stdin, flush=True)
        return Outcome(**json.loads(self._process.stdout.readline()))

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def main():
    from killable import ReadHere

    from mcage.results import reader

    warnings.simplefilter("ignore", UserWarning)  # files that cannot be removed
    reader.ForeignFile = ReadHere
    shim = ctypes.CDLL(sys.argv[1])
    shim.failing_calls_count.restype = ctypes.c_long
    with tempfile.TemporaryDirectory() as folder:  # children import nothing any more
        _campaign(shim, folder, "write", 0, 0, False, 8, 4, 0)
    while line := sys.stdin.readline():
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w") as answer:
                json.dump(_campaign(shim, *json.loads(line)), answer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(text or json.dumps({"code": status, "words": [], "calls": {}}), flush=True)


def _campaign(shim, folder, kind, call, error, from_then_on, instances, shard_size, delay):
    import fake_campaign
    from campaign_cases import Listener

    from mcage.campaign.run import run_campaign
    from mcage.campaign.study import Study
    from mcage.errors import UserError

    listener = Listener()
    study = Study(fake_campaign.campaign(instances=instances), fake_campaign.compute)
    shim.failing_calls_delay(delay)
    shim.failing_calls_arm(
        folder.encode(), KINDS.index(kind), ctypes.c_long(call), error, int(from_then_on)
    )
    code = 0
    try:
        run_campaign(study, Path(folder) / OUT, shard_size, listener)
    except UserError as refusal:
        code, listener.said = 2, [*listener.said, f"error: {refusal}"]
    except Exception as defect:
        code, listener.said = 1, [*listener.said, f"{type(defect).__name__}: {defect}"]
    finally:
        calls = {kind: shim.failing_calls_count(n) for n, kind in enumerate(KINDS)}
        shim.failing_calls_arm(b"", -1, ctypes.c_long(0), 0, 0)
    return {"code": code, "words": listener.said, "calls": calls}


if __name__ == "__main__":
    main()

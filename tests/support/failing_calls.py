"""Campaigns in which calls of the system fail: children of a nursery with a shim below it.

`failing_calls.c` is preloaded, so that Python, HDF5 and NumPy meet the same failures.
"""

import ctypes
import errno
import json
import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path

import fake_campaign
from campaign_cases import Listener
from nursery import Nursery, small_campaign

from mcage.campaign.run import run_campaign
from mcage.errors import UserError

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
"""Kinds of calls, as `failing_calls.c` numbers them, and what the system may answer.

Names are links and renames.
"""

KINDS = tuple(ERRORS)
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
    """How a campaign has ended: exit code (2: refused, 1: a defect), words, calls of each kind."""

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


def nursery_with(library):
    """The process of campaigns."""
    return Nursery(small_campaign, LD_PRELOAD=str(library))


def run(nursery, folder, failure=NONE):
    """Run, or continue, the campaign of a folder."""
    child = nursery.start(_campaign, folder, *vars(failure).values())
    text = child.words.read()
    code = child.wait()
    return Outcome(**json.loads(text)) if text else Outcome(code, [], {})


def _campaign(folder, kind, call, error, from_then_on):
    warnings.simplefilter("ignore", UserWarning)  # files that cannot be removed
    shim = ctypes.CDLL(None)
    shim.failing_calls_count.restype = ctypes.c_long
    listener = Listener()
    study = fake_campaign.study(instances=8)
    shim.failing_calls_arm(
        folder.encode(), KINDS.index(kind), ctypes.c_long(call), error, int(from_then_on)
    )
    code = 0
    try:
        run_campaign(study, Path(folder) / OUT, 4, listener)
    except UserError as refusal:
        code, listener.said = 2, [*listener.said, f"error: {refusal}"]
    except Exception as defect:
        code, listener.said = 1, [*listener.said, f"{type(defect).__name__}: {defect}"]
    finally:
        calls = {kind: shim.failing_calls_count(n) for n, kind in enumerate(KINDS)}
        shim.failing_calls_arm(b"", -1, ctypes.c_long(0), 0, 0)
    print(json.dumps({"code": code, "words": listener.said, "calls": calls}))

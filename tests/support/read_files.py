"""Reads files as mcage does and says what became of each, so that a crash ends this program only.

A program: for each line of standard input, the name of a folder, it forks a process, which has
nothing to import any more and reads every file below the folder: ``*.trace``, ``*.results`` and
shards, which have the names that mcage gives them, ``*.h5``. Standard output gets lines of JSON:
for each file one when it begins, and one with ``name``, ``outcome`` (``begun``, ``read``,
``refused`` or ``defect``), ``message`` and ``seconds`` when it is done; ``megabytes``, the largest
memory of that process and of those that it has started; and at the end ``code``, the exit code.
"""

import contextlib
import json
import os
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

from mcage.campaign.shards import read_owner, read_shard
from mcage.errors import UserError
from mcage.files import hdf5
from mcage.files.inputs import DamagedFileError
from mcage.report.cases import summarized
from mcage.report.comparison import compare_files, compare_in_file
from mcage.report.notes import note_on_shared_dies
from mcage.studies.sweep.header import SweepHeader
from mcage.studies.sweep.presentation import SweepPresentation
from mcage.studies.sweep.tables import (
    summarize_causes,
    summarize_chips,
    summarize_fits,
    summarize_rates,
)
from mcage.traces.storage import load_trace

SHOWN = (
    SweepPresentation(SweepHeader).summarize_file,
    partial(summarized, summarize=summarize_causes),
    partial(summarized, summarize=summarize_fits),
    partial(summarized, summarize=partial(summarize_chips, slices_per_chip=2, spare_slices=0)),
    partial(compare_in_file, first="base", second="rrcd tur"),
    partial(summarized, summarize=partial(summarize_rates, ages_years=(1e-9,))),
    lambda path: compare_files(path, path),
    note_on_shared_dies,
)
"""All that `mcage show` and `mcage compare` take from a results file."""


def read(path):
    if path.suffix == ".trace":
        load_trace(path).digest()
    elif path.suffix == ".results":
        for taken in SHOWN:
            taken(path)
    else:
        read_owner(path)
        read_shard(path)


def outcome(path):
    begun = time.monotonic()
    try:
        read(path)
        kind, message = "read", ""
    except (UserError, DamagedFileError) as error:
        kind, message = "refused", str(error)
    except Exception as error:
        kind, message = "defect", f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begun
    return {"outcome": kind, "message": message, "seconds": seconds}


def read_folder(folder):
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".trace", ".results", ".h5"):
            name = str(path.relative_to(folder))
            print(json.dumps({"name": name, "outcome": "begun"}), flush=True)
            print(json.dumps({"name": name} | outcome(path)), flush=True)
    print(json.dumps({"megabytes": megabytes()}), flush=True)


def main():
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # of forks beside threads
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                read_folder(Path(line.removesuffix("\n")))
                hdf5._Process.running().end()
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), flush=True)


def megabytes():
    """Largest memory of this process, and of the processes that it has started."""
    status = [Path("/proc/self/status"), *Path("/proc").glob("[0-9]*/status")]
    kilobytes = [resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]
    for place in status:
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in place.read_text().splitlines())
            if int(fields["PPid"]) == os.getpid() or int(fields["Pid"]) == os.getpid():
                kilobytes.append(int(fields["VmHWM"].split()[0]))
    return max(kilobytes) / 1024


if __name__ == "__main__":
    main()

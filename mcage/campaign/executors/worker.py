"""A worker: the program of a process that computes shards for another one.

It takes tasks and functions from a connection and answers through it; what it prints goes to
standard error. When the connection ends, it ends.
"""

import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from threading import Lock
from typing import Any, NoReturn

from mcage.campaign.executors.executor import timed
from mcage.campaign.executors.worker_process import Failed
from mcage.campaign.study import ShardTask
from mcage.concurrency import limit_cores
from mcage.errors import UserError
from mcage.files.atomic import remove_all_in_work
from mcage.plain_text import said_by

MOST_AT_ONCE = 256
"""Shards that may be computed at once; how many are, those decide who send them."""


def main(descriptor: int, cores: int) -> NoReturn:
    """Compute until nobody asks any more."""
    limit_cores(cores)
    warnings.filterwarnings("ignore", module="mcage.files.disk_cache")  # their parent says it
    connection: Connection[Any, Any] = Connection(descriptor)
    answers = _Answers(connection)
    pool = ThreadPoolExecutor(MOST_AT_ONCE)
    answers.send(-1, None)
    try:
        while True:
            what = connection.recv()
            if isinstance(what, ShardTask):
                pool.submit(answers.give, what.first, partial(timed, what))
            else:
                pool.submit(answers.give, -1, what)
    except (EOFError, OSError):
        remove_all_in_work()
        os._exit(0)


class _Answers:
    """Sends results, from any thread."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection = connection
        self._sending = Lock()

    def give(self, first: int, function: Any) -> None:
        """Call a function, and send its result or its error."""
        try:
            answer = function()
        except BaseException as error:
            answer = Failed(_traveling(error))
        self.send(first, answer)

    def send(self, first: int, answer: Any) -> None:
        with self._sending:
            self._connection.send((first, answer))


def _traveling(error: BaseException) -> BaseException:
    """The error, with its traceback as a note; or another one with its words, if it cannot travel.

    The traceback of a `UserError` says nothing to users.
    """
    import traceback

    if not isinstance(error, UserError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(said_by(error))
    return error


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

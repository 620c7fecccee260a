"""Entry point ``mcage``: Ctrl-C ends it quietly from the first moment.

The commands and the libraries behind them take half a second to import. That is therefore done when
Ctrl-C is seen to, and this module imports nothing that takes time.
"""

import os
import signal

INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line, and exit with a code that `mcage.cli.app` explains."""
    earlier = signal.getsignal(signal.SIGINT)
    try:
        if earlier is signal.default_int_handler:  # and not ignored, as under nohup
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    except ValueError:  # outside of the main thread, which signals do not reach
        earlier = None
    try:
        from mcage.cli.app import run

        run()
    except KeyboardInterrupt:  # while `run` puts its own handlers in place
        raise SystemExit(INTERRUPTED) from None
    finally:
        if earlier is signal.default_int_handler:
            signal.signal(signal.SIGINT, earlier)

"""Builds the site with kernels that are forked, so that none of its notebooks waits for imports.

A program: ``site_builder.py ARGUMENTS`` is ``python -m sphinx ARGUMENTS``. Beside it runs a process
that has imported what notebooks import and has swept once: a nursery, whose children kernels are.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

import mcage
from mcage.files import hdf5

MOST_BYTES = 1 << 20
"""Of a request: a connection file, a folder, and the environment."""

LAUNCHER = "ipykernel_launcher"
"""The module that is a kernel; what follows it on a command line are its options."""

IMPORTED = (
    "ipykernel.kernelapp",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "scipy.stats",
    "xarray.backends.h5netcdf_",
)
"""What notebooks import, and what mcage imports in the functions that use it."""


class Kernel:
    """A kernel as its client sees it: what that uses of a `subprocess.Popen`.

    Parameters
    ----------
    nursery : socket
        The process that forks it.
    command : list of str
        As `subprocess.Popen` would run it.
    cwd, env : str, dict
        Its folder and its environment.
    """

    stdin = stdout = stderr = None

    def __init__(
        self, nursery: socket.socket, command: list[str], cwd: str, env: dict[str, str], **_: Any
    ) -> None:
        self._end, theirs = os.pipe()
        words = command[command.index(LAUNCHER) :]
        request = {"words": words, "folder": os.fspath(cwd), "environment": env}
        socket.send_fds(nursery, [json.dumps(request).encode()], [theirs])
        os.close(theirs)
        self.pid = int(nursery.recv(MOST_BYTES))

    def poll(self) -> int | None:
        """Whether it has ended: the nursery keeps its exit code."""
        return 0 if select.select([self._end], [], [], 0)[0] else None

    def wait(self) -> int:
        """Wait for its end."""
        select.select([self._end], [], [])
        return 0

    def send_signal(self, number: int) -> None:
        """Send it a signal; it is its own group of processes."""
        if self.poll() is None:
            os.killpg(self.pid, number)


def main() -> None:
    """Build the site in this process."""
    gc.disable()  # two fifths of what Sphinx takes, whose trees are many objects that all stay
    for name in mcage.__all__:
        getattr(mcage, name)  # imports it, for Sphinx and for kernels
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as a kernel would
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    nursery = os.fork()
    if not nursery:
        here.close()
        serve(there)
    there.close()
    from jupyter_client.provisioning import local_provisioner
    from sphinx.cmd import build

    local_provisioner.launch_kernel = lambda command, **settings: Kernel(here, command, **settings)
    code = build.main(sys.argv[1:])
    here.close()
    os.waitpid(nursery, 0)
    sys.exit(code)


def serve(requests: socket.socket) -> NoReturn:
    """Fork kernels until the other end is closed."""
    for name in IMPORTED:
        resolve_name(name)
    _use_as_notebooks_do()
    gc.enable()
    gc.freeze()  # a collection in a child would copy the pages of all that
    kernels: list[int] = []
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, MOST_BYTES, 1)
        if not message:
            break
        kernel = os.fork()
        if not kernel:
            os.setsid()  # before the number is known: signals are sent to the group
            requests.sendall(str(os.getpid()).encode())
            requests.close()
            be_kernel(**json.loads(message))
        os.close(descriptors[0])
        kernels.append(kernel)
    for kernel in kernels:  # whose client has been killed, if any still runs
        os.killpg(kernel, signal.SIGKILL)
        os.waitpid(kernel, 0)
    os._exit(0)


def _use_as_notebooks_do() -> None:
    """Sweep, look at the results and draw: what that loads and finds out, no kernel does again."""
    from matplotlib.figure import Figure
    from sweep_cases import small_spec

    spec = small_spec(instances=2, techniques=["baseline", "rrcd"])
    with tempfile.TemporaryDirectory() as folder:
        results = mcage.open_results(mcage.run_sweep(spec, Path(folder, "r.h5"))).load()
    results._repr_html_()
    results.mcage.summary()
    figure = Figure()
    axes = figure.subplots()
    axes.plot([0, 1], label="drawn")
    axes.legend()
    figure.savefig(BytesIO(), bbox_inches="tight")
    hdf5._Process.running().end()  # it has read the file; kernels start their own


def be_kernel(words: list[str], folder: str, environment: dict[str, str]) -> NoReturn:
    """Do as the launcher does in a process of its own."""
    from ipykernel.kernelapp import IPKernelApp

    try:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = words
        sys.path.remove(os.path.dirname(__file__))
        IPKernelApp.launch_instance()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()

"""What the CUDA engine asks of the machine that runs its kernels: memory, kernels, launches.

`mcage.engines.cuda_engine.devices.cupy_device` answers with a GPU. Tests answer with a host
compiler and fibers, so that the same engine and the same kernels run where there is no GPU.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from numpy.typing import DTypeLike, NDArray


class Module(Protocol):
    """Compiled kernels of one source file under one set of constants."""

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[Any],
        shared_bytes: int = 0,
    ) -> None:
        """Run a kernel.

        Parameters
        ----------
        kernel : str
            Name of an ``extern "C" __global__`` function.
        grid, block : tuple of int
            Blocks of the grid and threads of a block.
        arguments : sequence
            Arrays of this device, and NumPy scalars of exactly the parameters' types.
        shared_bytes : int
            Dynamic shared memory of a block.
        """


class Device(Protocol):
    """One device, as a thread of the host sees it: its work is done in the order of the calls."""

    @property
    def description(self) -> str:
        """Name of the device, as results record it."""

    def working(self) -> AbstractContextManager[None]:
        """While the thread computes a batch, which the device may do beside other batches.

        All of its work is done when it ends, also by an error. Its arrays are used within it, or
        after its end by a thread that waits for what it does with them.
        """

    def free_bytes(self) -> int:
        """Memory that may be asked for."""

    def upload(self, array: NDArray[Any]) -> Any:
        """Copy of an array on the device."""

    def upload_together(self, *arrays: NDArray[Any]) -> tuple[Any, ...]:
        """Copies of some arrays on the device."""

    def upload_table(self, array: NDArray[Any]) -> Any:
        """Copy of an array that stays for long, and is there for all threads at once."""

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array of zeros on the device."""

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Array on the device whose contents do not matter."""

    def download(self, array: Any) -> NDArray[Any]:
        """Copy of an array of the device, once all work before is done."""

    def address(self, array: Any) -> int:
        """Address of an array of the device, for tables of arrays; the array must be kept."""

    def module(self, source: str, constants: Mapping[str, int]) -> Module:
        """Kernels of the file ``source`` of `kernels/`, compiled with ``-D`` constants."""

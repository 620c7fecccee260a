"""What running waves leave: the instructions that each executed, and what it wrote into registers.

Instructions that lie one behind the other are kept as the first and their number. Contents of
registers are numbered in the order in which they first appear.
"""

import numpy as np

from mcage.errors import UserError
from mcage.files.inputs import MIB
from mcage.traces.storage import MOST_BYTES
from mcage.tracing.emulation import interpreter
from mcage.tracing.emulation.arithmetic import Array
from mcage.tracing.importing.contents import Contents

_RUNS, _WRITES = 1 << 13, 1 << 13


class Log:
    """What some waves leave that run together.

    Parameters
    ----------
    waves, lanes : int
        How many, and lanes of each.
    contents : Contents
        Takes what the recorded ones write.

    Attributes
    ----------
    control : int64[controls]
        As the interpreter has it.
    """

    def __init__(self, waves: int, contents: Contents) -> None:
        self.waves, self._contents = waves, contents
        self.control = np.zeros(interpreter.CONTROLS, np.int64)
        self._first, self._count = np.zeros(waves, np.int32), np.zeros(waves, np.int32)
        self._runs = np.empty((_RUNS, 3), np.int32)
        self._writes, self._masks = np.empty((_WRITES, 3), np.int32), np.empty(_WRITES, np.uint64)
        self._rows = np.empty((_WRITES, contents.lanes), np.uint32)
        self.arrays = self._first, self._count, self._runs, self._writes, self._masks, self._rows
        """Arrays that the interpreter fills."""
        self._all_runs: list[Array] = []
        self._all_writes: list[tuple[Array, Array]] = []

    def keep(self) -> None:
        """Put away what has been logged.

        Raises
        ------
        UserError
            The contents would be larger than a trace may be.
        """
        runs = int(self.control[interpreter.STEPS_LOGGED])
        written = int(self.control[interpreter.WRITTEN])
        if runs:
            self._all_runs.append(self._runs[:runs].copy())
        if written:
            numbers = self._contents.numbers(self._rows[:written])
            writes = np.concatenate([self._writes[:written], numbers[:, None]], axis=1)
            self._all_writes.append((writes, self._masks[:written].copy()))
        self.control[[interpreter.STEPS_LOGGED, interpreter.WRITTEN]] = 0
        if self._contents.nbytes > MOST_BYTES:
            raise UserError(
                f"the recorded waves write more than {MOST_BYTES // MIB} MiB of different "
                "contents; ask for a smaller grid, or for more compute units: --compute-units"
            )

    def step(self, waves: Array, codes: Array) -> None:
        """Note which instruction each of some waves executes."""
        if self.control[interpreter.STEPS_LOGGED] + len(waves) > _RUNS:
            self.keep()
        interpreter.log_steps(waves, codes, self.arrays, self.control)

    def wrote(self, writes: Array, masks: Array, rows: Array) -> None:
        """Note what some waves have written.

        Parameters
        ----------
        writes : int32[n, 3]
            Wave, step and register of each.
        masks : uint64[n]
            Lanes that were written.
        rows : uint32[n, lanes]
            What the registers hold afterwards.
        """
        if self.control[interpreter.WRITTEN] + len(writes) > _WRITES:
            self.keep()
        first = int(self.control[interpreter.WRITTEN])
        into = slice(first, first + len(writes))
        self._writes[into], self._masks[into], self._rows[into] = writes, masks, rows
        self.control[interpreter.WRITTEN] += len(writes)

    def codes(self) -> list[Array]:
        """Codes of the instructions of each wave."""
        self.keep()
        last = np.stack([np.arange(self.waves, dtype=np.int32), self._first, self._count], axis=1)
        runs = np.concatenate([*self._all_runs, last[self._count > 0]])
        wave = runs[:, 0]
        steps = np.bincount(wave, runs[:, 2], self.waves).astype(np.int64)
        codes = expanded(runs[np.argsort(wave, kind="stable"), 1:])
        return np.split(codes, np.cumsum(steps)[:-1])

    def written(self) -> list[tuple[Array, Array]]:
        """Writes of each wave: their steps, registers and contents, int32[n, 3]; their masks."""
        self.keep()
        if not self._all_writes:
            return []
        writes, masks = (np.concatenate(column) for column in zip(*self._all_writes, strict=True))
        wave = writes[:, 0]
        of_wave = zip(self._by_wave(wave, writes[:, 1:]), self._by_wave(wave, masks), strict=True)
        return list(of_wave)

    def _by_wave(self, wave: Array, table: Array) -> list[Array]:
        """Rows of each wave, in their order."""
        ends = np.cumsum(np.bincount(wave, minlength=self.waves))
        return np.split(table[np.argsort(wave, kind="stable")], ends[:-1])


def expanded(runs: Array) -> Array:
    """Codes of runs: each is the first code, and how many follow one another in steps of two."""
    first, count = runs[:, 0].astype(np.int64), runs[:, 1]
    begin = np.cumsum(count) - count
    codes = np.repeat((first - 2 * begin).astype(np.int32), count)
    codes += 2 * np.arange(len(codes), dtype=np.int32)
    return codes

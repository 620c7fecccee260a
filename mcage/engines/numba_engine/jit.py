"""How functions are compiled, and where the machine code is kept.

Numba takes a function's machine code from its cache as long as the function's own file is
unchanged, even where a function that it calls, in another file, is not the same any more. The
cache is therefore kept in a folder named by a digest of all sources that are compiled, and of what
they take from the machine at hand (`AT_ONCE`): computers may share a disk.
"""

import fcntl
import gc
import hashlib
import inspect
import operator
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from math import prod
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config, event
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler_lock import global_compiler_lock
from numba.core.types import unliteral
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

import mcage.compiled
import mcage.geometry
import mcage.traces.model
from mcage.compiled import OPTIONS, LightDispatcher, code_kept_in
from mcage.files.disk_cache import code_folder


class Dispatcher(LightDispatcher):
    """A compiled function that is not compiled again for each constant it is called with.

    Nor do two processes compile it: the second waits, and takes the machine code of the first.
    """

    lock_folder: Path | None = None
    """Where processes tell each other what they compile; None where no machine code is kept."""

    @override
    def compile(self, sig: Any) -> Any:
        with ExitStack() as scope:
            # In this order: while one thread waits for another process, others may compile.
            if self.lock_folder:
                scope.enter_context(_alone(self.lock_folder / f"{self.py_func.__qualname__}.lock"))
            scope.enter_context(global_compiler_lock)
            scope.enter_context(_without_collection())
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """See Numba's class; constants count as any value of their type.

        Raises
        ------
        TypeError
            The function has a lock. To wait for it while its caller is compiled could last for
            ever.
        """
        if self.lock_folder:
            raise TypeError(f"{self.py_func.__qualname__} is called from Python alone")
        plain = {name: unliteral(kind) for name, kind in kws.items()}  # type: ignore[no-untyped-call]
        return super().get_call_template(tuple(map(unliteral, args)), plain)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which the system takes back from a process that is killed."""
    descriptor = -1
    with suppress(OSError):  # a file system without locks: the same may be compiled twice
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Let Python look for no garbage, of which compiling leaves little: 5 to 10 % of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function when it is first called, and keep the machine code.

    `mcage.compiled.OPTIONS` says what it may do.
    """
    dispatcher = Dispatcher(function, targetoptions=OPTIONS)
    if folder := cache_folder():
        with code_kept_in(folder):
            dispatcher.enable_caching()
        dispatcher.lock_folder = Path(folder)
    return cast(Function, dispatcher)


@cache
def cache_folder() -> str:
    """Folder of this version's machine code; the empty text if there is no place for one."""
    here = Path(__file__).parent
    sources = sorted(here.rglob("*.py"))
    for module in (mcage.compiled, mcage.geometry, mcage.traces.model):
        sources.append(Path(str(module.__file__)))
    digest = hashlib.blake2b(bytes([AT_ONCE]), digest_size=8)
    for source in sources:
        digest.update(source.read_bytes())
    return code_folder(digest.hexdigest(), here / "__pycache__")


@contextmanager
def telling_of_compilation(tell: Callable[[bool], None]) -> Iterator[None]:
    """Tell when a function is compiled whose machine code is not in the cache.

    Parameters
    ----------
    tell : callable
        Is called once with True for functions whose machine code is kept for later runs, and once
        with False for those that each run compiles, such as placement programs.
    """
    with event.install_listener("numba:compile", _Compilations(tell)):
        yield


class _Compilations(event.Listener):
    """Tells of the first compilation of a kind. No two go on at a time: Numba has a lock."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell, self._told, self._depth = tell, set[bool](), 0

    def on_start(self, event: Any) -> None:
        """See Numba's class. What is compiled within another function is part of that."""
        kept = getattr(event.data["dispatcher"], "keeps_code", False)
        if not self._depth and kept not in self._told:
            self._told.add(kept)
            self._tell(kept)
        self._depth += 1

    @override
    def on_end(self, event: Any) -> None:
        self._depth -= 1


def inner(function: Function) -> Function:
    """Compile a function that only compiled functions call; it cannot be called from Python."""
    return _nested(function, {})


def inlined(function: Function) -> Function:
    """As `inner`, for a few lines that every caller repeats.

    To hand over arrays costs more than what they do: each is seven words on the stack.
    """
    return _nested(function, {"forceinline": True})


def _nested(function: Function, options: dict[str, bool]) -> Function:
    options = OPTIONS | {"no_cpython_wrapper": True} | options
    return cast(Function, Dispatcher(function, targetoptions=options))


# Wide operations that Numba has no words for: a set of the 64 components is a 64-bit word.
#
# A compiler turns each into a few vector instructions of the machine at hand (one to four on
# AVX-512, where such a word is a mask register). And arrays that begin where a cache line does, so
# that a row lies in as few lines as possible.

COMPONENTS = 64

_CONFIG: Any = config
_FEATURES = _CONFIG.CPU_FEATURES
if _FEATURES is None:
    _FEATURES = get_host_cpu_features()  # type: ignore[no-untyped-call]

AT_ONCE = 4 if "+avx512f" in _FEATURES else 1
"""Planes that are summed together. 64 sums of 32 bits each are four vectors of the 32 that AVX-512
has, but eight of the 16 of AVX2; some must be left to work with. It follows from what Numba
compiles for, `NUMBA_CPU_FEATURES` included."""

FIRST_BITS = np.uint64((1 << AT_ONCE) - 1)
"""The first `AT_ONCE` bits of a word."""

PARTS = 4
"""Parts of 16 components that may count for cycles of their own."""

LINE = 64
"""Bytes of a cache line. NumPy's memory begins 16 bytes after one where an array is large."""

_WORD, _HALF = ir.IntType(64), ir.IntType(32)
_READ, _KEEP, _DATA = _HALF(0), _HALF(3), _HALF(1)


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make zeros; pages that are never touched take no memory."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, dtype=np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + size].view(dtype).reshape(shape)


def aligned_join(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join arrays [n, ...] of the same type and width."""
    shape = (sum(map(len, parts)), *parts[0].shape[1:])
    return np.concatenate(parts, out=aligned_zeros(shape, parts[0].dtype))


class _Rows:
    """Rows of 64 integers of a C-contiguous array as single values."""

    def __init__(self, context: Any, builder: Any, array_type: Any, array: Any) -> None:
        self._builder, self._bytes = builder, array_type.dtype.bitwidth // 8
        self._data = context.make_array(array_type)(context, builder, array).data
        self.type = ir.VectorType(context.get_value_type(array_type.dtype), COMPONENTS)
        self.nothing = ir.Constant(self.type, [0] * COMPONENTS)

    def _address(self, row: Any, vector: Any) -> Any:
        first = self._builder.gep(self._data, [self._builder.mul(row, _WORD(vector.count))])
        return self._builder.bitcast(first, vector.as_pointer())

    def load(self, row: Any) -> Any:
        return self._builder.load(self._address(row, self.type), align=self._bytes)

    def store(self, row: Any, value: Any) -> None:
        self._builder.store(value, self._address(row, self.type), align=self._bytes)

    def load_in_parts(self, row: Any, parts: int) -> Any:
        """A row of so many items, each of them in 64 / parts components."""
        vector = ir.VectorType(self.type.element, parts)
        loaded = self._builder.load(self._address(row, vector), align=self._bytes)
        lanes = [component * parts // COMPONENTS for component in range(COMPONENTS)]
        places = ir.Constant(ir.VectorType(_HALF, COMPONENTS), lanes)
        return self._builder.shuffle_vector(loaded, ir.Constant(vector, ir.Undefined), places)

    def add_where(self, total: Any, word: Any, cycles: Any) -> Any:
        """Vector with ``cycles``, a vector or a number, more in every component of ``word``."""
        if not isinstance(cycles.type, ir.VectorType):
            cycles = _everywhere(self._builder, cycles, self.type)
        chosen = self._builder.bitcast(word, ir.VectorType(ir.IntType(1), COMPONENTS))
        return self._builder.add(total, self._builder.select(chosen, cycles, self.nothing))


def _everywhere(builder: Any, value: Any, vector: Any) -> Any:
    """Vector with the same value in all elements."""
    undefined = ir.Constant(vector, ir.Undefined)
    alone = builder.insert_element(undefined, value, _HALF(0))
    nowhere = ir.Constant(ir.VectorType(_HALF, vector.count), [0] * vector.count)
    return builder.shuffle_vector(alone, undefined, nowhere)


def _operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that compiled functions call, without the typing context."""
    operation: Callable[..., Any] = intrinsic(function)
    return operation


def _item(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Address of an item of a C-contiguous array, counted from its beginning."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _variable(builder: Any, value: Any) -> Any:
    """Place on the stack that holds a value, which a compiler turns into registers."""
    place = cgutils.alloca_once(builder, value.type)  # type: ignore[no-untyped-call]
    builder.store(value, place)
    return place


def _made(kinds: Any, generate: Callable[..., Any]) -> Callable[..., Any]:
    """Operation of these kinds, which is all that its code depends on."""

    def operation(typing_context: Any, *arguments: Any) -> Any:
        return kinds, lambda context, builder, signature, values: generate(builder, *values)

    named: Any = operation
    named.__signature__ = inspect.signature(generate)  # by which Numba passes arguments
    return _operation(operation)


_LONG, _BITS = types.int64, types.uint64

lowest_bit = _made(_LONG(_BITS), lambda b, word: b.cttz(word, ir.Constant(ir.IntType(1), 1)))
"""`lowest_bit(word)`: position of the lowest set bit of a non-zero uint64."""

members = _made(_LONG(_BITS), lambda b, word: b.ctpop(word))
"""`members(word)`: how many bits of a uint64 are set."""


@_operation
def with_bit(typing_context: Any, words: Any, row: Any, bit: Any) -> Any:
    """`with_bit(words, row, bit)`: components whose word in a row of uint32[:, 64] has a bit."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, row, bit = arguments
        rows = _Rows(context, builder, signature.args[0], words)
        bits = _everywhere(builder, builder.shl(bit.type(1), bit), rows.type)
        chosen = builder.and_(rows.load(row), bits)
        return builder.bitcast(builder.icmp_unsigned("!=", chosen, rows.nothing), _WORD)

    return types.uint64(words, types.int64, types.uint32), generate


@_operation
def sum_components(
    typing_context: Any, words: Any, cycles: Any, count: Any, sums: Any, row: Any
) -> Any:
    """`sum_components(words, cycles, count, sums, row)`: ``words[i]`` counts for ``cycles[i]``.

    In a row of T[:, 64], for i < count; uint64[n], T[n]. T has 32 or 64 bits.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, cycles, count, sums, row = arguments
        rows = _Rows(context, builder, signature.args[3], sums)
        total = _variable(builder, rows.load(row))
        with cgutils.for_range(builder, count) as loop:
            word = builder.load(_item(context, builder, signature.args[0], words, loop.index))
            each = builder.load(_item(context, builder, signature.args[1], cycles, loop.index))
            builder.store(rows.add_where(builder.load(total), word, each), total)
        rows.store(row, builder.load(total))
        return context.get_dummy_value()

    return types.void(words, cycles, types.int64, sums, types.int64), generate


def _sum_of_planes(columns: int, anew: bool = False, parts: int = 1) -> Callable[..., Any]:
    """Sum of so many columns of planes for compiled functions, for cycles of so many parts.

    ``(planes, rows, cycles, begin, end, first, sums, row)``: uint64[:, n], uint32[m], T[m] or
    T[m, parts]; word ``planes[rows[i], first + c]`` counts for ``cycles[i]`` in row ``row + c`` of
    T[:, 64], for begin <= i < end; from zero on, or added to what is there.
    """

    @_operation
    def sum_up(
        typing_context: Any,
        planes: Any,
        rows: Any,
        cycles: Any,
        begin: Any,
        end: Any,
        first: Any,
        sums: Any,
        row: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            planes, rows, cycles, begin, end, first, sums, place = arguments
            view = context.make_array(signature.args[0])(context, builder, planes)
            width = builder.extract_value(view.shape, 1)
            start = builder.gep(view.data, [first])
            of_sums = _Rows(context, builder, signature.args[6], sums)
            of_cycles = _Rows(context, builder, signature.args[2], cycles)
            places = [builder.add(place, _WORD(column)) for column in range(columns)]
            totals = [
                _variable(builder, of_sums.nothing if anew else of_sums.load(place))
                for place in places
            ]
            with cgutils.for_range_slice(builder, begin, end, _WORD(1), inc=True) as (index, _):
                row = builder.load(_item(context, builder, signature.args[1], rows, index))
                words = builder.gep(start, [builder.mul(builder.zext(row, _WORD), width)])
                each = of_cycles.load_in_parts(index, parts)
                for column, total in enumerate(totals):
                    word = builder.load(builder.gep(words, [_WORD(column)]))
                    builder.store(of_sums.add_where(builder.load(total), word, each), total)
            for place, total in zip(places, totals, strict=True):
                of_sums.store(place, builder.load(total))
            return context.get_dummy_value()

        long = types.int64
        return types.void(planes, rows, cycles, long, long, long, sums, long), generate

    return sum_up


sum_plane = _sum_of_planes(1)
sum_planes = _sum_of_planes(AT_ONCE)
sum_planes_anew = _sum_of_planes(AT_ONCE, anew=True)
sum_planes_in_parts = _sum_of_planes(AT_ONCE, parts=PARTS)


@_operation
def add_where(typing_context: Any, sums: Any, row: Any, word: Any, cycles: Any) -> Any:
    """`add_where(sums, row, word, cycles)`: to the components of ``word`` in a row of T[:, 64]."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, word, cycles = arguments
        rows = _Rows(context, builder, signature.args[0], sums)
        rows.store(row, rows.add_where(rows.load(row), word, cycles))
        return context.get_dummy_value()

    return types.void(sums, types.int64, types.uint64, sums.dtype), generate


@_operation
def add_row(typing_context: Any, sums: Any, row: Any, added: Any, added_row: Any) -> Any:
    """`add_row(sums, row, added, added_row)`: a row of T[:, 64] to a row of another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, added, added_row = arguments
        rows = _Rows(context, builder, signature.args[0], sums)
        more = _Rows(context, builder, signature.args[2], added).load(added_row)
        rows.store(row, builder.add(rows.load(row), more))
        return context.get_dummy_value()

    return types.void(sums, types.int64, added, types.int64), generate


@_operation
def add_rows(
    typing_context: Any,
    sums: Any,
    row: Any,
    added: Any,
    step: Any,
    first: Any,
    numbers: Any,
    begin: Any,
    end: Any,
) -> Any:
    """Add rows of T[:, 64] to a row of another: ``step * numbers[i] + first``, begin <= i < end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, row, added, step, first, numbers, begin, end = arguments
        rows = _Rows(context, builder, signature.args[0], sums)
        of_added = _Rows(context, builder, signature.args[2], added)
        total = _variable(builder, rows.load(row))
        with cgutils.for_range_slice(builder, begin, end, _WORD(1), inc=True) as (index, _):
            number = builder.load(_item(context, builder, signature.args[5], numbers, index))
            at = builder.add(builder.mul(builder.zext(number, _WORD), step), first)
            builder.store(builder.add(builder.load(total), of_added.load(at)), total)
        rows.store(row, builder.load(total))
        return context.get_dummy_value()

    long = types.int64
    return types.void(sums, long, added, long, long, numbers, long, long), generate


@_operation
def prefetch(typing_context: Any, array: Any, row: Any, column: Any) -> Any:
    """`prefetch(array, row, column)`: start loading the cache line of an item; column 0 in 1-D."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, row, column = arguments
        view = context.make_array(signature.args[0])(context, builder, array)
        item_bytes = _WORD(signature.args[0].dtype.bitwidth // 8)
        offset = builder.mul(row, builder.extract_value(view.strides, 0))
        offset = builder.add(offset, builder.mul(column, item_bytes))
        byte = ir.IntType(8).as_pointer()
        hint = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, _HALF, _HALF, _HALF]),
            "llvm.prefetch.p0",
        )
        address = builder.gep(builder.bitcast(view.data, byte), [offset])
        builder.call(hint, [address, _READ, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), generate


# Lanes: eight words side by side, on which compiled functions work with Python's operators.

LANES = 8
"""Words of a vector of 512 bits."""


class _Lanes(types.Type):
    """Eight words of 64 bits."""


_LANES, _VECTOR = _Lanes("lanes"), ir.VectorType(_WORD, LANES)
register_model(_Lanes)(partial(models.PrimitiveModel, be_type=_VECTOR))


def _takes_lanes(symbol: Callable[..., Any], instruction: Callable[..., Any]) -> None:
    """Let an operator take lanes, with a number on the right that stands for all of them, too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right = arguments
        if signature.args[1] is not _LANES:
            right = _everywhere(builder, right, _VECTOR)
        return instruction(builder, left, right)

    cases = [_LANES(_LANES, right) for right in (_LANES, _LONG)]
    template: Any = type("_", (ConcreteTemplate,), {"key": symbol, "cases": cases})
    infer_global(symbol)(template)  # type: ignore[no-untyped-call]
    for case in cases:
        lower_builtin(symbol, *case.args)(generate)  # type: ignore[no-untyped-call]


_takes_lanes(operator.add, ir.IRBuilder.add)
_takes_lanes(operator.sub, ir.IRBuilder.sub)
_takes_lanes(operator.and_, ir.IRBuilder.and_)
_takes_lanes(operator.or_, ir.IRBuilder.or_)
_takes_lanes(operator.xor, ir.IRBuilder.xor)
_takes_lanes(operator.lshift, ir.IRBuilder.shl)
_takes_lanes(operator.rshift, ir.IRBuilder.lshr)


def _are_zero(builder: Any, words: Any) -> Any:
    return builder.icmp_unsigned("==", words, ir.Constant(_VECTOR, [0] * LANES))


def _lowest_bits(builder: Any, words: Any) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR, ir.IntType(1)])
    count = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, kind, f"llvm.cttz.v{LANES}i64"
    )
    return builder.call(count, [words, ir.IntType(1)(0)])


in_all = _made(_LANES(_LONG), lambda b, word: _everywhere(b, word, _VECTOR))
"""`in_all(word)`: the same word in all lanes."""

where_zero = _made(
    _LANES(_LANES, _LANES, _LANES), lambda b, words, x, y: b.select(_are_zero(b, words), x, y)
)
"""`where_zero(words, x, y)`: words of x where those of the first are 0, otherwise of y."""

zero_in = _made(
    types.uint8(_LANES), lambda b, words: b.bitcast(_are_zero(b, words), ir.IntType(LANES))
)
"""`zero_in(words)`: the set of lanes whose words are 0, as bits."""

lowest_bits = _made(_LANES(_LANES), _lowest_bits)
"""`lowest_bits(words)`: position of the lowest set bit of each word; 64 if there is none."""


@_operation
def lanes_at(typing_context: Any, array: Any, place: Any) -> Any:
    """`lanes_at(array, place)`: eight items of a C-contiguous array, counted from its beginning."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _item(context, builder, signature.args[0], *arguments)
        vector = ir.VectorType(at.type.pointee, LANES)
        words = builder.load(builder.bitcast(at, vector.as_pointer()), align=1)
        return words if vector == _VECTOR else builder.zext(words, _VECTOR)

    return _LANES(array, types.int64), generate


@_operation
def lanes_from(typing_context: Any, array: Any, places: Any) -> Any:
    """`lanes_from(array, places)`: as `lanes_at`, with a place for each lane; items of 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            place = builder.extract_element(arguments[1], _HALF(lane))
            at = _item(context, builder, signature.args[0], arguments[0], place)
            words = builder.insert_element(words, builder.load(at), _HALF(lane))
        return words

    return _LANES(array, _LANES), generate


@_operation
def put_lanes(typing_context: Any, array: Any, place: Any, words: Any) -> Any:
    """`put_lanes(array, place, words)`: store what `lanes_at` loads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _item(context, builder, signature.args[0], *arguments[:2])
        vector, words = ir.VectorType(at.type.pointee, LANES), arguments[2]
        words = words if vector == _VECTOR else builder.trunc(words, vector)
        builder.store(words, builder.bitcast(at, vector.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, _LANES), generate

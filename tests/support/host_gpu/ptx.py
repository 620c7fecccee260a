"""From PTX, as NVRTC writes it, to C++ for the fibers of the host device.

An instruction becomes a statement, and a line of PTX becomes one line of C++, so that whatever the
device says names the line of the PTX. Registers are variables of their width that begin with
poison. What each instruction does is what the PTX ISA says (version 9.0; `ptx.h` holds what C++
cannot say in an expression).

The translator knows the instructions, types, modifiers and directives that are listed here. For all
else it raises `PtxError` with the line: it never guesses. Among what it refuses are sums and
products of floats without ``.rn``, which ptxas may contract.

What PTX cannot show: how ptxas turns it into machine code, blocks that run at the same time, time.
"""

import re
from dataclasses import dataclass

_UNSIGNED = ("u16", "u32", "u64")
_SIGNED = ("s16", "s32", "s64")
_INTEGERS = _UNSIGNED + _SIGNED
_BITS = ("b16", "b32", "b64")
_OF_MEMORY = ("b8", "u8", "s8", *_BITS, *_INTEGERS, "f64")
_TWICE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_HALF_AS_WIDE = tuple(_TWICE)
_WIDE_ENOUGH = ("u32", "s32", "u64", "s64")  # for what has no form of 16 bits

_FORMS = (
    # Instruction; types that {t} takes; type of the result; types of the operands; C++ over them.
    # {b} is the type of bits as wide as {t}, and {d} the type twice as wide.
    ("add.{t}", _INTEGERS, "{b}", "{b} {b}", "{0} + {1}"),
    ("sub.{t}", _INTEGERS, "{b}", "{b} {b}", "{0} - {1}"),
    ("mul.lo.{t}", _INTEGERS, "{b}", "{b} {b}", "u64({0}) * {1}"),
    ("mul.hi.{t}", _INTEGERS, "{t}", "{t} {t}", "high_of_product({0}, {1})"),
    ("mul.wide.{t}", _HALF_AS_WIDE, "{d}", "{t} {t}", "{d}({0}) * {1}"),
    ("mad.lo.{t}", _INTEGERS, "{b}", "{b} {b} {b}", "u64({0}) * {1} + {2}"),
    ("mad.wide.{t}", _HALF_AS_WIDE, "{d}", "{t} {t} {d}", "u64({d}({0}) * {1}) + u64({2})"),
    ("div.{t}", _INTEGERS, "{t}", "{t} {t}", "{0} / {1}"),
    ("rem.{t}", _INTEGERS, "{t}", "{t} {t}", "{0} % {1}"),
    ("min.{t}", _INTEGERS, "{t}", "{t} {t}", "{0} < {1} ? {0} : {1}"),
    ("max.{t}", _INTEGERS, "{t}", "{t} {t}", "{0} > {1} ? {0} : {1}"),
    ("neg.{t}", _SIGNED, "{b}", "{b}", "0u - {0}"),
    ("abs.{t}", _SIGNED, "{b}", "{t}", "{0} < 0 ? 0u - {b}({0}) : {b}({0})"),
    ("and.{t}", (*_BITS, "pred"), "{t}", "{t} {t}", "{0} & {1}"),
    ("or.{t}", (*_BITS, "pred"), "{t}", "{t} {t}", "{0} | {1}"),
    ("xor.{t}", (*_BITS, "pred"), "{t}", "{t} {t}", "{0} ^ {1}"),
    ("not.{t}", _BITS, "{t}", "{t}", "~{0}"),
    ("not.{t}", ("pred",), "{t}", "{t}", "!{0}"),
    ("shl.{t}", _BITS, "{t}", "{t} u32", "shift_left({0}, {1})"),
    ("shr.{t}", _BITS + _INTEGERS, "{t}", "{t} u32", "shift_right({0}, {1})"),
    ("shf.l.wrap.{t}", ("b32",), "{t}", "{t} {t} u32", "__funnelshift_l({0}, {1}, {2})"),
    ("shf.r.wrap.{t}", ("b32",), "{t}", "{t} {t} u32", "__funnelshift_r({0}, {1}, {2})"),
    ("popc.{t}", ("b32", "b64"), "u32", "{t}", "__popcll({0})"),
    ("clz.{t}", ("b32",), "u32", "{t}", "__clz({0})"),
    ("clz.{t}", ("b64",), "u32", "{t}", "__clzll({0})"),
    ("brev.{t}", ("b32",), "{t}", "{t}", "__brev({0})"),
    ("brev.{t}", ("b64",), "{t}", "{t}", "__brevll({0})"),
    ("bfind.{t}", _WIDE_ENOUGH, "u32", "{t}", "find_bit({0}, false)"),
    ("bfind.shiftamt.{t}", _WIDE_ENOUGH, "u32", "{t}", "find_bit({0}, true)"),
    ("bfe.{t}", _WIDE_ENOUGH, "{t}", "{t} u32 u32", "extract_bits({0}, {1}, {2})"),
    ("bfi.{t}", ("b32", "b64"), "{t}", "{t} {t} u32 u32", "insert_bits({0}, {1}, {2}, {3})"),
    ("prmt.{t}", ("b32",), "{t}", "{t} {t} {t}", "__byte_perm({0}, {1}, {2})"),
    ("dp2a.lo.{t}.u32", ("u32",), "{t}", "{t} {t} {t}", "__dp2a_lo({0}, {1}, {2})"),
    ("dp2a.hi.{t}.u32", ("u32",), "{t}", "{t} {t} {t}", "__dp2a_hi({0}, {1}, {2})"),
    ("selp.{t}", (*_BITS, *_INTEGERS, "f64"), "{t}", "{t} {t} pred", "{2} ? {0} : {1}"),
    ("add.rn.{t}", ("f64",), "{t}", "{t} {t}", "{0} + {1}"),
    ("sub.rn.{t}", ("f64",), "{t}", "{t} {t}", "{0} - {1}"),
    ("mul.rn.{t}", ("f64",), "{t}", "{t} {t}", "{0} * {1}"),
    ("div.rn.{t}", ("f64",), "{t}", "{t} {t}", "{0} / {1}"),
    ("fma.rn.{t}", ("f64",), "{t}", "{t} {t} {t}", "fma({0}, {1}, {2})"),
    ("sqrt.rn.{t}", ("f64",), "{t}", "{t}", "sqrt({0})"),
    ("min.{t}", ("f64",), "{t}", "{t} {t}", "lesser({0}, {1})"),
    ("max.{t}", ("f64",), "{t}", "{t} {t}", "greater({0}, {1})"),
    ("neg.{t}", ("f64",), "{t}", "{t}", "-{0}"),
    ("abs.{t}", ("f64",), "{t}", "{t}", "fabs({0})"),
    ("setp.eq.{t}", _BITS + _INTEGERS, "pred", "{t} {t}", "{0} == {1}"),
    ("setp.ne.{t}", _BITS + _INTEGERS, "pred", "{t} {t}", "{0} != {1}"),
    ("setp.lt.{t}", _INTEGERS, "pred", "{t} {t}", "{0} < {1}"),
    ("setp.le.{t}", _INTEGERS, "pred", "{t} {t}", "{0} <= {1}"),
    ("setp.gt.{t}", _INTEGERS, "pred", "{t} {t}", "{0} > {1}"),
    ("setp.ge.{t}", _INTEGERS, "pred", "{t} {t}", "{0} >= {1}"),
    ("setp.eq.{t}", ("f64",), "pred", "{t} {t}", "{0} == {1}"),
    ("setp.ne.{t}", ("f64",), "pred", "{t} {t}", "{0} < {1} || {0} > {1}"),
    ("setp.lt.{t}", ("f64",), "pred", "{t} {t}", "{0} < {1}"),
    ("setp.le.{t}", ("f64",), "pred", "{t} {t}", "{0} <= {1}"),
    ("setp.gt.{t}", ("f64",), "pred", "{t} {t}", "{0} > {1}"),
    ("setp.ge.{t}", ("f64",), "pred", "{t} {t}", "{0} >= {1}"),
    # True if one of the numbers is none.
    ("setp.equ.{t}", ("f64",), "pred", "{t} {t}", "!({0} < {1} || {0} > {1})"),
    ("setp.neu.{t}", ("f64",), "pred", "{t} {t}", "{0} != {1}"),
    ("setp.ltu.{t}", ("f64",), "pred", "{t} {t}", "!({0} >= {1})"),
    ("setp.leu.{t}", ("f64",), "pred", "{t} {t}", "!({0} > {1})"),
    ("setp.gtu.{t}", ("f64",), "pred", "{t} {t}", "!({0} <= {1})"),
    ("setp.geu.{t}", ("f64",), "pred", "{t} {t}", "!({0} < {1})"),
    ("cvt.rn.f64.{t}", _INTEGERS, "f64", "{t}", "f64({0})"),
    ("cvt.rzi.{t}.f64", _WIDE_ENOUGH, "{t}", "f64", "integer_toward_zero<{t}>({0})"),
)


@dataclass(frozen=True)
class Form:
    """Types of the result and the operands of an instruction, and C++ over the operands."""

    result: str
    operands: tuple[str, ...]
    expression: str


def _forms():
    for name, types, result, operands, expression in _FORMS:
        for kind in types:
            given = {"t": kind, "b": f"b{_bits(kind)}", "d": _TWICE.get(kind)}
            of_operands = tuple(operands.format(**given).split())
            places = (f"{{{place}}}" for place in range(len(of_operands)))
            yield (
                name.format(**given),
                Form(result.format(**given), of_operands, expression.format(*places, **given)),
            )
    integers = ("u8", "s8", *_INTEGERS)
    for to in integers:
        for kind in integers:
            yield f"cvt.{to}.{kind}", Form(to, (kind,), "{0}")


def _bits(kind):
    """Width of a type in bits; 1 of predicates."""
    return 1 if kind == "pred" else int(kind[1:])


KNOWN = dict(_forms())
"""Instructions that only compute, each with its `Form`."""

_SPECIAL = {
    f"%{name}.{axis}": f"{variable}.{axis}"
    for name, variable in (
        ("tid", "threadIdx"),
        ("ntid", "blockDim"),
        ("ctaid", "blockIdx"),
        ("nctaid", "gridDim"),
    )
    for axis in "xyz"
} | {"%laneid": "u32(host_gpu::lane())"}

_ENTRY = re.compile(r"\.visible \.entry (\w+)\($")
_PARAMETER = re.compile(
    r"\.param \.(b32|u32|s32|b64|u64|s64|f64)( \.ptr(?: \.(?:global|shared))?(?: \.align \d+)?)?"
    r" (\w+)(,?)$"
)
_MOST_THREADS = re.compile(r"\.maxntid (\d+)(?:, (\d+))?(?:, (\d+))?$")
_REGISTERS = re.compile(r"\.reg \.(pred|b16|b32|b64|f64)\s+%([a-z]+)<(\d+)>;$")
_SHARED = re.compile(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\];$")
_DYNAMIC = re.compile(r"\.extern \.shared \.align \d+ \.b8 (\w+)\[\];$")
_LABEL = re.compile(r"\$(\w+):$")
_INSTRUCTION = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.]*)\b\s*([^;]*);$")
_WITHOUT_EFFECT = re.compile(
    r"\.version \d+\.\d+$|\.target sm_\d+$|\.address_size 64$|\.minnctapersm \d+$|\.maxnreg \d+$"
    r'|\.pragma "(?:nounroll|used_bytes_mask (?:0x[0-9a-f]+|\d+))";$'
    # Constants that the compiler has put where they are used; an operand that names one is refused.
    r"|\.global \.align \d+ \.\w+ \w+ = [^;{]+;$"
)
_MEMORY = re.compile(
    r"(ld|st)(?:\.(volatile))?(?:\.(global|shared|param))?(\.nc)?(?:\.v([24]))?\.(\w+)$"
)
_ATOMIC = re.compile(
    r"(atom|red)(?:\.relaxed(?:\.(?:cta|gpu|sys)))?(?:\.(global|shared))?"
    r"\.(add|min|max|and|or|xor|exch|cas)\.(\w+)$"
)
_ATOMIC_TYPES = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b32", "b64"),
}
_VOTE = re.compile(r"vote\.sync\.(?:(any|all)\.pred|(ballot)\.b32)$")
_SHUFFLE = re.compile(r"shfl\.sync\.(up|down|bfly|idx)\.b32$")
_MOVE = re.compile(r"mov\.(b16|u16|s16|b32|u32|s32|b64|u64|s64|f64|pred)$")
_ADDRESS = re.compile(r"\[\s*(%?\w+)\s*(?:\+\s*(-?\d+)\s*)?\]$")
_INTEGER = re.compile(r"-?\d+$|0[xX][0-9a-fA-F]+U?$")
_NUMBER = re.compile(r"0[dD]([0-9a-fA-F]{16})$")
_APART = 128
"""Bytes after a variable of shared memory that belong to none."""
_WITHOUT_COMMENT = re.compile(r"\s*//.*$")


class PtxError(Exception):
    """PTX with something that the translator does not know; the message names its line."""


def translate(ptx, name):
    """C++ for `compile_kernels`, of as many lines as the PTX from its first on.

    Parameters
    ----------
    ptx : str
        PTX of any number of kernels.
    name : str
        What messages call it.
    """
    return _Translation(ptx, name).text


class _NotKnownError(Exception):
    """Something that is not known, in words."""


class _Translation:
    def __init__(self, ptx, name):
        self._lines = [_WITHOUT_COMMENT.sub("", line).strip() for line in ptx.splitlines()]
        self._labels = {match[1] for line in self._lines if (match := _LABEL.match(line))}
        self._variables, self._dynamic = {}, set()
        self._registers, self._parameters = {}, {}
        self._within = "module"  # or "parameters", "head", "body"
        made = []
        for number, line in enumerate(self._lines, 1):
            try:
                made.append(self._line(number, line) if line else "")
            except _NotKnownError as refused:
                raise PtxError(f"{name}:{number}: {refused}: {line}") from None
        if self._within != "module":
            raise PtxError(f"{name}:{len(self._lines)}: a kernel that does not end")
        self.text = "\n".join([*self._prologue(), f'#line 1 "{name}"', *made, ""])

    def _prologue(self):
        """Variables of shared memory, apart from one another so that nothing strays into another.

        They lie before the kernels, of which each may use any.
        """
        yield '#include "ptx.h"'
        for name, (alignment, size) in self._variables.items():
            yield f"alignas({alignment}) __shared__ unsigned char {name}[{size} + {_APART}];"
        extents = "".join(f"{{{name}, {size}}}, " for name, (_, size) in self._variables.items())
        yield f"const Variable shared_variables[] = {{{extents}{{nullptr, 0}}}};"
        yield f"const u32 shared_count = {len(self._variables)};"

    # ---- lines -------------------------------------------------------------------------------

    def _line(self, number, line):
        if _WITHOUT_EFFECT.match(line):
            return ""
        if match := _SHARED.match(line):
            if match[2] in self._variables:
                raise _NotKnownError("variable declared before")
            self._variables[match[2]] = int(match[1]), int(match[3])
            return ""
        return getattr(self, f"_line_of_{self._within}")(number, line)

    def _line_of_module(self, number, line):
        if match := _DYNAMIC.match(line):
            self._dynamic.add(match[1])
            return ""
        if match := _ENTRY.match(line):
            self._within = "parameters"
            self._registers, self._parameters = {}, {}
            return (
                f'extern "C" __global__ void __launch_bounds__({self._most_threads(number)}) '
                f"{match[1]}("
            )
        raise _NotKnownError("not known outside of a kernel")

    def _most_threads(self, number):
        """Most threads of a block of the kernel whose head begins on a line."""
        for line in self._lines[number : self._lines.index("{", number)]:
            if match := _MOST_THREADS.match(line):
                sizes = [int(size or 1) for size in match.groups()]
                return sizes[0] * sizes[1] * sizes[2]
        return 1024

    def _line_of_parameters(self, number, line):
        if line == ")":
            self._within = "head"
            return ")"
        if match := _PARAMETER.match(line):
            kind, pointer, name, comma = match.groups()
            self._parameters[name] = kind
            # A PTX integer may have a sign or not.
            of_host = kind if kind == "f64" else f"Bits<{_bits(kind) // 8}>"
            return f"{'void *' if pointer else of_host} {name}{comma}"
        raise _NotKnownError("parameter not known")

    def _line_of_head(self, number, line):
        if _MOST_THREADS.match(line):
            return ""
        if line == "{":
            self._within = "body"
            return "{"
        raise _NotKnownError("not known before a kernel's body")

    def _line_of_body(self, number, line):
        if line == "}":
            self._within = "module"
            return "}"
        if match := _REGISTERS.match(line):
            return self._declare(*match.groups())
        if match := _LABEL.match(line):
            return f"{match[1]}:;"
        if match := _INSTRUCTION.match(line):
            negated, guard, instruction, operands = match.groups()
            statement = self._statement(instruction, _split(operands))
            if guard is None:
                return statement
            return f"if ({'!' if negated else ''}{self._register(guard, 'pred')}) {{ {statement} }}"
        raise _NotKnownError("not known in a kernel")

    def _declare(self, kind, prefix, count):
        names = [f"{prefix}{number}" for number in range(int(count))]
        if f"%{prefix}0" in self._registers:
            raise _NotKnownError("registers declared before")
        self._registers |= dict.fromkeys((f"%{name}" for name in names), kind)
        of_host = "bool" if kind == "pred" else f"u{_bits(kind)}"
        return f"{of_host} " + ", ".join(f"{name} = {of_host}(undefined)" for name in names) + ";"

    # ---- operands ----------------------------------------------------------------------------

    def _register(self, operand, kind, or_wider=False):
        """Variable of a register that may be of a type: as wide, and a float if the type is one.

        Registers of bits may be of any type as wide. Where it says so, memory and conversions take
        registers of bits that are wider.
        """
        of_register = self._registers.get(operand)
        if of_register is None:
            raise _NotKnownError(f"{operand} is not declared")
        wide, needed = _bits(of_register), _bits(kind)
        may_be_wider = or_wider and kind[0] in "bsu" and of_register[0] == "b"
        fits = wide == needed or (may_be_wider and wide > needed)
        if not fits or (of_register == "f64" and kind not in ("f64", "b64")):
            raise _NotKnownError(f"{operand} of type {of_register} where {kind} is needed")
        return operand[1:]

    def _value(self, operand, kind, or_wider=False):
        """C++ of an operand that is read, as a value of a type."""
        if operand.startswith("%"):
            variable = self._register(operand, kind, or_wider)
            if kind == "pred":
                return variable
            return f"number({variable})" if kind == "f64" else f"{kind}({variable})"
        if kind == "f64":
            return f"number({_number(operand)})"
        return f"{kind}({_integer(operand, kind)})"

    def _result(self, operand, kind, expression, or_wider=False):
        """Statement that writes a value of a type to a register."""
        variable = self._register(operand, kind, or_wider)
        if kind == "f64":
            return f"{variable} = bits({expression});"
        # A value with a sign takes it along into a wider register.
        return f"{variable} = {'bool' if kind == 'pred' else kind}({expression});"

    def _place(self, operand, space, kind):
        """Pointer to a value of a type at an address."""
        match = _ADDRESS.match(operand)
        if not match:
            raise _NotKnownError(f"address {operand} not known")
        base, offset = match[1], match[2] or "0"
        if space == "shared":
            return f"shared<{kind}>({self._shared_address(base)} + u32({offset}))"
        return f"global<{kind}>({self._register(base, 'b64')} + u64({offset}ll))"

    def _shared_address(self, base):
        if base.startswith("%"):
            return f"u32({self._register(base, 'b32', or_wider=True)})"
        return self._symbol(base)

    def _symbol(self, name):
        if name in self._variables:
            return f"shared_address({name})"
        if name in self._dynamic:
            return "shared_address(host_gpu::dynamic_shared)"
        if name in self._parameters:
            return f"address_of_parameter({name})"
        raise _NotKnownError(f"symbol {name} not known")

    # ---- instructions ------------------------------------------------------------------------

    def _statement(self, instruction, operands):
        if form := KNOWN.get(instruction):
            return self._of_form(instruction, form, operands)
        for pattern, make in (
            (_MOVE, self._move),
            (_MEMORY, self._memory),
            (_ATOMIC, self._atomic),
            (_SHUFFLE, self._shuffle),
            (_VOTE, self._vote),
        ):
            if match := pattern.match(instruction):
                return make(match, operands)
        rest = instruction.replace(".", "_")
        make = getattr(self, f"_{rest}", None) if rest in _PLAIN else None
        if not make:
            raise _NotKnownError(f"instruction {instruction} not known")
        return make(operands)

    def _of_form(self, instruction, form, operands):
        to, *of = _counted(operands, 1 + len(form.operands))
        converts = instruction.startswith("cvt.")
        values = (
            self._value(operand, kind, or_wider=converts)
            for operand, kind in zip(of, form.operands, strict=True)
        )
        return self._result(to, form.result, form.expression.format(*values), or_wider=converts)

    def _move(self, match, operands):
        kind = match[1]
        to, of = _counted(operands, 2)
        if to.startswith("{"):
            return self._unpack(kind, _split(to[1:-1]), of)
        if of.startswith("{"):
            return self._pack(kind, to, _split(of[1:-1]))
        if of in _SPECIAL:
            return self._result(to, _only(kind, "u32"), _SPECIAL[of])
        if kind == "pred" and _INTEGER.match(of):
            return self._result(to, kind, str(int(int(of.rstrip("U"), 0) != 0)))
        if _NUMBER.match(of):
            return f"{self._register(to, _only(kind, 'f64', 'b64'))} = {_number(of)};"
        if re.match(r"[A-Za-z_]", of):
            kinds = ("b64", "u64") if of in self._parameters else ("b32", "u32", "b64", "u64")
            return self._result(to, _only(kind, *kinds), self._symbol(of))
        # Bits are moved: no float is read.
        as_bits = "pred" if kind == "pred" else f"b{_bits(kind)}"
        return self._result(to, as_bits, self._value(of, as_bits))

    def _unpack(self, kind, parts, of):
        part = f"b{_bits(_only(kind, 'b32', 'b64')) // len(parts)}"
        statements = [
            self._result(to, part, f"whole >> {place * _bits(part)}")
            for place, to in enumerate(parts)
            if to != "_"
        ]
        return f"{{ u64 whole = {self._value(of, kind)}; {' '.join(statements)} }}"

    def _pack(self, kind, to, parts):
        part = f"b{_bits(_only(kind, 'b32', 'b64')) // len(parts)}"
        shifted = (
            f"u64({self._value(of, part)}) << {place * _bits(part)}"
            for place, of in enumerate(parts)
        )
        return self._result(to, kind, " | ".join(shifted))

    def _memory(self, match, operands):
        action, volatile, space, constant, count, kind = match.groups()
        if kind not in _OF_MEMORY or (constant and (action == "st" or space != "global")):
            raise _NotKnownError("access to memory not known")
        if constant and volatile:
            raise _NotKnownError("access to memory not known")
        if space == "param":
            if action == "st" or volatile or count:
                raise _NotKnownError("access to parameters not known")
            return self._load_parameter(kind, *_counted(operands, 2))
        registers, place = (
            _counted(operands, 2) if action == "ld" else reversed(_counted(operands, 2))
        )
        kind_of_memory = f"{volatile} {kind}" if volatile else kind
        if not count:
            pointer = self._place(place, space, kind_of_memory)
            if action == "ld":
                return self._result(registers, kind, f"*{pointer}", or_wider=True)
            return f"*{pointer} = {self._value(registers, kind, or_wider=True)};"
        if volatile or not (registers.startswith("{") and registers.endswith("}")):
            raise _NotKnownError("access to memory not known")
        pointer = self._place(place, space, f"Vector<{kind}, {count}>")
        parts = _counted(_split(registers[1:-1]), int(count))
        if action == "ld":
            statements = (
                self._result(to, kind, f"read.of[{place}]", or_wider=True)
                for place, to in enumerate(parts)
                if to != "_"
            )
            return f"{{ auto read = *{pointer}; {' '.join(statements)} }}"
        values = ", ".join(self._value(part, kind, or_wider=True) for part in parts)
        return f"*{pointer} = {{{{{values}}}}};"

    def _load_parameter(self, kind, to, operand):
        match = _ADDRESS.match(operand)
        if match and match[1].startswith("%"):  # the address of one was taken before
            place = f"{self._register(match[1], 'b64')} + u64({match[2] or 0}ll)"
            known = ", ".join(("__FILE__, __LINE__", place, *self._parameters))
            return self._result(to, kind, f"parameter_at<{kind}>({known})", or_wider=True)
        if not match or match[1] not in self._parameters:
            raise _NotKnownError(f"parameter {operand} not known")
        offset, name = int(match[2] or 0), match[1]
        size = _bits(kind) // 8
        if offset % size or not 0 <= offset <= _bits(self._parameters[name]) // 8 - size:
            raise _NotKnownError(f"{size} bytes at {offset} of parameter {name}")
        return self._result(to, kind, f"parameter<{kind}, {offset}>({name})", or_wider=True)

    def _atomic(self, match, operands):
        action, space, operation, kind = match.groups()
        if kind not in _ATOMIC_TYPES[operation] or (
            action == "red" and operation in ("exch", "cas")
        ):
            raise _NotKnownError("atomic operation not known")
        count = 2 if operation == "cas" else 1
        if action == "red":
            to, (place, *values) = "_", _counted(operands, 1 + count)
        else:
            to, place, *values = _counted(operands, 2 + count)
        name = {"cas": "CAS"}.get(operation, operation.capitalize())
        given = ", ".join(self._value(value, kind) for value in values)
        call = f"atomic{name}({self._place(place, space, kind)}, {given})"
        return f"{call};" if to == "_" else self._result(to, kind, call)

    def _shuffle(self, match, operands):
        to, value, by, clamp, mask = _counted(operands, 5)
        to, _, valid = to.partition("|")
        given = ", ".join(self._value(operand, "b32") for operand in (value, by, clamp, mask))
        call = f"shuffle(Shuffle::{match[1]}, {given}, valid)"
        told = self._result(valid, "pred", "valid") if valid else ""
        return f"{{ bool valid; {self._result(to, 'b32', call)} {told} }}"

    def _vote(self, match, operands):
        to, predicate, mask = _counted(operands, 3)
        negated = predicate.startswith("!")
        value = f"{'!' if negated else ''}{self._register(predicate.lstrip('!'), 'pred')}"
        name, kind = match[1] or match[2], "b32" if match[2] else "pred"
        call = f"__{name}_sync({self._value(mask, 'b32')}, {value})"
        return self._result(to, kind, call)

    def _match_any_sync_b32(self, operands):
        to, value, mask = _counted(operands, 3)
        given = f"{self._value(mask, 'b32')}, {self._value(value, 'b32')}"
        return self._result(to, "b32", f"__match_any_sync({given})")

    def _bar_sync(self, operands):
        if operands != ["0"]:
            raise _NotKnownError("barrier that is not the first, or not of the whole block")
        return "__syncthreads();"

    def _bar_warp_sync(self, operands):
        (mask,) = _counted(operands, 1)
        return f"__syncwarp({self._value(mask, 'b32')});"

    def _cvta_to_global_u64(self, operands):
        to, of = _counted(operands, 2)  # generic addresses are those of global memory
        return self._result(to, "u64", self._value(of, "u64"))

    def _bra(self, operands):
        (target,) = _counted(operands, 1)
        if not target.startswith("$") or target[1:] not in self._labels:
            raise _NotKnownError("label not known")
        return f"goto {target[1:]};"

    _bra_uni = _bra

    def _ret(self, operands):
        _counted(operands, 0)
        return "return;"

    def _trap(self, operands):
        _counted(operands, 0)
        return "__trap();"


_PLAIN = frozenset(
    (
        *("bar_sync", "bar_warp_sync", "match_any_sync_b32", "cvta_to_global_u64"),
        *("bra", "bra_uni", "ret", "trap"),
    )
)
"""Instructions with a single form, as methods call them."""


def _split(text):
    """Operands between commas, of which those in braces are no ends."""
    parts = re.split(r",(?![^{]*\})", text)
    return [part.strip() for part in parts] if text.strip() else []


def _counted(operands, count):
    if len(operands) != count:
        raise _NotKnownError(f"{len(operands)} operands where {count} are known")
    return operands


def _only(kind, *kinds):
    if kind not in kinds:
        raise _NotKnownError(f"type {kind} not known here")
    return kind


def _integer(text, kind):
    """C++ of an integer constant, which a type must hold with a sign or without."""
    if not _INTEGER.match(text) or kind == "pred":
        raise _NotKnownError(f"operand {text} not known as {kind}")
    value, width = int(text.rstrip("U"), 0), _bits(kind)
    if not -(1 << width - 1) <= value < 1 << width:
        raise _NotKnownError(f"{text} is too large for {kind}")
    return f"{value % 2**64:#x}ull"


def _number(text):
    """Bits of a floating-point constant."""
    match = _NUMBER.match(text)
    if not match:
        raise _NotKnownError(f"operand {text} not known as f64")
    return f"0x{match[1]}ull"

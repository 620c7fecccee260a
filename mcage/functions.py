"""The commands as functions of Python, whose parameters have the names of the options.

They return what the commands compute, and print nothing. What each needs is imported when it is
called.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from mcage.errors import UserError
from mcage.files.inputs import PathLike, listed, named_file, named_files
from mcage.plain_text import shortened, shown_path
from mcage.spec import SweepSpec

if TYPE_CHECKING:
    from mcage.campaign.executors import Executor
    from mcage.campaign.progress import Progress
    from mcage.campaign.study import Study
    from mcage.gpu.exchange import RuleKeys
    from mcage.gpu.exchange_shares import ExchangeSummary
    from mcage.methods.sensitivity import OneAtATime, Sobol
    from mcage.papers.table import TableRow
    from mcage.spec.keys import StudySpec
    from mcage.studies.common import StudyOfSpec
    from mcage.studies.gpu_gating.spec import GatingSpec
    from mcage.studies.inject.spec import InjectSpec
    from mcage.studies.vmin.spec import VminSpec
    from mcage.tracing.emulation.record import Recorded

MOST_SECONDS = 1e9
"""Longest time for which powers may have lasted."""


def sensitivity(
    spec: "SweepSpec",
    of: str = "median_life",
    method: str = "one-at-a-time",
    parameter: str | Sequence[str] = (),
    ranges: Mapping[str, str | tuple[float, float]] | None = None,
    refit: bool = True,
    samples: int = 64,
    engine: str = "auto",
) -> "OneAtATime | Sobol":
    """Compute how much a quantity of one case depends on each constant that is assumed.

    Parameters
    ----------
    spec : SweepSpec
        A sweep of one case; its instances are the dies of each evaluation.
    of : str
        Quantity: ``median_life``, ``rmst`` or another measure of a sweep, or at the horizon
        ``max_dvth`` or ``delay``.
    method : str
        ``one-at-a-time`` or ``sobol``.
    parameter : str or sequence of str
        Names of the parameters to vary; by default all that can matter.
    ranges : mapping, optional
        Range of each parameter, or key of the spec, that has another than the shipped one: its
        ends, or a text as of ``--range`` (``"0.2..0.4"``, ``"28nm,32nm"``).
    refit : bool
        Whether amplitude and mu are fitted again, so that published figures stay as they are.
    samples : int
        Points of the Sobol' design, a power of two.
    engine : str
        ``auto``, or an engine's name.

    Returns
    -------
    OneAtATime or Sobol
        The quantity and its differences, or the indices; what `mcage sensitivity` prints.

    Raises
    ------
    UserError
        The spec has several cases; a name or range is refused.
    """
    from mcage.campaign.progress import progress_in_notebooks
    from mcage.engines import engine_of
    from mcage.methods.sensitivity import SensitivityQuestion

    question = SensitivityQuestion(
        of=of,
        method=method,
        parameter=listed(parameter),
        range_=[_range(name, ends) for name, ends in (ranges or {}).items()],
        refit=refit,
        samples=samples,
    )
    return question.answer(spec, engine_of(engine), progress_in_notebooks())


def _range(name: str, ends: str | tuple[float, float]) -> str:
    """Range as ``--range`` takes it."""
    return f"{name}={ends if isinstance(ends, str) else '..'.join(map(str, ends))}"


class RunKeys(TypedDict, total=False):
    """Where and how a campaign is computed: none of it changes the results.

    devices : sequence of int, or str
        Devices of the engine ``cuda``, also as a text such as ``"0,1"``; by default all.
    shard_size : int
        Instances of a file that stays after a kill; by default so many that it takes some seconds.
    processes : int
        Compute in so many processes of this machine, by default in threads of this one.
    scheduler : str
        Compute with the workers of a Dask scheduler: its address or its file.
    part : str
        ``K/N``: compute the K-th of N equal parts into the shard folder alone; `mcage.merge` makes
        a results file of all parts.
    accept_other_code : bool
        Whether results that other code has left there may be continued, or stand.
    progress : Progress or str
        Where to report, or on standard error in a form: ``auto``, ``rich``, ``plain`` or
        ``none``; by default lines in a notebook, elsewhere nothing.
    executor : Executor
        Where instances are computed, in place of the keys above.
    """

    devices: Sequence[int] | str | None
    shard_size: int | None
    processes: int | None
    scheduler: str | None
    part: str | None
    accept_other_code: bool
    progress: "Progress | str | None"
    executor: "Executor | None"


def run(spec: "StudySpec", out: PathLike, engine: str = "auto", **options: Unpack[RunKeys]) -> Path:
    """Compute any study into one results file; continue where an earlier run was stopped.

    Parameters
    ----------
    spec : StudySpec
        What to compute: the spec of a sweep, of another study, or of one's own.
    out : str or path
        Results file.
    engine : str
        ``auto``, or the name of the engine that computes register files.
    **options
        Where and how, by the names of the options: the keys of `mcage.functions.RunKeys`.

    Returns
    -------
    Path
        ``out``: `mcage.open_results` opens it. Of a part, the shard folder.

    Raises
    ------
    UserError
        The spec makes no sense, options contradict each other, or ``out`` cannot be written, holds
        something else, or was begun by other code.
    """
    from mcage.campaign.executors import Threads
    from mcage.campaign.run import Part, run_campaign
    from mcage.campaign.shards import BESIDE
    from mcage.engines import parse_devices
    from mcage.files.atomic import place_of

    path, devices = named_file(out), options.get("devices")
    if devices is None or isinstance(devices, str):
        devices = parse_devices(devices)
    check_run(options)
    if isinstance(spec, SweepSpec):
        spec.refuse_unused()
    place_of(path, BESIDE)
    progress, size = _progress(options.get("progress")), options.get("shard_size")
    accept, part = options.get("accept_other_code", False), options.get("part")
    on_devices = engine in ("auto", "cuda")
    with _executor(options, progress, devices, on_devices) as executor:
        # Processes see one device each.
        numbers = devices if isinstance(executor, Threads) else None
        with _made(spec, engine, numbers, progress, executor) as study:
            chosen = None if part is None else Part.parse(part)
            return run_campaign(study, path, size, progress, executor, accept, chosen)


def check_run(options: RunKeys) -> None:
    """Refuse options that contradict each other.

    Raises
    ------
    UserError
        They do.
    """
    from mcage.campaign.run import Part

    places = ("processes", "scheduler", "executor")
    named = [f"--{key.replace('_', '-')}" for key in places if options.get(key) is not None]
    if len(named) > 1:
        raise UserError(f"{' and '.join(named)}: instances are computed in one place; give one")
    if (part := options.get("part")) is not None:
        Part.parse(part)


def _progress(of: "Progress | str | None") -> "Progress":
    from mcage.campaign.progress import progress_in_notebooks, progress_on_stderr

    if of is None:
        return progress_in_notebooks()
    return progress_on_stderr(None if of == "auto" else of) if isinstance(of, str) else of


@contextmanager
def _executor(
    options: RunKeys, progress: "Progress", devices: Sequence[int] | None, on_devices: bool
) -> "Iterator[Executor]":
    """Executor for as long as the block lasts; it reports the deaths of workers."""
    from mcage.campaign.executors import Threads
    from mcage.campaign.processes import Processes, connected

    if (processes := options.get("processes")) is not None:
        chosen = devices or (_visible_devices() if on_devices else ())
        with Processes(processes, chosen, progress.say) as executor:
            yield executor
    elif (scheduler := options.get("scheduler")) is not None:
        with connected(scheduler, progress.say) as cluster:
            yield cluster
    else:
        yield options.get("executor") or Threads()


def _visible_devices() -> tuple[int, ...]:
    """Numbers of the CUDA devices that can be used, asked in a process of its own."""
    from mcage.campaign.processes import Processes
    from mcage.engines import usable_devices

    if find_spec("cupy") is None:
        return ()
    with Processes(1) as probe:
        return probe.ask(usable_devices)


@contextmanager
def _made(
    spec: "StudySpec",
    engine: str,
    devices: Sequence[int] | None,
    progress: "Progress",
    executor: "Executor",
) -> "Iterator[Study]":
    """The study where it will be computed; an engine may be compiled within the block."""
    from mcage.campaign.executors import Threads
    from mcage.studies.sweep.header import SweepHeader

    here = isinstance(executor, Threads)
    say = progress.say if here else None
    study = executor.study(partial(study_of, spec, engine, devices, say))
    compilation: AbstractContextManager[None] = nullcontext()
    if isinstance(spec, SweepSpec) and isinstance(study.header, SweepHeader):
        for note in study.header.notes(spec):
            progress.say(note)
        if here and study.header.engine == "numba":
            from mcage.studies.sweep.compile_beside import compiling

            compilation = compiling(progress.say)
    with compilation:
        yield study


def study_of(
    spec: "StudySpec",
    engine: str = "auto",
    devices: Sequence[int] | None = None,
    say: Callable[[str], None] | None = None,
) -> "Study":
    """The study of a spec, as the class of its headers makes it; runs nothing yet.

    Parameters
    ----------
    spec : StudySpec
        What to compute.
    engine, devices
        As `mcage.engines.select_engine` takes them, for a study that has an engine.
    say : callable, optional
        Receives messages about preparations.

    Raises
    ------
    UserError
        There is no such study, or the spec makes no sense.
    """
    from mcage.results.header import header_class, studies
    from mcage.studies.sweep.study import Sweep

    if type(spec) is SweepSpec:
        spec.refuse_unused()
        return Sweep.study_of_spec(spec, engine, devices, say)
    names = (getattr(spec, "command", "").replace(" ", "-"), *studies())
    headers = (header_class(name) for name in names)
    maker = next((header.maker for header in headers if header.spec is type(spec)), "")
    if not maker:
        raise UserError(f"a {type(spec).__name__} is no spec of a study")
    kind: type[StudyOfSpec] = resolve_name(maker)
    return kind.study_of_spec(spec, engine, devices, say)


def run_sweep(
    spec: "SweepSpec", out: PathLike, engine: str = "auto", **options: Unpack[RunKeys]
) -> Path:
    """Compute a sweep into one results file; continue where an earlier run was stopped.

    Parameters, result and errors as of `mcage.run`. The results are not opened here, since that
    reads the whole file once, and a script that only computes need not wait for it.
    """
    return run(_of_command(spec, "sweep"), out, engine, **options)


def vmin(spec: "VminSpec", out: PathLike, engine: str = "auto", **options: Unpack[RunKeys]) -> Path:
    """Find the lowest Vdd at which slices run their kernels under each technique, new and aged.

    Parameters, result and errors as of `mcage.run`.
    """
    return run(_of_command(spec, "vmin"), out, engine, **options)


def inject(
    spec: "InjectSpec",
    out: PathLike,
    engine: str = "auto",
    picture: PathLike | None = None,
    **options: Unpack[RunKeys],
) -> Path:
    """Inject faults into the registers of a running kernel.

    Parameters
    ----------
    spec : InjectSpec
        Kernel, faults and slices.
    out, engine, **options
        As for `mcage.run`.
    picture : str or path, optional
        File to draw outputs of some silently wrong runs into: ``.png``, ``.pdf`` or ``.svg``.

    Returns
    -------
    Path
        As of `mcage.run`.

    Raises
    ------
    UserError
        As `mcage.run`; there is no kernel, or the picture has no place.
    """
    from mcage.files.atomic import place_of
    from mcage.report.figures.canvas import check_figure_path
    from mcage.studies.inject.figures import draw_wrong_outputs

    _of_command(spec, "inject")
    spec.check_program()
    if picture is None:
        return run(spec, out, engine, **options)
    drawing = named_file(picture)
    check_figure_path(drawing)
    if place_of(named_file(out)) == place_of(drawing):
        raise UserError(f"--picture {shown_path(drawing)}: is the results file, as of --out")
    if options.get("part") is not None:
        raise UserError("--picture: a part of the injections has no results file; leave it out")
    path = run(spec, out, engine, **options)
    draw_wrong_outputs(spec, engine, path, drawing)
    return path


def _of_command(spec: "StudySpec", command: str) -> "StudySpec":
    """The spec, which must be of the study of a command."""
    if getattr(spec, "command", "") != command:
        raise UserError(f"a {type(spec).__name__} is no spec of mcage {command}")
    return spec


def nbti(
    model: str | None = None,
    duty: float = 1.0,
    years: float = 3.0,
    vdd: float = 1.0,
    temperature: float = 353.15,
    constants: Mapping[str, float | str] | None = None,
) -> list[dict[str, Any]]:
    """Threshold shift and delay of a transistor under each NBTI model.

    Parameters
    ----------
    model : str, optional
        NBTI model, or a user-defined one as ``module:NAME``; by default all models.
    duty : float
        Fraction of the time under stress, 0 ... 1.
    years : float
        Age in years, 0 ... 1000.
    vdd, temperature : float
        Supply voltage in V, and temperature in K.
    constants : mapping, optional
        Constants of the model that differ from its own, such as ``{"eta": 0.3}``.

    Returns
    -------
    list of dict
        For each model ``model``, ``dvth_mv`` and ``delay_increase_percent``, which is None where
        the transistor does not switch at all.

    Raises
    ------
    UserError
        There is no such model or constant, or a number is out of range.
    """
    from mcage.aging.environment import Environment, OperatingPoint, delay_increase
    from mcage.aging.nbti import MODEL_NAMES, SECONDS_PER_YEAR, nbti_model

    if not 0 <= duty <= 1:
        raise UserError(f"duty {duty:g}: a fraction of the time, 0 ... 1, is needed")
    if not 0 <= years <= 1000:
        raise UserError(f"years {years:g}: an age of 0 ... 1000 years is needed")
    if constants and not model:
        raise UserError("constants are those of a model: name the model, too")
    conditions = Environment("constant", (OperatingPoint(vdd, 1.0, temperature),))
    rows = []
    for name in [model] if model else MODEL_NAMES:
        transistor = nbti_model(name, constants)
        shift = float(transistor.dvth_at(conditions, duty, years * SECONDS_PER_YEAR))
        slower = float(delay_increase(shift, vdd, transistor.vt0_volts, transistor.alpha))
        rows.append(
            {
                "model": name,
                "dvth_mv": 1e3 * shift,
                # Without overdrive left, a transistor does not switch at all.
                "delay_increase_percent": 100 * slower if math.isfinite(slower) else None,
            }
        )
    return rows


def exchange(
    files: PathLike | Sequence[PathLike],
    where: str | Sequence[str] = (),
    due_fit: float = 0.0,
    at: Sequence[float] | None = None,
    **rule: "Unpack[RuleKeys]",
) -> "list[tuple[Path, ExchangeSummary]]":
    """Find by age the share of GPUs that are exchanged by the vendor's rule.

    Parameters
    ----------
    files : path or sequence of paths
        Results files of sweeps.
    where : str or sequence of str
        As of `mcage.compare`.
    due_fit : float
        Soft errors that are detected and not corrected, in FIT a slice.
    at : sequence of float, optional
        Ages in years; by default 0, each whole year, and the horizon.
    **rule
        Keys of `mcage.gpu.exchange.RuleKeys`: when a GPU is exchanged, and what it is made of.

    Returns
    -------
    list of (Path, ExchangeSummary)
        The file, and what it says of a case.

    Raises
    ------
    UserError
        A file is of no sweep, or a number is out of range.
    """
    from mcage.gpu.exchange import ExchangeRule
    from mcage.gpu.exchange_shares import ExchangeQuestion, summarize_exchange
    from mcage.report.cases import Condition, summarized

    question = ExchangeQuestion(ExchangeRule.of(**rule), due_fit, at)
    summarize = partial(summarize_exchange, question=question)
    conditions = [Condition.parse(text) for text in listed(where)]
    return [
        (path, summary)
        for path in named_files(files)
        for summary in summarized(path, summarize, conditions)
    ]


def reproduce(
    paper: str | None = None, release: str = "wavefront", engine: str = "auto"
) -> "list[TableRow]":
    """Compute what four papers print, and the verdict on each figure.

    Parameters
    ----------
    paper : str, optional
        ``valero-2019`` or ``toca-diaz-rrcd``, on register files; ``chen-2014`` or ``zhang-2015``,
        on whole GPUs. By default all.
    release : str
        When windows are released: with their ``wavefront``, or with the ``work-group``; of papers
        on register files, as is the engine.
    engine : str
        ``auto``, or an engine's name.

    Returns
    -------
    list of Row
        A row for each printed value.

    Raises
    ------
    UserError
        There is no such paper, release or engine.
    """
    from mcage.engines import select_engine
    from mcage.papers import table
    from mcage.papers.kernel_replays import GPU_PAPERS, NUMBERS, PAPERS, KernelReplays

    number = None if paper is None else NUMBERS.get(paper, paper)
    if number is not None and number not in PAPERS | GPU_PAPERS:
        raise UserError(f"paper {paper!r} is unknown; choose from {', '.join(NUMBERS)}")
    study = KernelReplays(select_engine(engine)[0], release=release)
    rows = [] if number in GPU_PAPERS else table.reproduce(study, number)
    return rows + ([] if number in PAPERS else table.reproduce_gpus(number))


def emulate(
    source: PathLike,
    out: PathLike | None = None,
    progress: "Progress | str | None" = None,
    **program: Any,
) -> "Recorded":
    """Record a kernel without a GPU: compile it, run it on an emulated processor, check it.

    Parameters
    ----------
    source : str or path
        OpenCL C (``.cl``), Triton (``.py``), or a code object of AMD's compilers.
    out : str or path, optional
        File of the trace.
    progress : Progress or str, optional
        As of `mcage.run`.
    **program
        What runs: ``arch``, ``args`` or other fields of `mcage.Program` by their names, or what
        `mcage.Program.of` takes, such as the ``arguments`` themselves.

    Returns
    -------
    Recorded
        The trace, what the buffers hold afterwards, and how far that is from what it should be.

    Raises
    ------
    UserError
        A tool is missing, the source or an argument is wrong, the run cannot go on, or outputs
        differ from what they should be.
    """
    from mcage.files.atomic import TRACE, make_ready
    from mcage.traces.storage import save_trace
    from mcage.tracing.emulation.program import Program
    from mcage.tracing.emulation.record import record_kernel

    if out is not None:
        make_ready(named_file(out), TRACE)
    recorded = record_kernel(Program.of(source, **program), _progress(progress).say)
    if out is not None:
        save_trace(recorded.trace, named_file(out))
    return recorded


def bundled_traces(suite: str = "sdk-2011", geometry: str = "gcn") -> list[dict[str, Any]]:
    """Names and sizes of the bundled traces of a suite and a slice.

    Parameters
    ----------
    suite : str
        ``sdk-2011``, ``modern`` or ``all``.
    geometry : str
        Slice on which they were recorded.

    Returns
    -------
    list of dict
        For each trace ``name``, ``short_name`` in the papers, ``window_sizes``, and numbers of
        windows, generations, writes, reads and cycles.

    Raises
    ------
    UserError
        There is no such suite or slice.
    """
    from mcage.geometry import preset
    from mcage.traces.library import SHORT_NAMES, SUITES, bundled_trace, kernels_of_suite

    if suite not in SUITES:
        raise UserError(f"--suite {shortened(suite)}: must be one of {', '.join(SUITES)}")
    wanted = preset(geometry)
    sizes = ("concurrent_windows", "windows", "generations", "writes", "reads", "cycles")
    rows = []
    for name in kernels_of_suite(suite, wanted.entries, wanted.components):
        trace = bundled_trace(name)
        row = {"short_name": SHORT_NAMES.get(name, ""), "window_sizes": list(trace.window_sizes)}
        rows.append({"name": name} | row | {size: getattr(trace, size) for size in sizes})
    return rows


def optimum(spec: "GatingSpec") -> list[dict[str, Any]]:
    """Number of SMs on which each kernel should run (Chen et al., DAC 2014, Algorithm 1).

    Parameters
    ----------
    spec : GatingSpec
        Its kernels, GPU and time model.

    Returns
    -------
    list of dict
        For each kernel ``kernel``, ``optimum_SMs``, and ``time_ratio``: its time on them relative
        to all SMs.

    Raises
    ------
    UserError
        The kernels are refused, or there is no such GPU.
    """
    from mcage.studies.gpu_gating.study import Gating

    return [
        {"kernel": kernel.name, "optimum_SMs": kernel.sms, "time_ratio": kernel.time_ratio}
        for kernel in Gating(spec).kernels
    ]


def temperature(
    powers: PathLike, gpu: str = "gtx580", seconds: float | None = None
) -> list[dict[str, Any]]:
    """Temperature of each block of a GPU under powers.

    Parameters
    ----------
    powers : str or path
        CSV file with the columns block and power_W, and case if there are several.
    gpu : str
        GPU: ``gtx580``, or a TOML file.
    seconds : float, optional
        Time for which the powers have lasted, from a cold GPU on; by default for ever.

    Raises
    ------
    UserError
        The file or the time is refused, or there is no such GPU.
    """
    from mcage.gpu.chip import gpu as gpu_called
    from mcage.gpu.chip import temperatures

    if seconds is not None and not 0 <= seconds <= MOST_SECONDS:
        raise UserError(f"--seconds {seconds:g}: a time of 0 ... {MOST_SECONDS:g} s is needed")
    return temperatures(named_file(powers), gpu_called(gpu), seconds)


def import_traces(
    files: PathLike | Sequence[PathLike],
    out: PathLike,
    format: str = "auto",
    windows: int | None = None,
    slices: str | Sequence[str] = (),
    ticks_per_cycle: int | None = None,
    values: str | None = None,
) -> dict[str, Any]:
    """Import traces that another tool has recorded: a native trace for each slice of the GPU.

    Parameters
    ----------
    files : path or sequence of paths
        Files of one run, plain, ``.gz`` or ``.zst``.
    out : str or path
        Folder of the traces, which `mcage.open_trace` opens.
    format : str
        ``auto``, or the name of the format, as of `mcage trace import`.
    windows : int, optional
        Only the first so many windows.
    slices : str or sequence of str
        Only these slices, such as ``cu0.simd1``.
    ticks_per_cycle : int, optional
        Time units of the file in a cycle (gem5).
    values : str, optional
        Whether CUTracer has recorded contents ``before`` or ``after`` the instruction; by default
        before, unless the file contradicts that.

    Returns
    -------
    dict
        What `mcage trace import --json` prints: what was in the files, what was inferred and left
        out, and under ``traces`` the ``file`` of each trace.

    Raises
    ------
    UserError
        A file is refused, or the folder cannot be written; nothing has been written then.
    """
    from mcage.tracing.importing import run
    from mcage.tracing.importing.sources import ImportOptions

    options = ImportOptions(windows, frozenset(listed(slices)), ticks_per_cycle, values)
    return run.import_traces(named_files(files), format, named_file(out), options).facts()


class DrawingKeys(TypedDict, total=False):
    """Look of figures.

    Parameters
    ----------
    width : float
        Width in mm: 85, a column of a paper, or 180, its page; by default a page.
    height : float, optional
        Height in mm; by default what panels need.
    x : str
        Axis of numbers, such as ``"vdd"``, against which measures of the cases are drawn; by
        default each by which they differ.
    no_title : bool
        Whether figures have no titles.
    """

    width: float
    height: float | None
    x: str
    no_title: bool


def write_report(
    files: PathLike | Sequence[PathLike],
    out: PathLike,
    where: str | Sequence[str] = (),
    figure: str | Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    **drawing: Unpack[DrawingKeys],
) -> Path:
    """Write the report of results files: a page, its figures, and their numbers as CSV.

    Parameters
    ----------
    files : path or sequence of paths
        Results files. Those of the same study stand side by side.
    out : str or path
        Folder; a report that is there already is replaced, and nothing else is.
    where : str or sequence of str
        Show only cases that fulfil this, such as ``"technique=rrcd,baseline"``; all must hold.
    figure : str or sequence of str
        Names of the figures to draw, such as ``"survival"``; by default all.
    labels : mapping of str to str, optional
        What techniques are called in figures and tables.
    **drawing
        As of `DrawingKeys`.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    UserError
        A file is missing, foreign or damaged, or the folder holds something else.
    """
    from mcage.report import folder
    from mcage.report.cases import Condition
    from mcage.report.figures.canvas import WIDTHS_MM

    width, height = drawing.get("width", max(WIDTHS_MM)), drawing.get("height")
    if height is not None and not 40 <= height <= 1000:
        raise UserError(f"height {height:g}: must lie between 40 and 1000 mm")
    if width not in WIDTHS_MM:
        raise UserError(f"width {width:g}: must be one of {', '.join(map(str, WIDTHS_MM))}")
    options = folder.ReportOptions(
        width_mm=float(width),
        where=tuple(map(Condition.parse, listed(where))),
        figures=tuple(listed(figure)),
        title=not drawing.get("no_title", False),
        labels=dict(labels or {}),
        height_mm=height,
        x=drawing.get("x", ""),
    )
    place = named_file(out)
    folder.write_report(named_files(files), place, options)
    return place / folder.PAGE

"""What the commands do, as functions of Python, whose parameters have the names of the options.

They return what the commands compute, and print nothing. What each needs is imported when it is
called.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcage.errors import UserError
from mcage.files.inputs import named_file

if TYPE_CHECKING:
    from mcage.campaign.study import Study
    from mcage.methods.sensitivity import OneAtATime, Sobol
    from mcage.spec import SweepSpec
    from mcage.spec.study_spec import StudySpec

PathLike = str | os.PathLike[str]


def sensitivity(
    spec: "SweepSpec",
    of: str = "median_life",
    method: str = "one-at-a-time",
    parameter: str | Sequence[str] = (),
    ranges: Mapping[str, str | tuple[float, float]] | PathLike | None = None,
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
        Quantity: ``median_life``, ``rmst``, ``survival``, ``max_dvth``, ``delay`` or
        ``spill_rate``.
    method : str
        ``one-at-a-time`` or ``sobol``.
    parameter : str or sequence of str
        Names of the parameters to vary; by default all that can matter.
    ranges : mapping or path, optional
        Range of each parameter, or key of the spec, that has another than the shipped one: its
        ends, or a text as of ``--range`` (``"0.2..0.4"``, ``"28nm,32nm"``); or a TOML file.
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
    from mcage.engines.select import engine_of
    from mcage.methods.sensitivity import Question

    file, texts = None, []
    if isinstance(ranges, Mapping):
        texts = [_range(name, ends) for name, ends in ranges.items()]
    elif ranges is not None:
        file = named_file(ranges)
    question = Question(
        of=of,
        method=method,
        parameter=_listed(parameter),
        range_=texts,
        ranges=file,
        refit=refit,
        samples=samples,
    )
    question.check()
    varied = question.varied(spec)
    return question.answer(question.study(spec, engine_of(engine), progress_in_notebooks()), varied)


def _range(name: str, ends: str | tuple[float, float]) -> str:
    """Range as ``--range`` takes it."""
    return f"{name}={ends if isinstance(ends, str) else '..'.join(map(str, ends))}"


def run_gpu(
    spec: "StudySpec",
    out: PathLike,
    engine: str = "auto",
    shard_size: int | None = None,
    accept_other_code: bool = False,
) -> Path:
    """Compute a study of whole GPUs into one results file; continue where a run was stopped.

    Parameters
    ----------
    spec : GatingSpec, BothSpec, HeterogeneitySpec, or that of a study of one's own
        What to compute: as `mcage gpu gating`, `mcage gpu both` or `mcage gpu heterogeneity`.
    out : str or path
        Results file.
    engine : str
        ``auto``, or the name of the engine that computes register files (`BothSpec`).
    shard_size : int, optional
        Instances of a file that stays after a kill; does not change results.
    accept_other_code : bool
        Whether results that other code has left at ``out`` may be continued, or stand.

    Returns
    -------
    Path
        ``out``: `mcage.open_results` opens it.

    Raises
    ------
    UserError
        The spec makes no sense, or ``out`` cannot be written or holds something else.
    """
    from mcage.campaign.executors import Threads
    from mcage.campaign.progress import progress_in_notebooks
    from mcage.campaign.run import run_campaign
    from mcage.results.header import header_class, studies

    headers = map(header_class, studies())
    maker = next((header.maker for header in headers if header.spec is type(spec)), "")
    if not maker:
        raise UserError(f"a {type(spec).__name__} is no spec of a study of whole GPUs")
    module, _, name = maker.partition(":")
    make: Callable[..., Study] = getattr(import_module(module), name)
    asked = {"engine": engine} if "engine" in signature(make).parameters else {}
    progress = progress_in_notebooks()
    study = make(spec, **asked)
    return run_campaign(study, named_file(out), shard_size, progress, Threads(), accept_other_code)


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


def import_traces(
    files: PathLike | Sequence[PathLike],
    out: PathLike,
    format: str = "auto",
    windows: int | None = None,
    cycles: tuple[int | None, int | None] = (None, None),
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
    cycles : (int or None, int or None)
        Only windows that open in these cycles.
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
    from mcage.tracing.importing.sources import Limits, Options

    options = Options(Limits(windows, *cycles, frozenset(_listed(slices))), ticks_per_cycle, values)
    return run.import_traces(_paths(files), format, named_file(out), options).facts()


def write_report(
    files: PathLike | Sequence[PathLike],
    out: PathLike,
    width: float = 180,
    where: str | Sequence[str] = (),
    figure: str | Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    no_title: bool = False,
) -> Path:
    """Write the report of results files: a page, its figures, and their numbers as CSV.

    Parameters
    ----------
    files : path or sequence of paths
        Results files. Those of the same study stand side by side.
    out : str or path
        Folder; a report that is there already is replaced, and nothing else is.
    width : float
        Width of the figures in mm: 85, a column of a paper, or 180, its page.
    where : str or sequence of str
        Show only cases that fulfil this, such as ``"technique=rrcd,baseline"``; all must hold.
    figure : str or sequence of str
        Names of the figures to draw, such as ``"survival"``; by default all.
    labels : mapping of str to str, optional
        What techniques are called in figures and tables.
    no_title : bool
        Whether figures have no titles.

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

    if width not in WIDTHS_MM:
        raise UserError(f"width {width:g}: must be one of {', '.join(map(str, WIDTHS_MM))}")
    options = folder.ReportOptions(
        width_mm=float(width),
        where=tuple(map(Condition.parse, _listed(where))),
        figures=tuple(_listed(figure)),
        title=not no_title,
        labels=dict(labels or {}),
    )
    place = named_file(out)
    folder.write_report(_paths(files), place, options)
    return place / folder.PAGE


def _listed(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _paths(files: PathLike | Sequence[PathLike]) -> list[Path]:
    if isinstance(files, list | tuple):
        return [named_file(file) for file in files]
    return [named_file(files)]

"""mcage: Monte Carlo aging and fault analyzer for GPU register files.

A sweep, and its results as an `xarray.Dataset`::

    import mcage

    spec = mcage.SweepSpec(techniques=["baseline", "rrcd"], instances=1000)
    results = mcage.open_results(mcage.run_sweep(spec, "results.h5"))
    results.mcage.summary()

The names of the public interface are loaded when they are first used, so that importing the
package costs nothing.
"""

TYPE_CHECKING = False
"""Constant of `typing`, whose import would take longer than all else here."""

if TYPE_CHECKING:  # what `_HOMES` says, for editors and type checkers
    from mcage.analysis import Analysis as Analysis
    from mcage.analysis import Results as Results
    from mcage.analysis import open_results as open_results
    from mcage.errors import UserError as UserError
    from mcage.functions import bundled_traces as bundled_traces
    from mcage.functions import emulate as emulate
    from mcage.functions import exchange as exchange
    from mcage.functions import import_traces as import_traces
    from mcage.functions import inject as inject
    from mcage.functions import nbti as nbti
    from mcage.functions import optimum as optimum
    from mcage.functions import reproduce as reproduce
    from mcage.functions import run as run
    from mcage.functions import run_sweep as run_sweep
    from mcage.functions import sensitivity as sensitivity
    from mcage.functions import temperature as temperature
    from mcage.functions import vmin as vmin
    from mcage.functions import write_report as write_report
    from mcage.lifetime import EndCause as EndCause
    from mcage.methods.rare_events import RareEstimate as RareEstimate
    from mcage.methods.rare_events import RareVdd as RareVdd
    from mcage.methods.rare_events import failure_probability as failure_probability
    from mcage.methods.rare_events import vdd_for_probability as vdd_for_probability
    from mcage.report.files import compare as compare
    from mcage.report.files import merge as merge
    from mcage.report.files import pareto as pareto
    from mcage.report.files import status as status
    from mcage.report.files import verify as verify
    from mcage.single_runs.avf import avf as avf
    from mcage.single_runs.fault_maps import faults as faults
    from mcage.single_runs.fault_maps import fit_faults as fit_faults
    from mcage.single_runs.replay import replay as replay
    from mcage.spec import SweepSpec as SweepSpec
    from mcage.stats.estimates import Estimate as Estimate
    from mcage.stats.paired import compare_means as compare_means
    from mcage.stats.survival import cumulative_incidence as cumulative_incidence
    from mcage.stats.survival import kaplan_meier as kaplan_meier
    from mcage.stats.survival import life_quantile as life_quantile
    from mcage.studies.gpu_both.spec import BothSpec as BothSpec
    from mcage.studies.gpu_gating.spec import GatingSpec as GatingSpec
    from mcage.studies.gpu_heterogeneity.spec import HeterogeneitySpec as HeterogeneitySpec
    from mcage.studies.inject.spec import InjectSpec as InjectSpec
    from mcage.studies.vmin.spec import VminSpec as VminSpec
    from mcage.techniques import TECHNIQUES as TECHNIQUES
    from mcage.techniques import Gating as Gating
    from mcage.techniques import Placement as Placement
    from mcage.techniques import Storage as Storage
    from mcage.techniques import Technique as Technique
    from mcage.techniques import technique as technique
    from mcage.techniques.programs import PlacementProgram as PlacementProgram
    from mcage.traces import KERNELS as KERNELS
    from mcage.traces import Trace as Trace
    from mcage.traces import load_trace as load_trace
    from mcage.traces import open_trace as open_trace
    from mcage.traces import save_trace as save_trace
    from mcage.tracing.emulation.program import Program as Program

__version__ = "0.1.0"

_HOMES = {
    "Analysis": "mcage.analysis",
    "BothSpec": "mcage.studies.gpu_both.spec",
    "EndCause": "mcage.lifetime",
    "Estimate": "mcage.stats.estimates",
    "Gating": "mcage.techniques",
    "GatingSpec": "mcage.studies.gpu_gating.spec",
    "HeterogeneitySpec": "mcage.studies.gpu_heterogeneity.spec",
    "InjectSpec": "mcage.studies.inject.spec",
    "KERNELS": "mcage.traces",
    "Placement": "mcage.techniques",
    "PlacementProgram": "mcage.techniques.programs",
    "Program": "mcage.tracing.emulation.program",
    "RareEstimate": "mcage.methods.rare_events",
    "RareVdd": "mcage.methods.rare_events",
    "Results": "mcage.analysis",
    "Storage": "mcage.techniques",
    "SweepSpec": "mcage.spec",
    "TECHNIQUES": "mcage.techniques",
    "Technique": "mcage.techniques",
    "Trace": "mcage.traces",
    "UserError": "mcage.errors",
    "VminSpec": "mcage.studies.vmin.spec",
    "avf": "mcage.single_runs.avf",
    "bundled_traces": "mcage.functions",
    "compare": "mcage.report.files",
    "compare_means": "mcage.stats.paired",
    "cumulative_incidence": "mcage.stats.survival",
    "emulate": "mcage.functions",
    "exchange": "mcage.functions",
    "failure_probability": "mcage.methods.rare_events",
    "faults": "mcage.single_runs.fault_maps",
    "fit_faults": "mcage.single_runs.fault_maps",
    "import_traces": "mcage.functions",
    "inject": "mcage.functions",
    "kaplan_meier": "mcage.stats.survival",
    "life_quantile": "mcage.stats.survival",
    "load_trace": "mcage.traces",
    "merge": "mcage.report.files",
    "nbti": "mcage.functions",
    "open_results": "mcage.analysis",
    "open_trace": "mcage.traces",
    "optimum": "mcage.functions",
    "pareto": "mcage.report.files",
    "replay": "mcage.single_runs.replay",
    "reproduce": "mcage.functions",
    "run": "mcage.functions",
    "run_sweep": "mcage.functions",
    "save_trace": "mcage.traces",
    "sensitivity": "mcage.functions",
    "status": "mcage.report.files",
    "technique": "mcage.techniques",
    "temperature": "mcage.functions",
    "vdd_for_probability": "mcage.methods.rare_events",
    "verify": "mcage.report.files",
    "vmin": "mcage.functions",
    "write_report": "mcage.functions",
}

__all__ = ["__version__", *_HOMES]

if not TYPE_CHECKING:  # a checker would take it for a promise of any name

    def __getattr__(name: str):
        if name not in _HOMES:
            raise AttributeError(f"module 'mcage' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

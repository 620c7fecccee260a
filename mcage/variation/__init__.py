"""Process variation of slices: die part, systematic field, Vmin of weak cells, fault maps.

The names of this package are loaded when they are first used: a spec and a results file need the
scenarios only, and neither SciPy nor Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `_HOMES` says, for editors and type checkers
    from mcage.variation.die import die_of as die_of
    from mcage.variation.die import sample_die as sample_die
    from mcage.variation.expected import check_vdd as check_vdd
    from mcage.variation.expected import expected_classes as expected_classes
    from mcage.variation.expected import expected_reliable_entries as expected_reliable_entries
    from mcage.variation.fault_maps import EntryFaults as EntryFaults
    from mcage.variation.fault_maps import NewSlices as NewSlices
    from mcage.variation.fault_maps import class_shares as class_shares
    from mcage.variation.fault_maps import fault_map as fault_map
    from mcage.variation.fault_maps import faulty_bits as faulty_bits
    from mcage.variation.fault_models import DEFAULT_TOLERANCE as DEFAULT_TOLERANCE
    from mcage.variation.fault_models import GROWING_MODES as GROWING_MODES
    from mcage.variation.fault_models import MODES as MODES
    from mcage.variation.fault_models import FaultModel as FaultModel
    from mcage.variation.fault_models import fault_model as fault_model
    from mcage.variation.field import sample_field as sample_field
    from mcage.variation.field import spherical_correlation as spherical_correlation
    from mcage.variation.published_table import sample_table as sample_table
    from mcage.variation.published_table import select_attempts as select_attempts
    from mcage.variation.published_table import worst_class_deviation as worst_class_deviation
    from mcage.variation.scenarios import CLASSES as CLASSES
    from mcage.variation.scenarios import PUBLISHED as PUBLISHED
    from mcage.variation.scenarios import SCENARIOS as SCENARIOS
    from mcage.variation.scenarios import ArraySize as ArraySize
    from mcage.variation.scenarios import Scenario as Scenario
    from mcage.variation.scenarios import constants as constants
    from mcage.variation.scenarios import scenario as scenario
    from mcage.variation.vmin_tail import TailCells as TailCells
    from mcage.variation.vmin_tail import sample_tail as sample_tail

_HOMES = {
    "ArraySize": "scenarios",
    "CLASSES": "scenarios",
    "DEFAULT_TOLERANCE": "fault_models",
    "EntryFaults": "fault_maps",
    "FaultModel": "fault_models",
    "GROWING_MODES": "fault_models",
    "MODES": "fault_models",
    "NewSlices": "fault_maps",
    "PUBLISHED": "scenarios",
    "SCENARIOS": "scenarios",
    "Scenario": "scenarios",
    "TailCells": "vmin_tail",
    "check_vdd": "expected",
    "class_shares": "fault_maps",
    "constants": "scenarios",
    "die_of": "die",
    "expected_classes": "expected",
    "expected_reliable_entries": "expected",
    "fault_map": "fault_maps",
    "fault_model": "fault_models",
    "faulty_bits": "fault_maps",
    "sample_die": "die",
    "sample_field": "field",
    "sample_table": "published_table",
    "sample_tail": "vmin_tail",
    "scenario": "scenarios",
    "select_attempts": "published_table",
    "spherical_correlation": "field",
    "worst_class_deviation": "published_table",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a checker would take it for a promise of any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'mcage.variation' has no attribute {name!r}")
        return getattr(import_module(f"mcage.variation.{_HOMES[name]}"), name)

"""Process variation of slices: die part, systematic field, Vmin of weak cells, fault maps."""

from mcage.variation.die import die_of, sample_die
from mcage.variation.expected import check_vdd, expected_classes, expected_reliable_entries
from mcage.variation.fault_map import EntryFaults, NewSlices, class_shares, fault_map, faulty_bits
from mcage.variation.fault_model import (
    DEFAULT_TOLERANCE,
    GROWING_MODES,
    MODES,
    FaultModel,
    fault_model,
)
from mcage.variation.field import sample_field, spherical_correlation
from mcage.variation.published_table import sample_table, select_attempts, worst_class_deviation
from mcage.variation.scenarios import (
    CLASSES,
    PUBLISHED,
    SCENARIOS,
    ArraySize,
    Scenario,
    constants,
    scenario,
)
from mcage.variation.vmin_tail import TailCells, sample_tail

__all__ = [
    "CLASSES",
    "DEFAULT_TOLERANCE",
    "GROWING_MODES",
    "MODES",
    "PUBLISHED",
    "SCENARIOS",
    "ArraySize",
    "EntryFaults",
    "FaultModel",
    "NewSlices",
    "Scenario",
    "TailCells",
    "check_vdd",
    "class_shares",
    "constants",
    "die_of",
    "expected_classes",
    "expected_reliable_entries",
    "fault_map",
    "fault_model",
    "faulty_bits",
    "sample_die",
    "sample_field",
    "sample_table",
    "sample_tail",
    "scenario",
    "select_attempts",
    "spherical_correlation",
    "worst_class_deviation",
]

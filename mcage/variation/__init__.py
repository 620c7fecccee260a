"""Process variation of a slice: systematic field, Vmin of its weakest cells, fault maps."""

from mcage.variation.cells import TailCells
from mcage.variation.ecp import EntryFaults, class_shares, fault_map, faulty_bits
from mcage.variation.faults import MODES, FaultModel
from mcage.variation.field import sample_field, spherical_correlation
from mcage.variation.scenarios import CLASSES, SCENARIOS, Scenario, constants, scenario
from mcage.variation.table import sample_table
from mcage.variation.theory import check_vdd, expected_classes, expected_reliable_entries
from mcage.variation.vmin import sample_tail

__all__ = [
    "CLASSES",
    "MODES",
    "SCENARIOS",
    "EntryFaults",
    "FaultModel",
    "Scenario",
    "TailCells",
    "check_vdd",
    "class_shares",
    "constants",
    "expected_classes",
    "expected_reliable_entries",
    "fault_map",
    "faulty_bits",
    "sample_field",
    "sample_table",
    "sample_tail",
    "scenario",
    "spherical_correlation",
]

"""Do the importers take, or refuse in a line, whatever files they are given?

`scripts/validation/fuzz_imports.py` tries many more.
"""

import pytest
from mutated_imports import FORMAT_NAMES, complaint

SEED = 20_261_122
INPUTS = 25


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_mutated_files_do_no_harm(name, tmp_path):
    complaints = []
    for number in range(INPUTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if wrong := complaint(name, number, SEED, folder):
            complaints.append(f"{number}: {wrong}")
    assert not complaints, "\n".join(complaints)

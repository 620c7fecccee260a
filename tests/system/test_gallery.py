"""Are the pictures of the README and of the page on getting started those of today's figures?"""

import json
from functools import cache

import numpy as np
import pytest
from gallery import FIGURES, PICTURES, RECORD, description, digest, few_instances

REMEDY = "it is stale: scripts/docs/gallery.py draws it again"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Results of a few instances, by name."""
    return cache(lambda name: few_instances(name, tmp_path_factory.mktemp("few")))


def test_the_gallery_shows_what_its_figures_show_now(results):
    record = json.loads(RECORD.read_text())
    assert set(record) == set(FIGURES)
    for name, (file, figure) in FIGURES.items():
        assert digest(PICTURES / f"{name}.png") == record[name]["digest"], name
        then, now = record[name]["figure"], description(results(file), figure)
        for part in ("words", "caption"):
            assert now[part] == then[part], f"{name}: {REMEDY}"
        for (label, colour, numbers), (*look, others) in zip(
            now["curves"], then["curves"], strict=True
        ):
            assert [label, colour] == look, f"{name}: {REMEDY}"
            for part, other in zip(numbers, others, strict=True):
                assert np.allclose(part, other, rtol=1e-3), f"{name}, {label}: {REMEDY}"

"""Are differences of specs named with both values, and refused unless they are meant?"""

import pytest
from tables import each

from mcage.errors import UserError
from mcage.report.spec_differences import keys_of, refuse_unmeant, spec_differences

FIRST = """
instances = 10
seed = 1
techniques = ["rrcd"]
[aging]
model = "facelift"
constants = {eta = 0.3}
[life]
horizon_years = 10.0
epochs = 6
"""


def other(*changes):
    text = FIRST
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def test_cases_and_instances_are_no_differences():
    same = other(("= 10\n", "= 20\n"), ("seed = 1", "seed = 2"), ('["rrcd"]', '["rc", "rar"]'))
    assert spec_differences(FIRST, same) == []


def test_differences_have_both_values():
    second = other(('"facelift"', '"planar"'), ("{eta = 0.3}", "{A = 1}"), ("epochs = 6\n", ""))
    assert [str(difference) for difference in spec_differences(FIRST, second)] == [
        "aging.model ('facelift', 'planar')",
        "aging.constants.eta (0.3, not given)",
        "life.epochs (6, not given)",
        "aging.constants.A (not given, 1)",
    ]


def test_a_spec_that_is_no_toml_is_refused():
    with pytest.raises(UserError, match="is not TOML"):
        spec_differences(FIRST, "seed = ")


CHANGED = other(('"facelift"', '"planar"'), ("epochs = 6", "epochs = 7"))


@each("allowed", [("aging.model", "life.epochs"), ("aging", "life")])
def test_meant_differences_are_allowed(allowed):
    refuse_unmeant(spec_differences(FIRST, CHANGED), allowed, keys_of(FIRST, CHANGED))


@each(
    ("second", "allowed", "words"),
    [
        (CHANGED, (), "compare: --allow aging.model --allow life.epochs$"),
        (CHANGED, ("aging",), r"differ in life.epochs \(6, 7\); if this"),
        (CHANGED, ("aging.mod", "life"), "--allow aging.mod: neither spec has such a key"),
        (FIRST.replace("10.0", "5.0"), ("life",), r"life.horizon_years \(10.0, 5.0\): means up to"),
    ],
)
def test_other_differences_are_refused(second, allowed, words):
    with pytest.raises(UserError, match=words):
        refuse_unmeant(spec_differences(FIRST, second), allowed, keys_of(FIRST, second))

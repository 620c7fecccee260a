"""Policies: the SMs that each puts to work."""

from dataclasses import replace

import numpy as np
import pytest
from tables import each

from mcage.errors import UserError
from mcage.gpu.gating.compiled import ranked
from mcage.gpu.gating.policies import POLICIES, Policy, Readings, policy
from mcage.gpu.gating.policies.user_defined import CheckedPolicy

DVTH = np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0], [4.0, 5.0]])
VT = np.array([[0.1, 0.4], [0.4, 0.3], [0.3, 0.2], [0.2, 0.1]])
KELVIN = np.array([[340.0, 341.0], [341.0, 342.0], [339.0, 340.0], [350.0, 330.0]])
COUNT = np.array([2, 1])


def readings(retired=(), turn=(0, 3)):
    gone = np.zeros((4, 2), np.bool_)
    gone[list(retired)] = True
    return Readings(DVTH, VT, KELVIN, gone, np.array(turn), lambda: VT[::-1])


def workers(name, count=COUNT, **known):
    chosen = POLICIES[name].workers(readings(**known), count)
    return [np.flatnonzero(column).tolist() for column in chosen.T]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("least-shift", [[1, 2], [2]]),
        ("most-slack", [[0, 3], [3]]),
        ("coolest-first", [[0, 2], [3]]),
        ("fixed", [[0, 1], [0]]),
        ("round-robin", [[0, 1], [3]]),
        ("random", [[0, 3], [0]]),
    ],
)
def test_who_works(name, expected):
    assert workers(name) == expected


def test_a_retired_sm_never_works():
    assert workers("least-shift", retired=[1]) == [[0, 2], [2]]
    for name in POLICIES:
        assert all(2 not in sms for sms in workers(name, np.array([3, 3]), retired=[2]))


def test_of_equal_sms_the_lower_index_works():
    equal = np.zeros((16, 3))
    np.testing.assert_array_equal(ranked(equal), np.arange(16)[:, None].repeat(3, axis=1))


def test_of_sms_that_are_equally_warm_but_for_rounding_the_lower_index_works():
    """Mirror images on a floorplan: which of them rounding makes warmer depends on the machine."""
    kelvin = np.full((4, 2), 344.0)
    kelvin[0], kelvin[2] = np.nextafter(kelvin[0], 400.0), np.nextafter(kelvin[2], 300.0)
    same = replace(readings(), temperature_kelvin=kelvin)
    chosen = POLICIES["coolest-first"].workers(same, COUNT)
    assert [np.flatnonzero(column).tolist() for column in chosen.T] == [[0, 1], [0]]


def test_ranks_are_those_of_a_stable_sort():
    keys = np.random.default_rng(2).integers(0, 6, (16, 500)).astype(float)
    expected = keys.argsort(axis=0, kind="stable").argsort(axis=0)
    np.testing.assert_array_equal(ranked(keys), expected)


def test_an_unknown_policy_is_refused():
    with pytest.raises(UserError, match="policy 'least' is unknown; choose from default"):
        policy("least")


class Spread(Policy):
    def __init__(self, answer):
        self.answer = answer

    def workers(self, readings, count):
        return self.answer


FINE = np.array([[True, True], [True, False], [False, False], [False, False]])


@each(
    ("answer", "retired", "message"),
    [
        (FINE, [1], "puts SM 1 of GPU 0 of a batch to work, which is retired"),
        (FINE[:3], [], r"gives bool\[3, 2\], where bool\[4, 2\]"),
        (FINE.astype(int), [], r"gives int64\[4, 2\]"),
        (~FINE, [], "puts 3 SMs of GPU 1 of a batch to work, where 1 are needed"),
        ("nothing", [], "gives <U7"),
    ],
)
def test_answers_of_user_defined_policies_are_checked(answer, retired, message):
    checked = CheckedPolicy(Spread(answer), "policy 'spread:MINE'")
    with pytest.raises(UserError, match=f"policy 'spread:MINE': workers {message}"):
        checked.workers(readings(retired), COUNT)


def test_a_right_answer_passes():
    checked = CheckedPolicy(Spread(FINE), "policy 'spread:FINE'")
    np.testing.assert_array_equal(checked.workers(readings(), COUNT), FINE)


def test_a_policy_that_fails_is_blamed():
    class Failing(Policy):
        def workers(self, readings, count):
            raise ZeroDivisionError("no SM")

    with pytest.raises(UserError, match=r"policy 'a:B'.*no SM"):
        CheckedPolicy(Failing(), "policy 'a:B'").workers(readings(), COUNT)

"""Do conditions select what they say, and do those that select nothing say why?"""

import pytest
from tables import each

from mcage.errors import UserError
from mcage.report.selection import Condition, places_where

LINES = [
    {"technique": technique, "vdd": vdd}
    for technique in ("rrcd", "rrcd+rc", "base")
    for vdd in (0.4, 0.8)
]


def places(*texts):
    return places_where([Condition.parse(text) for text in texts], LINES)


@each(
    ("texts", "expected"),
    [
        (("technique=rrcd",), [0, 1]),
        (("technique = rrcd , base",), [0, 1, 4, 5]),
        (("technique!=rrcd,base",), [2, 3]),
        (("vdd=0.4", "technique=base"), [4]),
        (("vdd=.4000000000001",), [0, 2, 4]),
        (("vdd<0.8",), [0, 2, 4]),
        (("vdd<=0.8",), [0, 1, 2, 3, 4, 5]),
        (("vdd>0.4",), [1, 3, 5]),
        (("vdd>=8e-1",), [1, 3, 5]),
        ((), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_conditions_select(texts, expected):
    assert places(*texts) == expected


@each(
    ("texts", "words"),
    [
        (("technique",), "KEY=VALUE is needed"),
        (("=rrcd",), "KEY=VALUE is needed"),
        (("tech=rrcd",), "there is no key tech; the keys are technique, vdd"),
        (("technique=rrc",), "values of technique: rrcd, rrcd[+]rc, base"),
        (("vdd=0.5",), "values of vdd: 0.4, 0.8"),
        (("vdd<low",), "compares with one number"),
        (("vdd<0.4,0.8",), "compares with one number"),
        (("technique<1",), "technique is no number"),
        (("technique=rrcd", "technique=base"), "nothing has all of it; alternatives"),
    ],
)
def test_conditions_that_select_nothing_say_why(texts, words):
    with pytest.raises(UserError, match=words) as error:
        places(*texts)
    assert str(error.value).startswith(f"--where {texts[0]}")

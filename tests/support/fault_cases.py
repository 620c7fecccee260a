"""Lives that faults end at a known moment."""

from life_cases import YEAR, dvth

from mcage.lifetime import BISECTIONS


def becomes_faulty_at(seconds, duty_cycle=1.0):
    """Vmin of a cell that its shift brings above 1.0 V after so many seconds."""
    return 1.0 - dvth(seconds, duty_cycle)


def assert_ends_at(life, seconds, cause, epoch_years=1.0):
    """The moment is found by bisection of an epoch, from above."""
    assert life.end.cause == [cause]
    error = life.end.seconds[0] - seconds
    assert -1e-6 * seconds < error < 1.01 * epoch_years * YEAR / 2**BISECTIONS

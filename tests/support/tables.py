"""Many small cases in a test: what surrounds a test takes longer than a case of a few lines."""

import inspect
from contextlib import contextmanager

import pytest


def slow(*values):
    """A case of `pytest.mark.parametrize` that the daily tests leave out."""
    return pytest.param(*values, marks=pytest.mark.slow)


def each(names, cases):
    """As `pytest.mark.parametrize`, but all cases are a single test, which names what fails.

    For cases that take a few milliseconds, of tests whose fixtures keep nothing from case to case.

    Parameters
    ----------
    names : str or sequence of str
        Of the parameters that differ.
    cases : iterable
        Their values; of a single name, the values themselves.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    table = [dict(zip(names, case if len(names) > 1 else [case], strict=True)) for case in cases]
    assert table, "no case"

    def decorate(test):
        def run(**fixtures):
            for case in table:
                with _named(test, case):
                    test(**fixtures, **case)

        signature = inspect.signature(test)
        left = [it for name, it in signature.parameters.items() if name not in names]
        assert len(left) == len(signature.parameters) - len(names)
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(run, name, getattr(test, name))
        run.__signature__ = signature.replace(parameters=left)
        return run

    return decorate


@contextmanager
def _named(test, case):
    """Add to whatever ends the case what the case is."""
    try:
        yield
    except BaseException as error:  # as is what `pytest.fail` raises
        shown = ", ".join(f"{name}={value!r}" for name, value in case.items())
        error.add_note(f"in the case {test.__name__}({shown})")
        raise

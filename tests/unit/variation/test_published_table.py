"""Maps selected for their closeness to the published table."""

import numpy as np
import pytest

from mcage.errors import UserError
from mcage.variation import published_table
from mcage.variation.fault_maps import class_shares, faulty_bits
from mcage.variation.fault_models import FaultModel
from mcage.variation.field import sample_field
from mcage.variation.published_table import select_attempts, worst_class_deviation
from mcage.variation.scenarios import scenario
from mcage.variation.vmin_tail import sample_tail

COMMON = scenario("common")


def deviations(model: FaultModel, seed: int, instances: np.ndarray) -> np.ndarray:
    vdd = model.scenario.vdd_volts
    cells = model.sample(seed, instances, vdd)
    shares = class_shares(faulty_bits(cells, cells.vmin_volts > vdd))
    return worst_class_deviation(shares, model.scenario)


def test_deviation_by_hand() -> None:
    shares = np.array([[0.34, 0.33, 0.20, 0.10, 0.03], [0.30, 0.33, 0.20, 0.10, 0.07]])
    np.testing.assert_allclose(worst_class_deviation(shares, COMMON), [0, 0.04], atol=1e-15)


@pytest.mark.parametrize(
    ("name", "percent"),
    [  # of 4000 maps at 5, 3 and 2 points, found when the parameters were fitted
        ("common", (36, 10, 2.2)),
        ("clustered", (4.6, 0.8, 0.13)),
        ("dispersed", (79, 32, 9.7)),
    ],
)
def test_acceptance(name: str, percent: tuple[float, ...]) -> None:
    """Within 4.4 standard errors of both samples, plus half a unit of the last digit."""
    maps, model = 1000, FaultModel(scenario(name))
    found = deviations(model, 11, np.arange(maps))
    for tolerance, rate in zip((0.05, 0.03, 0.02), np.array(percent) / 100, strict=True):
        accepted = (found <= tolerance).mean()
        error = np.sqrt(rate * (1 - rate) * (1 / maps + 1 / 4000))
        assert abs(accepted - rate) < 4.4 * error + 0.005, tolerance


@pytest.mark.parametrize(
    ("name", "tolerance"), [("common", 0.03), ("clustered", 0.06), ("dispersed", 0.03)]
)
def test_selected_maps_are_close_to_the_table(name: str, tolerance: float) -> None:
    model = FaultModel(scenario(name), "varius-selected", tolerance=tolerance)
    instances = np.arange(30)
    assert np.all(deviations(model, 2, instances) <= tolerance)
    assert not np.all(deviations(FaultModel(scenario(name)), 2, instances) <= tolerance)
    assert model.grows


def test_first_slice_is_kept_where_it_will_do() -> None:
    model = FaultModel(COMMON, "varius-selected", tolerance=0.05)
    instances = np.arange(40)
    attempts = select_attempts(COMMON, 1, instances, 0.05)
    np.testing.assert_array_equal(attempts, model.attempts(1, instances))
    first = deviations(FaultModel(COMMON), 1, instances) <= 0.05
    np.testing.assert_array_equal(attempts == 0, first)
    assert 5 < first.sum() < 30
    plain, chosen = (
        FaultModel(COMMON).sample(1, instances, 0.419),
        model.sample(1, instances, 0.419),
    )
    for i in instances:
        mine = [cells.cell[slice(*cells.offsets[i : i + 2])] for cells in (plain, chosen)]
        assert np.array_equal(*mine) == first[i]


def test_attempts_are_the_first_that_will_do() -> None:
    instances = np.array([3, 4, 5])  # rejected: three, three and at least one
    attempts = select_attempts(COMMON, 1, instances, 0.05)
    assert attempts.max() >= 2
    for instance, chosen in zip(instances.tolist(), attempts.tolist(), strict=True):
        tries = np.arange(chosen + 1)
        cells = sample_tail(COMMON, 1, np.full(chosen + 1, instance), 0.419, attempts=tries)
        found = worst_class_deviation(
            class_shares(faulty_bits(cells, cells.vmin_volts > 0.419)), COMMON
        )
        assert np.flatnonzero(found <= 0.05).tolist() == [chosen]
        fields = sample_field(COMMON, 1, np.full(chosen + 1, instance), tries)
        assert len(np.unique(fields[:, 0, 0])) == chosen + 1


def test_selection_does_not_depend_on_the_batch_nor_the_floor() -> None:
    model = FaultModel(COMMON, "varius-selected", tolerance=0.03)
    whole = model.attempts(5, np.arange(8))
    parts = [model.attempts(5, np.array(ids)) for ids in ([7, 2], [5])]
    np.testing.assert_array_equal(np.concatenate(parts), whole[[7, 2, 5]])
    low, high = (model.sample(5, np.arange(8), floor) for floor in (0.39, 0.45))
    kept = low.vmin_volts > 0.45
    np.testing.assert_array_equal(high.cell, low.cell[kept])
    np.testing.assert_array_equal(high.vmin_volts, low.vmin_volts[kept])
    assert model.attempts(5, np.arange(0)).shape == (0,)


def test_other_vdd_is_refused() -> None:
    model = FaultModel(COMMON, "varius-selected")
    model.check_vdd(0.419)
    with pytest.raises(UserError, match=r"mode varius-selected knows scenario common at 0.419 V"):
        model.check_vdd(0.45)


def test_hopeless_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message gives the closest of all maps, so that a tolerance can be chosen."""
    monkeypatch.setattr(published_table, "MAX_ATTEMPTS", 40)
    seen = []
    deviations_of = published_table._deviations

    def record(*arguments: object) -> np.ndarray:
        found = deviations_of(*arguments)  # type: ignore[arg-type]
        seen.append(found[-1])
        return found

    monkeypatch.setattr(published_table, "_deviations", record)
    model = FaultModel(COMMON, "varius-selected", tolerance=0.001)
    with pytest.raises(UserError) as refused:
        model.sample(1, np.array([9]), 0.4)
    assert len(seen) == 40
    assert str(refused.value) == (
        "scenario common, tolerance = 0.001: of 40 maps drawn for instance 9, the closest is "
        f"{min(seen):.4f} off the table in its worst class; use a larger tolerance"
    )

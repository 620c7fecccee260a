"""Sequences of kernels: weights, chains, recorded launches."""

import numpy as np
import pytest

from mcage.errors import UserError
from mcage.gpu.gating.spec import GpuWorkload
from mcage.gpu.gating.workload import kernel_shares

NAMES = ("a", "b", "c")
GPUS = np.arange(4)


def shares(start=0.0, end=7.0, instances=GPUS, **fields):
    workload = GpuWorkload.model_validate(fields)
    return kernel_shares(workload, NAMES, 3650.0, 1, instances).between(start, end)


def test_kernels_have_equal_shares_unless_weights_say_otherwise():
    np.testing.assert_allclose(shares(), np.full((3, 1), 1 / 3))
    np.testing.assert_allclose(shares(weights={"a": 3, "c": 1})[:, 0], [0.75, 0, 0.25])


def test_a_chain_settles_in_its_stationary_distribution():
    chain = {"a": {"b": 1.0}, "b": {"a": 0.5, "c": 0.5}, "c": {"a": 1.0}}
    np.testing.assert_allclose(shares(transitions=chain)[:, 0], [0.4, 0.4, 0.2])


def test_a_chain_that_falls_apart_is_refused():
    chain = {"a": {"a": 1.0}, "b": {"b": 1.0}, "c": {"a": 1.0}}
    with pytest.raises(UserError, match="some kernels never lead to others"):
        shares(transitions=chain)


def test_jobs_follow_their_chain():
    chain = {"a": {"b": 1.0}, "b": {"a": 0.5, "c": 0.5}, "c": {"a": 1.0}}
    workload = GpuWorkload(transitions=chain, job_days=1.0)
    jobs = kernel_shares(workload, NAMES, 3650.0, 1, GPUS)
    days = np.stack([jobs.between(day, day + 1) for day in range(300)])
    assert set(np.unique(days)) == {0.0, 1.0}
    kernels = days.argmax(axis=1)
    steps = set(zip(kernels[:-1].ravel().tolist(), kernels[1:].ravel().tolist(), strict=True))
    assert steps == {(0, 1), (1, 0), (1, 2), (2, 0)}
    np.testing.assert_allclose(days.mean(axis=(0, 2)), [0.4, 0.4, 0.2], atol=0.03)


def test_a_job_that_an_interval_cuts_counts_in_part():
    jobs = kernel_shares(GpuWorkload(job_days=3.0), NAMES, 3650.0, 1, GPUS)
    whole = np.stack([jobs.between(3 * job, 3 * job + 3) for job in range(4)])
    np.testing.assert_allclose(
        jobs.between(2.0, 10.0), (whole[0] + 3 * whole[1] + 3 * whole[2] + whole[3]) / 8
    )


def test_jobs_of_a_gpu_depend_on_its_id_only():
    workload = GpuWorkload(job_days=2.0)
    all_gpus = kernel_shares(workload, NAMES, 100.0, 1, GPUS).between(0, 90)
    last = kernel_shares(workload, NAMES, 100.0, 1, GPUS[3:]).between(0, 90)
    np.testing.assert_array_equal(all_gpus[:, 3:], last)


def test_a_recorded_sequence_is_repeated_to_the_second(tmp_path):
    path = tmp_path / "launches.csv"
    path.write_text("# seen\nkernel,size,seconds\na,1,86400\nb,2,172800\na,1,86400\n")
    recorded = {"recorded": str(path)}
    np.testing.assert_allclose(shares(0, 4, **recorded)[:, 0], [0.5, 0.5, 0])
    np.testing.assert_allclose(shares(0.5, 2, **recorded)[:, 0], [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(shares(3, 5.5, **recorded)[:, 0], [2 / 2.5, 0.5 / 2.5, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel\na\n", "the columns kernel and seconds are needed"),
        ("kernel,seconds\nd,1\n", "row 1: kernel 'd' is unknown"),
        ("kernel,seconds\na,nan\n", "row 1: seconds = 'nan' must be above 0"),
        ("kernel,seconds\na,1\nb,-1\n", "row 2: seconds = '-1' must be above 0"),
        ("kernel,seconds\n", "there is no launch in it"),
    ],
)
def test_recorded_sequences_that_are_none(tmp_path, text, message):
    path = tmp_path / "launches.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=rf"launches\.csv: {message}"):
        shares(recorded=str(path))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weights": {"d": 1.0}}, "workload.weights: kernel 'd' is unknown"),
        ({"transitions": {"a": {"a": 1.0}}}, "workload.transitions.'b' is missing"),
        ({"job_days": 0.01}, "365,000 jobs in 10 years"),
    ],
)
def test_workloads_that_make_no_sense(fields, message):
    with pytest.raises(UserError, match=message):
        shares(**fields)

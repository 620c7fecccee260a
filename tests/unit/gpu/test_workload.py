"""Sequences of kernels: weights, chains, recorded launches."""

import numpy as np
import pytest
from tables import each

from mcage.errors import UserError
from mcage.gpu.gating.spec import GpuWorkload, read_launches
from mcage.gpu.gating.workload import kernel_shares

NAMES = ("a", "b", "c")
GPUS = np.arange(4)


def shares_of(workload, horizon_days=3650.0, instances=GPUS):
    return kernel_shares(workload, NAMES, horizon_days, 1)(instances)


def shares(start=0.0, end=7.0, **fields):
    return shares_of(GpuWorkload.model_validate(fields)).between(start, end)


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
    jobs = shares_of(workload)
    days = np.stack([jobs.between(day, day + 1) for day in range(300)])
    assert set(np.unique(days)) == {0.0, 1.0}
    kernels = days.argmax(axis=1)
    steps = set(zip(kernels[:-1].ravel().tolist(), kernels[1:].ravel().tolist(), strict=True))
    assert steps == {(0, 1), (1, 0), (1, 2), (2, 0)}
    np.testing.assert_allclose(days.mean(axis=(0, 2)), [0.4, 0.4, 0.2], atol=0.03)


def test_a_job_that_an_interval_cuts_counts_in_part():
    jobs = shares_of(GpuWorkload(job_days=3.0))
    whole = np.stack([jobs.between(3 * job, 3 * job + 3) for job in range(4)])
    np.testing.assert_allclose(
        jobs.between(2.0, 10.0), (whole[0] + 3 * whole[1] + 3 * whole[2] + whole[3]) / 8
    )


def test_jobs_of_a_gpu_depend_on_its_id_only():
    workload = GpuWorkload(job_days=2.0)
    all_gpus = shares_of(workload, 100.0).between(0, 90)
    last = shares_of(workload, 100.0, GPUS[3:]).between(0, 90)
    np.testing.assert_array_equal(all_gpus[:, 3:], last)


@pytest.fixture
def launches(tmp_path):
    """Reads the file launches.csv of a text."""

    def read(text):
        path = tmp_path / "launches.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return {"recorded": read_launches(path)}

    return read


def test_a_recorded_sequence_is_repeated_to_the_second(launches):
    recorded = launches("# seen\nkernel,size,seconds\na,1,86400\nb,2,172800\n\na,1,86400\n")
    np.testing.assert_allclose(shares(0, 4, **recorded)[:, 0], [0.5, 0.5, 0])
    np.testing.assert_allclose(shares(0.5, 2, **recorded)[:, 0], [1 / 3, 2 / 3, 0])
    np.testing.assert_allclose(shares(3, 5.5, **recorded)[:, 0], [2 / 2.5, 0.5 / 2.5, 0])


def test_a_recorded_sequence_as_a_spreadsheet_saves_it(launches):
    recorded = launches(b'\xef\xbb\xbfkernel,seconds\r\n"a", 1.5e2\r\nb,50\r\n')
    np.testing.assert_allclose(shares(0, 200 / 86_400, **recorded)[:, 0], [0.75, 0.25, 0])


SEQUENCE = "kernel,seconds\n"


@each(
    ("text", "message"),
    [
        ("kernel\na\n", "the column seconds is missing"),
        (SEQUENCE + "d,1\n", "line 2: kernel 'd' is unknown"),
        (SEQUENCE + "a,nan\n", "line 2: seconds = 'nan' must be a number, 1e-09"),
        (SEQUENCE + "a,1\n# b\nb,-1\n", "line 4: seconds = '-1' must be a number"),
        (SEQUENCE + "a,1e-320\n", "line 2: seconds = '1e-320' must be a number"),
        (SEQUENCE + "a,1_0\n", "line 2: seconds = '1_0' must be a number"),
        (SEQUENCE + "a,1,234\n", "line 2: 3 values, but 2 columns"),
        (SEQUENCE + "a\n", "line 2: 1 values, but 2 columns"),
        ("kernel,seconds,seconds\na,1,2\n", "line 1: the column 'seconds' stands there twice"),
        (SEQUENCE + 'a,"1\n', "line 2: no CSV"),
        (SEQUENCE + "a,1\n" + "a" * 131_073 + ",1\n", "line 3: no CSV .field larger than"),
        (SEQUENCE + "a,1\n" * 50_001, "line 50002: more than 50,000 rows"),
        (SEQUENCE.encode() + b"\xff,1\n", "the file is no UTF-8 text"),
        (SEQUENCE, "there is no row in it"),
    ],
)
def test_recorded_sequences_that_are_none(launches, text, message):
    with pytest.raises(UserError, match=rf"launches\.csv: {message}"):
        shares(**launches(text))


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

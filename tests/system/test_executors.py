"""Do threads, processes and Dask make the same file, and does none of them leave a thing?"""

import logging
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver, get_context
from unittest.mock import patch

import darts
import pytest
from campaign_cases import Listener

from mcage.campaign import processes as processes_module
from mcage.campaign.executors import Threads
from mcage.campaign.processes import Processes
from mcage.campaign.run import run_campaign
from mcage.campaign.shards import shard_folder
from mcage.concurrency import device_sharers, limit_cores, usable_cores
from mcage.errors import UserError

INSTANCES = 60

make = partial(darts.pi_by_darts, INSTANCES)
"""Makes the study, in any process."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "pi.h5"
    return run_campaign(darts.pi_by_darts(INSTANCES), out, 25).read_bytes()


@pytest.fixture(scope="module")
def processes():
    with Processes(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    from mcage.campaign.processes import Dask

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield Dask(client)
    limit_cores(sys.maxsize)  # the workers were threads of this process


def slow(place):
    return pytest.param(place, marks=pytest.mark.slow)


@pytest.fixture(params=["threads", "processes", slow("dask")])
def executor(request):
    return Threads() if request.param == "threads" else request.getfixturevalue(request.param)


@pytest.mark.parametrize("shard_size", [None, 7])
def test_the_file_does_not_depend_on_the_place(shard_size, executor, whole, tmp_path):
    out, listener = tmp_path / "pi.h5", Listener()
    study = executor.study(make)
    run_campaign(study, out, shard_size, listener, executor)
    assert out.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [out]
    assert listener.advanced == INSTANCES


def test_a_defect_reaches_the_caller_and_finished_shards_stay(executor, tmp_path):
    out = tmp_path / "pi.h5"
    with pytest.raises(ZeroDivisionError):
        run_campaign(darts.pi_by_darts(INSTANCES, fails_at=30), out, 7, executor=executor)
    (folder,) = tmp_path.iterdir()
    names = sorted(path.name for path in folder.iterdir())
    assert names[-2:] == ["lock", "status.json"]
    assert len(names) > 1


def test_a_rule_ends_the_campaign_where_it_does_in_threads(executor, tmp_path):
    study = darts.pi_by_darts(5000, darts=100, rel_ci=0.0037)
    here = run_campaign(study, tmp_path / "here.h5", 400)
    there = run_campaign(study, tmp_path / "there.h5", None, executor=executor)
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.parametrize("place", ["processes", slow("cluster")])
def test_a_shard_that_ends_its_worker_is_computed_again(place, whole, tmp_path, request):
    executor = request.getfixturevalue(place)
    study = deadly(tmp_path, times=2)
    out = tmp_path / "pi.h5"
    run_campaign(study, out, 7, executor=executor)
    plain = run_campaign(darts.study(study.header), tmp_path / "plain.h5", 60)
    assert out.read_bytes() == plain.read_bytes()
    assert (tmp_path / "deaths").stat().st_size == 2
    assert not shard_folder(out).exists()


@pytest.mark.parametrize("place", ["processes", slow("cluster")])
def test_a_shard_that_ends_all_workers_is_named(place, tmp_path, request):
    executor = request.getfixturevalue(place)
    out = tmp_path / "pi.h5"
    with pytest.raises(UserError, match="3 workers have died with instances 28-34 "):
        run_campaign(deadly(tmp_path, times=100), out, 7, executor=executor)
    deaths = (tmp_path / "deaths").stat().st_size
    # Dask blames a shard, too, that it has sent to a worker which was dead already.
    assert deaths == 3 if place == "processes" else deaths >= 2
    left = [
        path for path in shard_folder(out).iterdir() if path.name not in ("lock", "status.json")
    ]
    assert all(path.suffix == ".h5" for path in left)


@pytest.mark.parametrize("place", ["processes", slow("cluster")])
def test_workers_that_die_while_they_prepare_are_replaced(place, tmp_path, request):
    executor = request.getfixturevalue(place)
    deaths = str(tmp_path / "deaths")
    study = executor.study(partial(darts.pi_after_deaths, INSTANCES, deaths, 1))
    assert study.header == make().header
    with pytest.raises(UserError, match="3 workers have died while they prepared the study "):
        executor.study(partial(darts.pi_after_deaths, INSTANCES, deaths, 100))


def deadly(folder, times):
    """A campaign with an instance that ends its worker so often."""
    return darts.pi_by_darts(INSTANCES, dies_at=30, deaths=str(folder / "deaths"), times=times)


@pytest.fixture(scope="module")
def cluster():
    """Dask workers in processes of their own, which may die.

    About ten are started: they are forked from a process that has imported what they need.
    """
    distributed = pytest.importorskip("distributed")
    import dask

    from mcage.campaign.processes import connected

    get_context("forkserver").set_forkserver_preload(
        ["distributed.nanny", "distributed.worker", "mcage.campaign.processes"]
    )
    options = {
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.scheduler.allowed-failures": 0,  # each death is reported
    }
    with (
        patch.object(distributed.utils, "_forkserver_preload_set", True),
        dask.config.set(options),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=None,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        ) as cluster,
        connected(cluster.scheduler_address) as executor,
    ):
        yield executor
    forkserver._forkserver._stop()


@pytest.mark.slow
def test_a_worker_of_dask_cuda_takes_the_first_device_that_it_sees(dask, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,0,1")
    dask.study(make)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2"


@pytest.mark.slow
def test_workers_of_dask_have_as_many_cores_as_threads(dask):
    assert dask.study(cores_as_threads).threads == 1


def cores_as_threads():
    return replace(make(), threads=usable_cores())


@pytest.mark.parametrize(("visible", "seen"), [(None, ["0", "2", "0"]), ("5,6,7", ["5", "7", "5"])])
def test_processes_take_turns_with_the_devices(visible, seen, monkeypatch):
    """As the variable of the process names them, which may show it some of them only."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with Processes(3, (0, 2)) as executor:
        assert [worker._environment()["CUDA_VISIBLE_DEVICES"] for worker in executor._crew] == seen


@pytest.mark.parametrize(("devices", "share"), [((), 2), ((0, 1), 1)])
def test_processes_know_how_many_share_a_device(devices, share):
    with Processes(2, devices) as executor:
        assert executor.ask(device_sharers) == share


def test_the_process_that_asks_imports_no_cupy(monkeypatch):
    """Workers make the study; a client that touches a device takes memory of it."""
    script = (
        "import sys\n"
        "from functools import partial\n"
        "class Trap:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        assert name.partition('.')[0] != 'cupy'\n"
        "sys.meta_path.insert(0, Trap())\n"
        "from mcage.campaign.processes import Processes\n"
        "from mcage.spec import SweepSpec\n"
        "from mcage.functions import study_of\n"
        "spec = SweepSpec.from_mapping({'instances': 1, 'techniques': ['baseline'],\n"
        "    'workload': {'kernels': ['MatrixTranspose'], 'periods': 1, 'generations': 1}})\n"
        "with Processes(1) as executor:\n"
        "    print(executor.study(partial(study_of, spec)).header.engine_reason)\n"
    )
    path = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", script]
    run = subprocess.run(line, capture_output=True, text=True, env=path)
    assert run.returncode == 0, run.stderr
    assert "GPU" in run.stdout


def test_a_worker_that_does_not_start_is_an_error(monkeypatch):
    monkeypatch.setattr(processes_module, "MODULE", "mcage.no_such_module")
    with Processes(1) as executor, pytest.raises(UserError, match="worker 1 does not start"):
        executor.study(make)


def test_a_study_of_one_process_only(processes, tmp_path):
    homeless = replace(make(), maker="")
    with pytest.raises(UserError, match="names no maker: only one process can compute it"):
        run_campaign(homeless, tmp_path / "pi.h5", executor=processes)

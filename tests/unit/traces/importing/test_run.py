"""What an import leaves in its folder: all traces or none, and what was there before."""

import errno
import os

import pytest
from import_samples import imported

from mcage.errors import UserError

TWO_SLICES = """# lanes: 32
cycle,event,window,register,values,size,unit
0,alloc,a,,,1,0
0,alloc,b,,,1,1
1,write,a,0,{0},,
1,write,b,0,{0},,
"""


@pytest.fixture
def fails_at(monkeypatch):
    """Lets a call of the system fail for the n-th time that it is made."""

    def fail(name, call):
        real, calls = getattr(os, name), []

        def failing(*arguments):
            calls.append(arguments)
            if len(calls) == call:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        monkeypatch.setattr(os, name, failing)

    return fail


def import_of(value, tmp_path, folder):
    (tmp_path / "run.csv").write_text(TWO_SLICES.format(value))
    return imported([tmp_path / "run.csv"], folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "call", "slice_"),
    [("fsync", 1, 0), ("fsync", 2, 1), ("replace", 1, 1), ("replace", 2, 0)],
)
def test_traces_that_were_there_stay_when_a_write_fails(name, call, slice_, tmp_path, fails_at):
    folder = tmp_path / "traces"
    import_of(1, tmp_path, folder)
    before = contents(folder)
    assert set(before) == {"run.sm0.part0.h5", "run.sm1.part0.h5"}
    fails_at(name, call)
    with pytest.raises(UserError, match=rf"run\.sm{slice_}\.part0\.h5: No space left"):
        import_of(2, tmp_path, folder)
    assert contents(folder) == before


@pytest.mark.parametrize(("name", "call"), [("mkdir", 3), ("fsync", 2), ("replace", 2)])
def test_an_import_that_fails_leaves_no_new_folder(name, call, tmp_path, fails_at):
    fails_at(name, call)
    with pytest.raises(UserError, match="No space left"):
        import_of(1, tmp_path, tmp_path / "new" / "traces")
    assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]


def test_more_slices_than_files_that_may_be_open(tmp_path):
    resource = pytest.importorskip("resource")
    rows = "".join(f"0,alloc,w{n},,,1,{n}\n1,write,w{n},0,1,,\n" for n in range(12))
    (tmp_path / "run.csv").write_text(TWO_SLICES[: TWO_SLICES.index("0,alloc")] + rows)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, hard))
    try:
        assert len(imported([tmp_path / "run.csv"], tmp_path / "traces").slices) == 12
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(list((tmp_path / "traces").iterdir())) == 12

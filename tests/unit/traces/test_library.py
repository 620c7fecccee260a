"""The bundled traces: there, whole, what the papers' tables say of them, and found by name."""

from importlib.resources import files

import pytest
from tables import each
from trace_strategies import alloc, pattern, read, release, trace_of, write

from mcage.errors import UserError
from mcage.traces.library import KERNELS, SHORT_NAMES, bundled_trace, open_trace
from mcage.traces.storage import save_trace
from mcage.traces.summary import summarize_trace

# Window sizes and windows at once: they fit the utilisations of Valero et al., IEEE TC 2019,
# Table 5, but for MatrixMultiplication (81 percent instead of 80) and the two programs of two
# kernels. Compressible shares: percent of the writes, with delta limit 64 and without.
EXPECTED = {
    "BlackScholes": ((62,), 4, 15.9, 15.9),
    "DCT": ((11,), 16, 69.8, 72.1),
    "Histogram": ((26,), 8, 19.4, 28.5),
    "MatrixMultiplication": ((69,), 3, 7.8, 38.5),
    "MatrixTranspose": ((4,), 16, 61.5, 92.3),
    "QuasiRandomSequence": ((37,), 4, 75.9, 76.2),
    "RadixSort": ((19, 22), 8, 30.0, 75.5),
    "Reduction": ((13,), 16, 10.2, 28.5),
    "ScanLargeArrays": ((3, 10), 16, 40.8, 44.6),
    "SimpleConvolution": ((15,), 16, 72.3, 72.3),
}


@pytest.mark.parametrize("name", KERNELS)
def test_bundled_trace(name):
    trace = bundled_trace(name)
    numbers = summarize_trace(trace)
    window_sizes, at_once, with_64, with_none = EXPECTED[name]
    assert trace.name == name
    assert trace.source["benchmark"] == name
    assert trace.window_sizes == window_sizes
    assert trace.concurrent_windows == at_once
    assert trace.generations >= 4
    assert 100 * numbers.compressible_shares["64"] == pytest.approx(with_64, abs=0.06)
    assert 100 * numbers.compressible_shares["none"] == pytest.approx(with_none, abs=0.06)
    for shares in (numbers.pattern_shares, numbers.wc_shares):
        assert sum(shares.values()) == pytest.approx(1)
    regular = 1 - numbers.pattern_shares["other"]
    assert numbers.compressible_shares["none"] == pytest.approx(regular)


def test_mean_compressible_shares():
    """About 52 percent of the writes have a pattern in the papers; 54.4 in these traces."""
    shares = [summarize_trace(bundled_trace(name)).compressible_shares for name in KERNELS]
    assert sum(share["64"] for share in shares) / 10 == pytest.approx(0.405, abs=5e-3)
    assert sum(share["none"] for share in shares) / 10 == pytest.approx(0.544, abs=5e-3)


def test_size_of_the_bundle():
    folder = files("mcage") / "data" / "traces"
    sizes = {path.name: len(path.read_bytes()) for path in folder.iterdir()}
    assert set(sizes) == {f"{name}.h5" for name in KERNELS}
    assert sum(sizes.values()) < 15_000_000


@pytest.mark.parametrize("spelled", ["DCT", "dct", "Dct"])
def test_names_in_any_case(spelled):
    assert open_trace(spelled).name == "DCT"


@pytest.mark.parametrize("name", ["MatrixTranspose", "QuasiRandomSequence", "Reduction"])
def test_short_names(name):
    assert open_trace(SHORT_NAMES[name].lower()).name == name
    assert bundled_trace(SHORT_NAMES[name]).name == name


def test_short_names_are_those_of_the_papers():
    names = " ".join(SHORT_NAMES.values())
    assert names == "BlackS DCT Histog MatrixM MatrixT QRandS RadixS Reduct ScanLArr SimConv"


@each("opening", [open_trace, bundled_trace])
@each("name", ["MatrixTransposeB16", "", "nowhere/trace.h5"])
def test_unknown_name_lists_the_known_ones(opening, name):
    with pytest.raises(UserError, match=r"BlackScholes, DCT, .*SimpleConvolution") as caught:
        opening(name)
    assert repr(name) in str(caught.value)


def test_path(tmp_path):
    save_trace(by_hand(), tmp_path / "mine.h5")
    assert open_trace(tmp_path / "mine.h5").digest() == by_hand().digest()
    assert open_trace(str(tmp_path / "mine.h5")).digest() == by_hand().digest()


def test_name_goes_before_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_trace(by_hand(), "dct")
    assert open_trace("dct").name == "DCT"
    assert open_trace("./dct").name == "by hand"


# ---- profile ---------------------------------------------------------------------------------


def by_hand():
    """Windows of 64 registers: one for 10 cycles, a second beside it for 5 of them."""
    broken_late = pattern(0, 1, 8)
    broken_late[63] = 0
    return trace_of(
        [
            alloc(0, 0, 64),
            write(0, 0, 0, 7),  # constant
            write(1, 0, 1, pattern(0, 1, 8)),  # single-delta
            write(2, 0, 2, pattern(0, 4, 1024)),  # double-delta, beyond the limit of 64
            write(3, 0, 3, broken_late),  # other, and mispredicted
            write(4, 0, 3, broken_late, lanes=1),  # other, divergent: nothing was predicted
            read(4, 0, 3),
            alloc(5, 1, 64),
            release(10, 0),
            release(10, 1),
        ],
        cycles=20,
    )


def test_profile_by_hand():
    numbers = summarize_trace(by_hand())
    assert (numbers.writes, numbers.reads, numbers.windows, numbers.generations) == (5, 1, 2, 1)
    assert numbers.pattern_shares == {
        "constant": 0.2,
        "single-delta": 0.2,
        "double-delta": 0.2,
        "other": 0.4,
    }
    assert numbers.compressible_shares == {"64": 0.4, "none": 0.6}
    assert numbers.mispredicted_shares == {"64": 0.2, "none": 0.2}
    assert numbers.divergent_share == 0.2
    assert numbers.wc_shares == {"4": 0.2, "67": 0.6, "130": 0.2, "256": 0.0}
    assert numbers.peak_utilisation == 0.5
    assert numbers.mean_utilisation == (10 * 64 + 5 * 64) / (20 * 256)

"""What a type checker must know of a script that uses mcage; `mypy` checks it, nothing runs it.

`assert_type` fails where a name has become `Any`, and an ignored error must be one.
"""

from pathlib import Path
from typing import Any, assert_type

import xarray as xr

import mcage


def script() -> None:
    spec = mcage.SweepSpec(techniques=["rrcd"], life={"horizon_years": 5.0}, vdd_volts=0.42)
    assert_type(spec, mcage.SweepSpec)
    assert_type(mcage.run_sweep(spec, "results.h5"), Path)
    assert_type(mcage.run(mcage.VminSpec(), "vmin.h5", shard_size=100), Path)
    assert_type(mcage.merge("results.h5", ["part.shards"]), Path)
    assert_type(mcage.verify("results.h5"), list[str])
    assert_type(mcage.avf("DCT"), list[dict[str, Any]])
    results = mcage.open_results(Path("results.h5"))
    assert_type(results.sel(technique="rrcd").mcage, mcage.Analysis)
    assert_type(results.mcage.cube("technique", "environment"), xr.Dataset)
    assert_type(results["life_years"], xr.DataArray)
    assert_type(mcage.replay("Reduction", "rrcd"), dict[str, Any])
    assert_type(mcage.replay(mcage.open_trace("DCT"), mcage.technique("rrcd")), dict[str, Any])
    assert_type(mcage.failure_probability(spec, 3.0), mcage.RareEstimate)
    years = results["life_years"].values
    assert_type(mcage.life_quantile(years, years < 10.0), mcage.Estimate)


def mistakes() -> None:
    mcage.SweepSpec(technique=["rrcd"])  # type: ignore[call-arg]
    mcage.run_sweep("spec.toml", "results.h5")  # type: ignore[arg-type]
    mcage.run_swep  # type: ignore[attr-defined]  # noqa: B018
    mcage.open_results("results.h5").mcage.survivall()  # type: ignore[attr-defined]
    mcage.vmin(spec := mcage.GatingSpec(), "vmin.h5")  # type: ignore[arg-type]
    mcage.run(spec, "r.h5", shards=3)  # type: ignore[call-arg]
    mcage.SweepSpec(instances="many")  # type: ignore[arg-type]

"""Does a page call only that published which is?"""

import tomllib

import fake_campaign
from places import ROOT
from sweep_cases import small_spec

from mcage.report.page.assumptions import assumptions_of


def test_constants_of_costs_are_said_to_be_what_their_status_says():
    """Some constants of each technology are printed nowhere, and the page has to say so."""
    costs = tomllib.loads((ROOT / "mcage" / "data" / "costs.toml").read_text())
    statuses = {constant["status"] for constant in costs["28nm"]["lds"].values()}
    assert statuses == {"assumed"}
    assert costs["unhidden_fraction"]["wakeup"]["status"] == "reconstructed"
    header = fake_campaign.campaign(instances=2, spec_toml=small_spec().to_toml())
    said = dict(assumptions_of(header))["Costs"]
    assert "constants of 28nm. " in said
    assert "of the LDS, of the destination buffer and of units of the other technology are" in said
    assert said.endswith("is fitted to published means or assumed.")
    mine = small_spec(costs={"tables": costs, "technology": "32nm"}).to_toml()
    header = fake_campaign.campaign(instances=2, spec_toml=mine)
    assert dict(assumptions_of(header))["Costs"] == (
        "Energy and slowdown with user-defined constants of 32nm (33 printed, 2 reconstructed, "
        "23 assumed)."
    )

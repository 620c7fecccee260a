"""Results files of a few instances, written without computing."""

from itertools import accumulate, pairwise

import fake_campaign

from mcage.results.writer import conforming, write_results

INSTANCES = 30


def write(path, sizes=(INSTANCES,), places=(0, 1, 2), **fields):
    """Write cases of the fake campaign, its instances arriving in pieces of the given sizes."""
    cases = tuple(fake_campaign.CAMPAIGN.cases[place] for place in places)
    campaign = fake_campaign.campaign(**{"instances": sum(sizes), "cases": cases} | fields)
    borders = [0, *accumulate(sizes)]
    pieces = (
        conforming(campaign, fake_campaign.of_cases(places, first, last), last - first)
        for first, last in pairwise(borders)
    )
    write_results(path, campaign, pieces)
    return campaign

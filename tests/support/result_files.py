"""Results files of a few instances, written without computing."""

from itertools import accumulate, pairwise

import fake_campaign

from mcage.results.writer import conforming, write_results

INSTANCES = 30


def write(path, sizes=(INSTANCES,)):
    """Write the fake campaign, its instances arriving in pieces of the given sizes."""
    campaign = fake_campaign.campaign(instances=sum(sizes))
    borders = [0, *accumulate(sizes)]
    pieces = (
        conforming(campaign, fake_campaign.compute(first, last), last - first)
        for first, last in pairwise(borders)
    )
    write_results(path, campaign, pieces)
    return campaign

"""Results files of a few instances, written without computing."""

import fake_campaign

from mcage.results.conform import conforming
from mcage.results.writer import new_results

INSTANCES = 30


def write(path, sizes=(INSTANCES,)):
    """Write the fake campaign, its instances arriving in pieces of the given sizes."""
    campaign = fake_campaign.campaign(instances=sum(sizes))
    first = 0
    with new_results(path, campaign) as results:
        for size in sizes:
            arrays = fake_campaign.compute(first, first + size)
            results.append(conforming(campaign, arrays, size))
            first += size
    return campaign

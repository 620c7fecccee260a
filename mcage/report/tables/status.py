"""The table of `mcage status`: campaigns, their runs and workers, and what went wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from mcage.campaign.progress import duration
from mcage.campaign.status import CampaignStatus, RunRecord, heard, state_of
from mcage.report.tables import print_table, table_of_texts


def rows(statuses: Sequence[CampaignStatus]) -> list[dict[str, Any]]:
    """Campaigns as plain values, for programs."""
    return [
        {
            "file": str(status.out),
            "study": status.study,
            "state": status.state,
            "done": status.done,
            "instances": status.instances,
            "instances_per_second": status.instances_per_second,
            "seconds_left": status.seconds_left,
            "runs": [{**asdict(run), "state": state_of(run)} for run in status.runs],
        }
        for status in statuses
    ]


def print_statuses(statuses: Sequence[CampaignStatus], console: Console) -> None:
    """Print a line for each campaign, and below the table what its runs say."""
    lines = []
    for status in statuses:
        rate, left = status.instances_per_second, status.seconds_left
        workers = sum(run.processes for run in status.computing)
        lines.append(
            [
                str(status.out),
                status.study,
                status.state,
                f"{status.done}/{status.instances}",
                f"{rate:.3g}/s" if rate else "",
                duration(left) if left is not None else "",
                str(workers or ""),
            ]
        )
    headings = ("results file", "study", "state", "done", "rate", "time left", "workers")
    primary = ("results file", "state", "done", "time left")
    table = table_of_texts("", headings, lines, ("done", "rate"), primary)
    print_table(table, console, remedy="--json")
    for status in statuses:
        for line in _lines(status):
            console.print(line, soft_wrap=True)


def _lines(status: CampaignStatus) -> Iterator[str]:
    for run in status.runs:
        yield f"{_what(status, run)}: {state_of(run)}, last heard of: {heard(run)}"
        if run.deaths:
            plural = "s" if run.deaths > 1 else ""
            yield f"  {run.deaths} worker{plural} died; what they had begun was computed again"
        for message in run.messages:
            yield f"  {message}"


def _what(status: CampaignStatus, run: RunRecord) -> str:
    if run.last - run.first == run.of_campaign:
        return status.out.name
    return f"{status.out.name}, instances {run.first}-{run.last - 1}"

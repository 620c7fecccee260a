"""Which code computed the results of a file, if it is not this one."""

from mcage.results.header import SweepHeader, code_in_words
from mcage.version import running_code


def note_on_code(campaign: SweepHeader) -> str:
    """Sentence on the codes that computed a campaign; empty if all are the running one.

    Plug-ins are left out of the comparison: they are not imported to show a file.
    """
    here = running_code()
    if all((code.version, code.digest) == (here.version, here.digest) for code in campaign.codes):
        return ""
    accepted = " (other code was accepted)" if campaign.accepted_other_code else ""
    return f"computed by {code_in_words(campaign.codes)}{accepted}; this is {here}"

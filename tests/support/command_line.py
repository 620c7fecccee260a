"""Commands of mcage in this process: what becomes of them, and what they print."""

import json

from typer.testing import CliRunner

from mcage.cli.app import app


def invoke(*arguments, **settings):
    """What becomes of a command, whether or not it is refused."""
    return CliRunner().invoke(app, [*map(str, arguments)], **settings)


def run_mcage(*arguments):
    """What a command prints that must succeed; its refusal is raised."""
    result = invoke(*arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def from_json(*arguments):
    """What a command gives as JSON that must succeed."""
    return json.loads(run_mcage(*arguments, "--json"))

"""Options that several commands share and that set no key of a spec, or are outside of one."""

from typing import Annotated

import typer

from mcage.cli.spec_options import RUN, spec_option

Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Engine: auto, numpy, numba or cuda. Default: auto.",
        show_default=False,
        rich_help_panel=RUN,
    ),
]

Devices = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBERS",
        help="Devices of the engine cuda, such as 0,1. Default: all.",
        hidden=True,
        rich_help_panel=RUN,
    ),
]

ProgressKind = Annotated[
    str | None,
    typer.Option(
        "--progress",
        metavar="KIND",
        help="Progress on stderr: rich (a bar), plain, json (an object to a line) or none. "
        "Default: rich on a terminal, otherwise plain.",
        hidden=True,
        rich_help_panel=RUN,
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=RUN)]

ShowSpec = Annotated[
    bool,
    typer.Option(
        "--show-spec",
        help="Check the spec, print it as TOML, and stop.",
        rich_help_panel=RUN,
    ),
]

AcceptOtherCode = Annotated[
    bool,
    typer.Option(
        "--accept-other-code",
        help="Continue, or keep, what another version of the code has computed.",
        rich_help_panel=RUN,
    ),
]

Release = Annotated[
    str,
    typer.Option(metavar=spec_option("--release").metavar, help=spec_option("--release").help),
]

Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="TECHNIQUE=NAME",
        help="What people read for a technique or a policy, such as 'rrcd=RRCD (ours)'; files, CSV "
        "and JSON keep its name. May be given several times.",
    ),
]

RELEASE = spec_option("--release").default

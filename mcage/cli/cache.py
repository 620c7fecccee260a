"""``mcage cache``: where mcage keeps what is costly to compute, how large it is, and its end."""

from typing import Annotated

import typer


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove what is kept.")] = False,
) -> None:
    """Show what is kept on disk for later runs: where, how many, and how large it is.

    These are arrays, such as replays of kernels, and the machine code of the numba engine. Both are
    made again when they are needed. MCAGE_CACHE=FOLDER keeps arrays elsewhere, MCAGE_CACHE=off
    keeps none.
    """
    from mcage.files import disk_cache
    from mcage.plain_text import visible
    from mcage.version import PACKAGE

    user = disk_cache.user_folder()
    places = (
        ("files of arrays", disk_cache.cache_folder(), disk_cache.array_files),
        (
            "folders of machine code",
            PACKAGE / "engines" / "numba_engine" / "__pycache__",
            disk_cache.code_folders,
        ),
        ("folders of machine code", user, disk_cache.code_folders),
    )
    for what, place, listed in places:
        if place is None:
            continue
        kept = listed(place)
        size = sum(map(disk_cache.size_of, kept))
        cleared = clear and bool(kept) and all([disk_cache.remove(path) for path in kept])
        done = ", removed" if cleared else ""
        typer.echo(visible(f"{place}: {what}: {len(kept)}, {size / 1e6:,.1f} MB{done}"))
    typer.echo(
        f"Arrays take {disk_cache.MOST_BYTES >> 30} GiB at most; a place has machine code of at "
        f"most {disk_cache.MOST_CODE_FOLDERS} versions of mcage."
    )

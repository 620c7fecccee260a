"""HDF5 files that are damaged, forged, or made to do harm, for tests of whatever reads them.

A mutation is a function that takes the path of a sound file and changes the file in place. Those
of one kind of file stand in one table by name. Those of sealed files leave the seal behind broken:
`forge` applies one and seals again.
"""

import json
import os

import h5py
import numpy as np
from mutations import NOT_WRITABLE, change

from mcage.files.inputs import append_checksum_to

CHECKSUM_BYTES = len(b"\nmcage-seal blake2b ") + 64 + 1
REMOVED = object()
"""In place of an attribute's content: there is none."""


# ---- what any HDF5 file can suffer -----------------------------------------------------------


def _external_link(file, name, content):
    with h5py.File(f"{file.filename}.other", "w") as other:
        other["data"] = content
    file[name] = h5py.ExternalLink(f"{file.filename}.other", "data")


def _external_link_to_fifo(file, name, _):
    fifo = f"{file.filename}.fifo"
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    file[name] = h5py.ExternalLink(fifo, "data")


def _soft_link(file, name, content):
    file["elsewhere"] = content
    file[name] = h5py.SoftLink("/elsewhere")


def _soft_link_to_itself(file, name, _):
    file[name] = h5py.SoftLink(f"/{name}")


def _virtual(file, name, content, source="."):
    layout = h5py.VirtualLayout(content.shape, content.dtype)
    layout[...] = h5py.VirtualSource(source, name, content.shape)
    file.create_virtual_dataset(name, layout)


def _virtual_of_another(file, name, content):
    with h5py.File(f"{file.filename}.other", "w") as other:
        other[name] = content
    _virtual(file, name, content, f"{file.filename}.other")


def _external_storage(file, name, content):
    path = f"{file.filename}.raw"
    content.tofile(path)
    storage = [(path, 0, max(1, content.nbytes))]
    file.create_dataset(name, content.shape, content.dtype, external=storage)


def _lists(file, name, content):
    lists = file.create_dataset(name, (len(content),), h5py.vlen_dtype(np.int32))
    lists[0] = [1, 2, 3]


def _text(file, name, content):
    file.create_dataset(name, data=["x" * 10] * len(content), dtype=h5py.string_dtype())


def _references(file, name, content):
    references = file.create_dataset(name, content.shape, h5py.ref_dtype)
    references[(0,) * content.ndim] = file.ref


def _huge(file, name, content, **options):
    file.create_dataset(name, (1 << 31, *content.shape[1:]), content.dtype, **options)


def _deflated_zeros(file, name, content):
    row_bytes = content.itemsize * int(np.prod(content.shape[1:]))
    rows = (1 << 22) // row_bytes
    zeros = np.zeros((rows, *content.shape[1:]), content.dtype)
    shape = ((1 << 26) // row_bytes, *content.shape[1:])
    dataset = file.create_dataset(name, shape, content.dtype, chunks=zeros.shape, compression=9)
    for start in range(0, shape[0] - rows + 1, rows):
        dataset[start : start + rows] = zeros


def _one_large_chunk(file, name, content):
    shape = ((1 << 27) // content.itemsize, *content.shape[1:])
    chunks = (shape[0], *[1] * (len(shape) - 1))
    file.create_dataset(name, shape, content.dtype, chunks=chunks)


def _group_in_itself(file, name, _):
    group = file.create_group(name)
    group["again"] = group


def _as(make):
    """What stands in place of a dataset: a function of its content."""

    def put(file, name, content):
        file[name] = make(content)

    return put


DATASET_MUTATIONS = {
    "external link": _external_link,
    "external link to a FIFO": _external_link_to_fifo,
    "soft link": _soft_link,
    "soft link to itself": _soft_link_to_itself,
    "virtual dataset of itself": _virtual,
    "virtual dataset of another file": _virtual_of_another,
    "external storage": _external_storage,
    "lists": _lists,
    "text": _text,
    "records": _as(lambda content: np.zeros(content.shape, [("a", "i4"), ("b", "f8")])),
    "references": _references,
    "opaque": _as(lambda content: np.zeros(content.shape, "V7")),
    "wide floats": _as(lambda content: np.zeros(content.shape, np.longdouble)),
    "another rank": _as(lambda content: content[..., None]),
    "scalar": _as(lambda content: content.flat[0]),
    "empty": _as(lambda content: content[:0]),
    "huge and chunked": lambda *place: _huge(*place, chunks=True),
    "huge": _huge,
    "deflated zeros": _deflated_zeros,
    "one large chunk": _one_large_chunk,
    "group": lambda file, name, _: file.create_group(name),
    "group in itself": _group_in_itself,
    "committed type": _as(lambda content: content.dtype),
    "null dataspace": _as(lambda content: h5py.Empty(content.dtype)),
    "missing": lambda *_: None,
}
"""What may stand in place of a dataset: ``make(file, name, content)``."""

ATTRIBUTE_CONTENTS = {
    "null": h5py.Empty("i4"),
    "null text": h5py.Empty(h5py.string_dtype()),
    "record": np.zeros((), [("a", "i4"), ("b", "f8")]),
    "opaque": np.void(b"opaque"),
    "reference": lambda file: file.ref,
    "number": -(2**40),
    "real number": float("nan"),
    "numbers": np.arange(9),
    "no numbers": np.zeros(0),
    "truth": True,
    "text": 'no "such\n\x1b[31m{[',
    "texts": ["a", "b"],
    "no text": "",
    "long text": "x" * 50_000,
    "bytes": np.bytes_(b"\xff\xfe\x80"),
    "missing": REMOVED,
}
"""What may stand in an attribute, or a function of the file that gives it."""


def mutation(change):
    """What gives mutations that change an open file: ``change`` takes it, and what is given."""

    def of(*given):
        def mutate(path):
            with h5py.File(path, "r+") as file:
                change(file, *given)

        return mutate

    return of


@mutation
def dataset(file, name, make):
    """What ``make`` makes stands in place of a dataset."""
    content = file[name][()]
    del file[name]
    make(file, name, content)


@mutation
def attribute(file, place, name, content):
    """An attribute has another content."""
    made = content(file) if callable(content) else content
    file[place].attrs.pop(name, None)
    if made is not REMOVED:
        file[place].attrs[name] = made


@mutation
def values(file, name, change):
    """A dataset has other values: a function of those that it has, or one value."""
    content = file[name][()]
    file[name][...] = change(content) if callable(change) else np.full_like(content, change)


@mutation
def added(file, name):
    """A dataset is added."""
    file[name] = np.ones(3)


def all_of_dataset(name, *but):
    return {
        f"{name}: {kind}": dataset(name, make)
        for kind, make in DATASET_MUTATIONS.items()
        if kind not in but
    }


def all_of_attribute(place, name, *but):
    return {
        f"attribute {name} of {place}: {kind}": attribute(place, name, content)
        for kind, content in ATTRIBUTE_CONTENTS.items()
        if kind not in but
    }


def damage(rng, path, strange):
    """Damage any dataset or attribute of a file, as far as HDF5 can say it; or leave it as it is.

    Parameters
    ----------
    rng : random.Random
        What draws.
    path : Path
        The file.
    strange : sequence
        Values that may stand in place of any.
    """
    with h5py.File(path, "r") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        name = rng.choice(names)
        content = file[name][()]
        place = rng.choice(("/", name))
        known = [*file[place].attrs] or ["units"]
    kind = rng.choice(("dataset", "values", "values", "attribute"))
    if kind == "values":
        tree = [content.tolist()]
        for _ in range(rng.choice((1, 3))):
            change(rng, tree, strange)
    mutate = {
        "dataset": dataset(name, rng.choice([*DATASET_MUTATIONS.values()])),
        "values": dataset(name, _as(lambda _: np.array(tree[0], content.dtype))),
        "attribute": attribute(
            place, rng.choice(known), rng.choice([*ATTRIBUTE_CONTENTS.values(), *strange])
        ),
    }[kind]
    before = path.read_bytes()
    try:
        mutate(path)
    except (*NOT_WRITABLE, OSError, AttributeError):
        path.write_bytes(before)


# ---- traces ----------------------------------------------------------------------------------


def store_as_recorders_do(path):
    """Rewrite a trace with text of variable length and plain datasets, as h5py does by itself."""
    with h5py.File(path, "r") as file:
        attributes = {key: _plain(value) for key, value in file.attrs.items() if key != "digest"}
        names = _plain(file["alloc"].attrs["kernel_names"])
        columns = {"values": file["values"][()]} | {
            f"{group}/{name}": column[()]
            for group in ("alloc", "event")
            for name, column in file[group].items()
        }
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
        for name, content in columns.items():
            file[name] = content
        file["alloc"].attrs["kernel_names"] = names


def _plain(content):
    return content.decode() if isinstance(content, bytes) else content


@mutation
def _all_columns_huge(file):
    """The shapes agree, but all events together are larger than any memory."""
    for name, column in list(file["event"].items()):
        del file["event"][name]
        file["event"].create_dataset(name, (1 << 31,), column.dtype, chunks=(4096,))


@mutation
def _event(file, make):
    """Something else stands in place of the group of events."""
    del file["event"]
    file["event"] = make(file)


def trace_mutations():
    """Mutations of a trace by name."""
    table = all_of_dataset("event/value") | all_of_dataset("values", "lists", "text", "references")
    table |= all_of_attribute("/", "name", "text", "no text", "long text", "missing")
    for name in ("source", "kernels", "registers", "lanes", "cycles"):
        table |= all_of_attribute("/", name, "missing")
    return table | {
        "kernel names missing": attribute("alloc", "kernel_names", REMOVED),
        "all columns huge": _all_columns_huge(),
        "event is a dataset": _event(lambda _: [1]),
        "event is a soft link to the root": _event(lambda _: h5py.SoftLink("/")),
        "event is the root": _event(lambda file: file["/"]),
        "half a surrogate pair": attribute("/", "source", '{"program": "\\ud800"}'),
    }


# ---- sealed files ----------------------------------------------------------------------------


def forge(path, mutate):
    """Apply a mutation to a sealed file and seal it again, as whoever knows the seal can."""
    path.write_bytes(path.read_bytes()[:-CHECKSUM_BYTES])
    mutate(path)
    append_checksum(path)


def append_checksum(path):
    """Append its checksum to a file that is complete otherwise."""
    with path.open("r+b") as stream:
        append_checksum_to(stream)


@mutation
def _longer_axis(file):
    """Every array says that there are a million times more instances; nothing is written there."""
    for name in ("instance", "life_years"):
        shape = [size if size < 20 else size << 20 for size in file[name].shape]
        dtype = file[name].dtype
        del file[name]
        file.create_dataset(name, shape, dtype, chunks=True)


_OF_INSTANCES = {
    "life_years": (np.nan, np.inf, -1.0, 1e300),
    "end_cause": (77,),
    "workload": (99, -5),
    "spill_rate": (np.inf,),
    "max_dvth_mv": (np.inf,),
    "temperature_kelvin": (np.nan,),
}
_COORDINATES = {
    "epoch_end_years": (lambda content: content[::-1], np.inf),
    "epoch_start_years": (1.0,),
    "instance": (3,),
    "vdd_volts": (np.nan,),
    "dvth_bin": (3.0,),
    "case": ("rrcd", b"\xff\xfe"),
    "transistor": ("T7",),
    "scenario": ("paradise",),
}


def _forged_values(table):
    """Values that no campaign computes."""
    return {
        f"{name}: {place}": values(name, content)
        for name, contents in table.items()
        for place, content in enumerate(contents)
    }


def results_mutations():
    """Mutations of a results file by name, to be forged."""
    table = all_of_dataset("life_years") | all_of_dataset("instance")
    table |= all_of_dataset("case", "text", "external storage", "deflated zeros")
    table |= all_of_attribute("/", "schema_version") | all_of_attribute("/", "spec", "no text")
    table |= all_of_attribute("/", "device", "text", "no text", "long text")
    for name in ("units", "_FillValue", "DIMENSION_LIST"):
        table |= all_of_attribute("life_years", name)
    table |= _forged_values(_OF_INSTANCES | _COORDINATES)
    others = (
        ("life_years", "DIMENSION_LIST", lambda _: np.arange(2)),
        ("max_dvth_mv", "DIMENSION_LIST", _turned_dimensions),
        ("life_years", "scale_factor", 2.0),
        ("life_years", "units", "days since 1e9-1-1"),
        ("/", "_NCProperties", "version=9"),
        ("/", "stopping", "{"),
        ("/", "stopping", 3),
        ("/", "stopping", "[]"),
        ("/", "stopping", "[" * 9000),
        ("/", "spec", "faults = 3"),
        ("/", "spec", "[faults]\nslices_per_chip = 'x'"),
    )
    table |= {
        f"{place}.{name} = {it!s:.30}": attribute(place, name, it) for place, name, it in others
    }
    added_too = {name: added(name) for name in ("more", "more/of/it")}
    return table | added_too | {"many more instances": _longer_axis()}


def _turned_dimensions(file):
    return file["max_dvth_mv"].attrs["DIMENSION_LIST"][::-1].copy()


def _campaign(change):
    """What a shard says about its campaign, changed."""

    def content(file):
        fields = change(json.loads(bytes(file.attrs["campaign"])))
        return np.bytes_(json.dumps(fields).encode())

    return content


def shard_mutations():
    """Mutations of a shard by name, to be forged."""
    table = all_of_dataset("life_years") | all_of_dataset("dvth_histogram")
    for name in ("filetype", "campaign", "first"):
        table |= all_of_attribute("/", name)
    fields = (
        {"cases": []},
        {"cases": [1, 2]},
        {"cases": [{}]},
        {"kernels": "abc"},
        {"instances": "20"},
        {"instances": None},
        {"spec_digest": 5},
        {"epoch_edges_years": [0, 5, 3]},
        {"epoch_edges_years": ["0", "5"]},
        {"seed": [1]},
        {"stopping": "soon"},
        {"epoch_edges_years": [float(edge) for edge in range(999)]},
        {"operating_points": 10**12},
    )
    headers = {f"header: {wrong!s:.60}": lambda it, wrong=wrong: it | wrong for wrong in fields}
    headers["header in a list"] = lambda campaign: [campaign]
    headers["no engine"] = lambda it: {key: it[key] for key in it if key != "engine"}
    table |= {
        name: attribute("/", "campaign", _campaign(change)) for name, change in headers.items()
    }
    table |= _forged_values(_OF_INSTANCES)
    return table | {name: added(name) for name in ("more", "more/of/it")}

"""Input files that are damaged, forged, or made to do harm, for tests of whatever reads them.

A mutation is a function that takes the path of a sound file and changes the file in place. Those
of one kind of file stand in one table by name. Those of sealed files leave the seal behind broken:
`forge` applies one and seals again.
"""

import functools
import json
import os

import h5py
import numpy as np

from mcage.files.inputs import append_checksum_to

CHECKSUM_BYTES = len(b"\nmcage-seal blake2b ") + 64 + 1
COLUMN = "event/value"
"""Dataset of a trace that mutations of single datasets take."""


# ---- by byte ---------------------------------------------------------------------------------


def _places(content, random, most):
    """Places of 1 ... ``most`` bytes; not where HDF5 has left room, which is zero."""
    used = np.flatnonzero(np.frombuffer(content, np.uint8))
    return random.choice(used, random.integers(1, most + 1))


def flip_bits(content, random, most=1):
    """Content with 1 ... ``most`` bits flipped somewhere."""
    damaged = bytearray(content)
    for place in _places(content, random, most):
        damaged[place] ^= 1 << int(random.integers(8))
    return bytes(damaged)


def flip_bytes(content, random, most=4):
    """Content with 1 ... ``most`` bytes replaced by any others."""
    damaged = bytearray(content)
    for place in _places(content, random, most):
        damaged[place] = int(random.choice([0, 255, random.integers(256)]))
    return bytes(damaged)


def cut(content, random):
    """Content up to some byte."""
    return content[: random.integers(len(content))]


def overwrite(content, random, most=64):
    """Content with a stretch of it taken from somewhere else in it."""
    length = int(random.integers(1, most + 1))
    source, target = random.integers(0, len(content) - length, 2)
    piece = content[source : source + length]
    return content[:target] + piece + content[target + length :]


BYTE_MUTATIONS = {
    "bits": flip_bits,
    "bytes": flip_bytes,
    "cut": cut,
    "overwrite": overwrite,
}


# ---- by structure: what any HDF5 file can suffer ---------------------------------------------


def replaced(make):
    """Mutation that removes a dataset and lets ``make(file, name, content)`` put another there."""

    def mutate(path, name):
        with h5py.File(path, "r+") as file:
            content = file[name][()]
            del file[name]
            make(file, name, content)

    return mutate


def _beside(file, suffix):
    return f"{file.filename}.{suffix}"


def _external_link(file, name, content):
    with h5py.File(_beside(file, "other"), "w") as other:
        other["data"] = content
    file[name] = h5py.ExternalLink(_beside(file, "other"), "data")


def _external_link_to_fifo(file, name, _):
    if not os.path.exists(_beside(file, "fifo")):
        os.mkfifo(_beside(file, "fifo"))
    file[name] = h5py.ExternalLink(_beside(file, "fifo"), "data")


def _soft_link(file, name, content):
    file["elsewhere"] = content
    file[name] = h5py.SoftLink("/elsewhere")


def _soft_link_to_itself(file, name, _):
    file[name] = h5py.SoftLink(f"/{name}")


def _virtual(file, name, content, source):
    layout = h5py.VirtualLayout(content.shape, content.dtype)
    layout[...] = h5py.VirtualSource(source, name, content.shape)
    file.create_virtual_dataset(name, layout)


def _virtual_of_itself(file, name, content):
    _virtual(file, name, content, ".")


def _virtual_of_another(file, name, content):
    with h5py.File(_beside(file, "other"), "w") as other:
        other[name] = content
    _virtual(file, name, content, _beside(file, "other"))


def _external_storage(file, name, content):
    path = _beside(file, "raw")
    content.tofile(path)
    file.create_dataset(
        name, content.shape, content.dtype, external=[(path, 0, max(1, content.nbytes))]
    )


def _lists(file, name, content):
    lists = file.create_dataset(name, (len(content),), h5py.vlen_dtype(np.int32))
    lists[0] = [1, 2, 3]


def _text(file, name, content):
    file.create_dataset(name, data=["x" * 10] * len(content), dtype=h5py.string_dtype())


def _records(file, name, content):
    file[name] = np.zeros(content.shape, [("a", "i4"), ("b", "f8")])


def _references(file, name, content):
    references = file.create_dataset(name, content.shape, h5py.ref_dtype)
    references[(0,) * content.ndim] = file.ref


def _opaque(file, name, content):
    file[name] = np.zeros(content.shape, "V7")


def _wide_floats(file, name, content):
    file[name] = np.zeros(content.shape, np.longdouble)


def _another_rank(file, name, content):
    file[name] = content[..., None]


def _scalar(file, name, content):
    file[name] = content.flat[0]


def _empty(file, name, content):
    file[name] = content[:0]


def _huge(file, name, content, rows=1 << 31, **options):
    file.create_dataset(name, (rows, *content.shape[1:]), content.dtype, **options)


def _deflated_zeros(file, name, content):
    row_bytes = content.itemsize * int(np.prod(content.shape[1:]))
    shape = ((1 << 26) // row_bytes, *content.shape[1:])
    dataset = file.create_dataset(
        name, shape, content.dtype, chunks=((1 << 22) // row_bytes, *shape[1:]), compression=9
    )
    rows = dataset.chunks[0]
    zeros = np.zeros((rows, *shape[1:]), content.dtype)
    for start in range(0, shape[0] - rows + 1, rows):
        dataset[start : start + rows] = zeros


def _one_large_chunk(file, name, content):
    rows = (1 << 27) // content.itemsize
    shape = (rows, *content.shape[1:])
    file.create_dataset(name, shape, content.dtype, chunks=(rows, *[1] * (len(shape) - 1)))


def _group(file, name, _):
    file.create_group(name)


def _group_in_itself(file, name, _):
    group = file.create_group(name)
    group["again"] = group


def _type(file, name, content):
    file[name] = content.dtype


def _null(file, name, content):
    file[name] = h5py.Empty(content.dtype)


DATASET_MUTATIONS = {
    "external link": _external_link,
    "external link to a FIFO": _external_link_to_fifo,
    "soft link": _soft_link,
    "soft link to itself": _soft_link_to_itself,
    "virtual dataset of itself": _virtual_of_itself,
    "virtual dataset of another file": _virtual_of_another,
    "external storage": _external_storage,
    "lists": _lists,
    "text": _text,
    "records": _records,
    "references": _references,
    "opaque": _opaque,
    "wide floats": _wide_floats,
    "another rank": _another_rank,
    "scalar": _scalar,
    "empty": _empty,
    "huge and chunked": functools.partial(_huge, chunks=True),
    "huge": _huge,
    "deflated zeros": _deflated_zeros,
    "one large chunk": _one_large_chunk,
    "group": _group,
    "group in itself": _group_in_itself,
    "committed type": _type,
    "null dataspace": _null,
    "missing": lambda *_: None,
}
"""What may stand in place of a dataset: ``make(file, name, content)``."""

ATTRIBUTE_CONTENTS = {
    "null": lambda file: h5py.Empty("i4"),
    "null text": lambda file: h5py.Empty(h5py.string_dtype()),
    "record": lambda file: np.zeros((), [("a", "i4"), ("b", "f8")]),
    "opaque": lambda file: np.void(b"opaque"),
    "reference": lambda file: file.ref,
    "number": lambda file: -(2**40),
    "real number": lambda file: float("nan"),
    "numbers": lambda file: np.arange(9),
    "no numbers": lambda file: np.zeros(0),
    "truth": lambda file: True,
    "text": lambda file: 'no "such\n\x1b[31m{[',
    "texts": lambda file: ["a", "b"],
    "no text": lambda file: "",
    "long text": lambda file: "x" * 50_000,
    "bytes": lambda file: np.bytes_(b"\xff\xfe\x80"),
}
"""What may stand in an attribute, by the file it is for."""


def replace_dataset(path, name, make):
    """Put what ``make`` makes in place of the dataset ``name``."""
    replaced(make)(path, name)


def replace_attribute(path, place, name, make):
    """Put what ``make`` makes into an attribute; None removes it."""
    with h5py.File(path, "r+") as file:
        del file[place].attrs[name]
        if make is not None:
            file[place].attrs[name] = make(file)


# ---- traces ----------------------------------------------------------------------------------


def store_as_recorders_do(path):
    """Rewrite a trace with text of variable length and plain datasets, as h5py does by itself."""
    with h5py.File(path, "r") as file:
        attributes = {key: _plain(value) for key, value in file.attrs.items()}
        names = _plain(file["alloc"].attrs["kernel_names"])
        columns = {}
        file.visititems(
            lambda name, item: (
                columns.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    attributes.pop("digest", None)
    with h5py.File(path, "w") as file:
        file.attrs.update(attributes)
        for name, content in columns.items():
            file[name] = content
        file["alloc"].attrs["kernel_names"] = names


def _plain(content):
    return content.decode() if isinstance(content, bytes) else content


def _all_columns_huge(path):
    """The shapes agree, but all events together are larger than any memory."""
    with h5py.File(path, "r+") as file:
        for name, column in list(file["event"].items()):
            dtype = column.dtype
            del file["event"][name]
            file["event"].create_dataset(name, (1 << 31,), dtype, chunks=(4096,))


def _event_group(path, make):
    with h5py.File(path, "r+") as file:
        del file["event"]
        make(file)


def _half_a_surrogate_pair(path):
    with h5py.File(path, "r+") as file:
        file.attrs["source"] = '{"program": "\\ud800"}'


def trace_mutations():
    """Mutations of a trace by name."""
    table = {
        f"{COLUMN}: {name}": functools.partial(replace_dataset, name=COLUMN, make=make)
        for name, make in DATASET_MUTATIONS.items()
    }
    table |= {
        f"values: {name}": functools.partial(replace_dataset, name="values", make=make)
        for name, make in DATASET_MUTATIONS.items()
        if name not in ("lists", "text", "references")
    }
    for attribute in ("name", "source", "kernels", "registers", "lanes", "cycles"):
        table |= {
            f"attribute {attribute}: {name}": functools.partial(
                replace_attribute, place="/", name=attribute, make=make
            )
            for name, make in ATTRIBUTE_CONTENTS.items()
            if attribute != "name" or "text" not in name or "null" in name or name == "texts"
        }
    table |= {
        "attribute kernel_names: missing": functools.partial(
            replace_attribute, place="alloc", name="kernel_names", make=None
        ),
        "all columns huge": _all_columns_huge,
        "event is a dataset": functools.partial(
            _event_group, make=lambda file: file.create_dataset("event", data=[1])
        ),
        "event is a soft link to the root": functools.partial(
            _event_group, make=lambda file: file.__setitem__("event", h5py.SoftLink("/"))
        ),
        "event is the root": functools.partial(
            _event_group, make=lambda file: file.__setitem__("event", file["/"])
        ),
        "half a surrogate pair": _half_a_surrogate_pair,
    }
    return table


# ---- sealed files ----------------------------------------------------------------------------


def forge(path, mutate):
    """Apply a mutation to a sealed file and seal it again, as whoever knows the seal can."""
    content = path.read_bytes()
    path.write_bytes(content[:-CHECKSUM_BYTES])
    mutate(path)
    append_checksum(path)


def append_checksum(path):
    """Append its checksum to a file that is complete otherwise."""
    with path.open("r+b") as stream:
        append_checksum_to(stream)


def _set(name, change, path):
    with h5py.File(path, "r+") as file:
        dataset = file[name]
        content = dataset[()]
        dataset[...] = change(content)


def _all(value):
    return lambda content: np.full_like(content, value)


def _swapped_dimensions(path):
    with h5py.File(path, "r+") as file:
        lists = file["max_dvth_mv"].attrs["DIMENSION_LIST"][::-1].copy()
        file["max_dvth_mv"].attrs["DIMENSION_LIST"] = lists


def _dimension_list(path, content):
    with h5py.File(path, "r+") as file:
        file["life_years"].attrs["DIMENSION_LIST"] = content(file)


def _add(name, content, path):
    with h5py.File(path, "r+") as file:
        file[name] = content


def _set_attribute(place, name, content, path):
    with h5py.File(path, "r+") as file:
        file[place].attrs[name] = content


def _longer_axis(path):
    """Every array says that there are a million times more instances; nothing is written there."""
    with h5py.File(path, "r+") as file:
        for name in ("instance", "life_years"):
            shape = [size if size < 20 else size << 20 for size in file[name].shape]
            dtype = file[name].dtype
            del file[name]
            file.create_dataset(name, shape, dtype, chunks=True)


_FORGED_VALUES = {
    ("life_years", "nan"): _all(np.nan),
    ("life_years", "inf"): _all(np.inf),
    ("life_years", "negative"): _all(-1.0),
    ("life_years", "beyond the horizon"): _all(1e300),
    ("end_cause", "unknown"): _all(77),
    ("workload", "no such kernel"): _all(99),
    ("workload", "negative"): _all(-5),
    ("spill_rate", "inf"): _all(np.inf),
    ("max_dvth_mv", "inf"): _all(np.inf),
    ("temperature_kelvin", "nan"): _all(np.nan),
    ("epoch_end_years", "falling"): lambda content: content[::-1],
    ("epoch_end_years", "inf"): _all(np.inf),
    ("epoch_start_years", "others"): _all(1.0),
    ("instance", "all the same"): _all(3),
    ("vdd_volts", "nan"): _all(np.nan),
    ("dvth_bin", "others"): _all(3.0),
    ("case", "all the same"): _all("rrcd"),
    ("case", "not UTF-8"): _all(b"\xff\xfe"),
    ("transistor", "others"): _all("T7"),
    ("scenario", "unknown"): _all("paradise"),
}


def results_mutations():
    """Mutations of a results file by name, to be forged."""
    table = {}
    for dataset in ("life_years", "instance", "case"):
        table |= {
            f"{dataset}: {name}": functools.partial(replace_dataset, name=dataset, make=make)
            for name, make in DATASET_MUTATIONS.items()
            if (name != "text" or dataset != "case")
            and (dataset != "case" or name not in ("external storage", "deflated zeros"))
        }
    for attribute in ("schema_version", "spec", "device"):
        table |= {
            f"attribute {attribute}: {name}": functools.partial(
                replace_attribute, place="/", name=attribute, make=make
            )
            for name, make in (ATTRIBUTE_CONTENTS | {"missing": None}).items()
            if not _is_sound(attribute, name)
        }
    for attribute in ("units", "_FillValue", "DIMENSION_LIST"):
        table |= {
            f"attribute {attribute} of life_years: {name}": functools.partial(
                replace_attribute, place="life_years", name=attribute, make=make
            )
            for name, make in (ATTRIBUTE_CONTENTS | {"missing": None}).items()
        }
    table |= {
        f"{dataset}: {name}": functools.partial(_set, dataset, change)
        for (dataset, name), change in _FORGED_VALUES.items()
    }
    table |= {
        "dimensions swapped": _swapped_dimensions,
        "dimensions are numbers": functools.partial(
            _dimension_list, content=lambda _: np.arange(2)
        ),
        "another dataset": functools.partial(_add, "more", np.ones(3)),
        "another group": functools.partial(_add, "more/of/it", np.ones(3)),
        "scale factor": functools.partial(_set_attribute, "life_years", "scale_factor", 2.0),
        "dates": functools.partial(_set_attribute, "life_years", "units", "days since 1e9-1-1"),
        "another attribute": functools.partial(_set_attribute, "/", "_NCProperties", "version=9"),
        "stopping: no JSON": functools.partial(_set_attribute, "/", "stopping", "{"),
        "stopping: a number": functools.partial(_set_attribute, "/", "stopping", 3),
        "stopping: a list": functools.partial(_set_attribute, "/", "stopping", "[]"),
        "stopping: deep": functools.partial(_set_attribute, "/", "stopping", "[" * 9000),
        "spec: faults is a number": functools.partial(_set_attribute, "/", "spec", "faults = 3"),
        "spec: faults unknown": functools.partial(
            _set_attribute, "/", "spec", "[faults]\nslices_per_chip = 'x'"
        ),
        "many more instances": _longer_axis,
    }
    return table


def _is_sound(attribute, content):
    """Whether an attribute may well hold such a text."""
    is_text = content in ("text", "no text", "long text")
    return is_text and (attribute == "device" or (attribute, content) == ("spec", "no text"))


def _campaign(change, path):
    with h5py.File(path, "r+") as file:
        fields = json.loads(bytes(file.attrs["campaign"]))
        file.attrs["campaign"] = np.bytes_(json.dumps(change(fields)).encode())


def _with(**fields):
    return lambda campaign: campaign | fields


def shard_mutations():
    """Mutations of a shard by name, to be forged."""
    table = {}
    for dataset in ("life_years", "dvth_histogram"):
        table |= {
            f"{dataset}: {name}": functools.partial(replace_dataset, name=dataset, make=make)
            for name, make in DATASET_MUTATIONS.items()
        }
    for attribute in ("filetype", "campaign", "first"):
        table |= {
            f"attribute {attribute}: {name}": functools.partial(
                replace_attribute, place="/", name=attribute, make=make
            )
            for name, make in (ATTRIBUTE_CONTENTS | {"missing": None}).items()
        }
    headers = {
        "a list": lambda campaign: [campaign],
        "no cases": _with(cases=[]),
        "cases are numbers": _with(cases=[1, 2]),
        "cases without names": _with(cases=[{}]),
        "kernels are a text": _with(kernels="abc"),
        "instances are text": _with(instances="20"),
        "instances are none": _with(instances=None),
        "digest is a number": _with(spec_digest=5),
        "edges fall": _with(epoch_edges_years=[0, 5, 3]),
        "edges are texts": _with(epoch_edges_years=["0", "5"]),
        "seed is a list": _with(seed=[1]),
        "stopping is a text": _with(stopping="soon"),
        "no engine": lambda campaign: {k: v for k, v in campaign.items() if k != "engine"},
        "more epochs": _with(epoch_edges_years=[float(edge) for edge in range(999)]),
        "more operating points": _with(operating_points=10**12),
    }
    table |= {f"header: {name}": functools.partial(_campaign, c) for name, c in headers.items()}
    table |= {
        f"{dataset}: {name}": functools.partial(_set, dataset, change)
        for (dataset, name), change in _FORGED_VALUES.items()
        if dataset
        in (
            "life_years",
            "end_cause",
            "workload",
            "spill_rate",
            "max_dvth_mv",
            "temperature_kelvin",
        )
    }
    return table | {
        "another dataset": functools.partial(_add, "more", np.ones(3)),
        "another group": functools.partial(_add, "more/of/it", np.ones(3)),
    }

"""Kernels of a few hundred events that lie in files, for what replays them event by event."""

import random

from trace_strategies import ALL_LANES, alloc, pattern, random_value, read, release, trace_of, write

from mcage.traces import save_trace


def short_kernel(seed, size, slots, windows=1, compressible=0.15, divergent=0.15):
    """Windows of `size` registers in `slots` slots, one after the other; all are written.

    Registers are written once, some of them twice, and read in between; with the stated chances
    the contents are those of a register that compresses, and a second write leaves out lanes.
    """
    rng = random.Random(seed)
    drawn = []
    for slot in range(slots):
        now = rng.randrange(9)
        for _ in range(windows):
            drawn.append(alloc(now, slot, size))
            written = [(reg, ALL_LANES) for reg in rng.sample(range(size), size)]
            for reg in rng.sample(range(size), size // 3):
                lanes = rng.getrandbits(64) if rng.random() < divergent else ALL_LANES
                written.append((reg, lanes or 1))
            begun = set()
            for reg, lanes in written:
                now += rng.choice([0, 1, 30, 90, 300])
                regular = rng.random() < compressible
                content = pattern(rng.getrandbits(32), rng.choice([0, 1, 4])) if regular else None
                content = random_value(rng) if content is None else content
                drawn.append(write(now, slot, reg, content, lanes))
                begun.add(reg)
                if rng.random() < 0.5:
                    drawn.append(read(now + 1, slot, rng.choice(sorted(begun))))
            now += rng.randrange(2, 40)
            drawn.append(release(now, slot))
            now += rng.randrange(1, 30)
    return trace_of(drawn, max(event.cycle for event in drawn) + 5, name=f"short-{size}x{slots}")


def short_kernels(folder, shapes, **given):
    """Files of kernels of these (registers of a window, slots): their names, as a spec has them."""
    names = []
    for number, (size, slots) in enumerate(shapes):
        path = folder / f"short-{size}x{slots}.h5"
        save_trace(short_kernel(number, size, slots, **given), path)
        names.append(str(path))
    return names

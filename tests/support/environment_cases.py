"""Environments that tests define."""


def points(*given):
    """Table of an environment of points, each (vdd_volts, share or None, offset)."""
    keys = ("vdd_volts", "share", "temperature_offset_kelvin")
    return [
        {key: value for key, value in zip(keys, point, strict=False) if value is not None}
        for point in given
    ]

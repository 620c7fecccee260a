"""Colours of figures on a dark page: as light as needed to be told from the background."""

import colorsys
from collections.abc import Iterable

BACKGROUND = "1b1d21"
"""What `report.css` calls ``--paper`` on a dark page."""

LEAST_CONTRAST = 4.5
"""As WCAG 2.2 asks of text (AA)."""

_STEPS = 40


def dark_colours(colours: Iterable[str]) -> dict[str, str]:
    """Colours as they stand on a dark page, both as rrggbb.

    Black and white change places with the ink and the paper of the page; any other colour keeps
    its hue, and becomes lighter where it is too dark.
    """
    return {
        colour: _light_enough(colour)
        for colour in sorted(colours)
        if colour not in ("000000", "ffffff") and contrast(colour, BACKGROUND) < LEAST_CONTRAST
    }


def contrast(colour: str, other: str) -> float:
    """Ratio of the luminances of two colours, 1 to 21, as WCAG 2.2 defines it."""
    high, low = sorted((_luminance(colour), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in _parts(colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _parts(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4))
    return red, green, blue


def _light_enough(colour: str) -> str:
    hue, lightness, saturation = colorsys.rgb_to_hls(*_parts(colour))
    for step in range(_STEPS + 1):
        lighter = lightness + (1 - lightness) * step / _STEPS
        parts = colorsys.hls_to_rgb(hue, lighter, saturation)
        candidate = "".join(f"{round(255 * part):02x}" for part in parts)
        if contrast(candidate, BACKGROUND) >= LEAST_CONTRAST:
            return candidate
    return "ffffff"

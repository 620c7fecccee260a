"""What the specs of all studies have in common: TOML in and out, and a digest."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import tomli_w
from pydantic import Field, ValidationError

from mcage.errors import UserError
from mcage.spec.python_fields import plain_fields
from mcage.spec.refusals import first_problem
from mcage.spec.sections import Section
from mcage.spec.toml_files import check_plain, read_toml

EXTENT = ("instances", "stopping")
"""Keys that say how many instances are computed, and decide none of them."""


if TYPE_CHECKING:  # where it has no public name
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(Section)


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class _OfPython(ModelMetaclass):
    """Checks what is typed in Python as if it stood in TOML, by the same rules and words."""

    if not TYPE_CHECKING:

        def __call__(spec, /, **fields):  # noqa: N805
            return spec.from_mapping(plain_fields(fields, spec), spec.__name__)


class StudySpec(Section, metaclass=_OfPython):
    """Everything that decides the results of a study.

    In Python, `SweepSpec(techniques=["rrcd"], life={"horizon_years": 5})` takes what TOML takes,
    and sections as objects; see `mcage.spec.python_fields`.

    Attributes
    ----------
    command : str
        How messages call a spec that comes from no file.

    Raises
    ------
    UserError
        As `from_mapping`.
    """

    command: ClassVar[str]

    @classmethod
    def from_mapping(cls, fields: dict[str, Any], source: str | None = None) -> Self:
        """Check nested plain values, such as TOML gives, and make a spec of them.

        Parameters
        ----------
        fields : dict
            Keys of the spec; missing ones keep their defaults.
        source : str, optional
            Where the values come from, for error messages.

        Raises
        ------
        UserError
            One line that names the key, the value and what is right.
        """
        source = source or cls.command
        try:
            check_plain("", fields)
            return cls.model_validate_json(json.dumps(cls.plain(fields), default=str))
        except ValidationError as error:
            raise UserError(f"{source}: {first_problem(error, cls)}") from error
        except (TypeError, ValueError) as error:
            raise UserError(f"{source}: {error}") from error

    @classmethod
    def plain(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields with the keys of the spec in place of what else users may give."""
        return fields

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a spec from a TOML file."""
        return cls.from_mapping(read_toml(path), str(path))

    def to_toml(self) -> str:
        """TOML text from which the same spec is read again; keys that are None are left out."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    def digest(self, *further: str) -> str:
        """Hexadecimal digest of what decides an instance: of the spec, and of further texts.

        How many instances are computed, and when a campaign stops, decides no instance.
        """
        fields = json.dumps(self._of_an_instance(), sort_keys=True)
        return hashlib.blake2b("\0".join([fields, *further]).encode(), digest_size=32).hexdigest()

    def _of_an_instance(self) -> dict[str, Any]:
        """Plain values of the spec without `EXTENT`, its own and that of the specs in it."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude=set(EXTENT))
        inner = {name: spec for name, spec in self if isinstance(spec, StudySpec)}
        return fields | {name: spec._of_an_instance() for name, spec in inner.items()}


def with_table(
    fields: dict[str, Any], key: str, read: Callable[[Path], dict[str, Any]]
) -> dict[str, Any]:
    """Replace the name of a file by the table in it, since that decides results.

    Parameters
    ----------
    fields : dict
        Plain values of a spec or a section.
    key : str
        Dotted key under which the name, or the table itself, may stand.
    read : callable
        Reads the file.
    """
    key, _, below = key.partition(".")
    given = fields.get(key)
    if below:
        if not isinstance(given, dict):
            return fields
        return fields | {key: with_table(given, below, read)}
    return fields | {key: read(Path(given))} if isinstance(given, str) else fields

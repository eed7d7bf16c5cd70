"""How far sources of rows have been read, stored with the commits of these rows."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from typing import Any

from drillcore.arguments.names import check_encodable, shown
from drillcore.errors import InvalidArgumentError, InvalidTypeError


def to_stored(positions: Mapping[str, Any] | None) -> list[tuple[str, bytes]]:
    """Return positions as the engine stores them; that of ``None`` is empty, which forgets its source."""
    if positions is None:
        return []
    if not isinstance(positions, Mapping):
        raise InvalidTypeError(f"positions: expected a dict from source to position, not {shown(positions)}")
    return [(_checked(source), _stored(source, position)) for source, position in positions.items()]


def from_stored(positions: list[tuple[str, bytes]]) -> dict[str, Any]:
    """Return positions as they were given; bytes of one that another program stored in its own way."""
    return {source: _position(stored) for source, stored in positions}


def _checked(source: Any) -> str:
    if not isinstance(source, str):
        raise InvalidTypeError(f"positions: expected the name of a source, not {shown(source)}")
    return check_encodable("positions", source)


def _stored(source: str, position: Any) -> bytes:
    if position is None:
        return b""
    try:
        return json.dumps(position, allow_nan=False, separators=(",", ":"), default=operator.index).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"positions: the position of {shown(source)} must be a number, a string, or a list or dict of these, "
            f"not {shown(position)}"
        ) from error


def _position(stored: bytes) -> Any:
    try:
        return json.loads(stored)
    except ValueError:
        return stored

"""The version of the library, and the moment at which something was made."""

from __future__ import annotations

from datetime import UTC, datetime

__version__ = "0.2.0"


def utc_now() -> str:
    """Return the date and time in UTC, to the second, as ISO 8601 has them."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Settings from a TOML file, and from the arguments, which win."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TABLE = {"separator", "missing_values", "types"}
RELEASE = {"row_id", "key_file", "key_env", "dataset", "release", "ledger", "note"}
RELEASE |= {"persons", "withhold", "unknown"}

#: What the parameters of the noiser begin with among all arguments.
PREFIX = "noiser_"

#: Parameters that name columns: what is typed is a name, also where it looks like a number.
NAMES = {"sensitive", "public", "known", "knows", "groups"}


def noiser_parameters() -> dict[str, str]:
    """Return each parameter of PufferfishNoiser, with what its docstring says of it."""
    from sklearn_puffer import PufferfishNoiser

    return _parameters(PufferfishNoiser)


def plan_parameters() -> dict[str, str]:
    """Return the same of `plan`, but for the table and for those of PufferfishNoiser."""
    from sklearn_puffer import plan

    return {n: said for n, said in _parameters(plan).items() if n not in ("table", "settings")}


def audit_parameters() -> dict[str, str]:
    """Return those of `audit` that can be typed."""
    from sklearn_puffer import audit

    typed = ("task", "level", "repeats", "knows", "groups", "max_rows", "random_state")
    return {name: said for name, said in _parameters(audit).items() if name in typed}


def _parameters(function: Any) -> dict[str, str]:
    said = _said(inspect.getdoc(function) or "")
    return {name: said.get(name, "") for name in inspect.signature(function).parameters}


def _said(doc: str) -> dict[str, str]:
    """Return type and first sentence of each parameter of a docstring in numpydoc's form."""
    body = doc.partition("Parameters\n----------\n")[2].partition("\n-------")[0]
    types: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    for line in body.splitlines():
        name, sign, kind = line.partition(" : ")
        if sign and name.isidentifier():
            types[name], lines[name] = kind, []
        elif lines and line.startswith(" "):
            lines[list(lines)[-1]].append(line.strip())
    return {name: f"{types[name]}. {_first(' '.join(own))}" for name, own in lines.items()}


def _first(text: str) -> str:
    return text.partition(". ")[0].rstrip(".:;") + "."


def read_settings(path: str | None) -> dict[str, dict[str, Any]]:
    """Return the sections of a settings file: table, noiser and release.

    Raises
    ------
    ValueError
        If it is no TOML, or has a section or a key that nothing reads.
    OSError
        If it cannot be read.
    """
    if path is None:
        return {"table": {}, "noiser": {}, "release": {}}
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the settings {path!r} are no TOML: {error}.") from error
    known = {"table": TABLE, "noiser": set(noiser_parameters()), "release": RELEASE}
    _check_keys(found, known, f"the settings {path!r}")
    for section, keys in known.items():
        own = found.setdefault(section, {})
        if not isinstance(own, dict):
            raise ValueError(f"the settings {path!r} say {section}; write [{section}] above it.")
        _check_keys(own, keys, f"[{section}] of {path!r}")
    return found


def _check_keys(found: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    strange = sorted(set(found) - set(known))
    if strange:
        raise ValueError(
            f"{where} has {strange[0]!r}, which is none of {', '.join(sorted(known))}; "
            "mend or remove it."
        )


def value_of(text: str) -> Any:
    """Return what is typed as a value of TOML, or as the string that it is.

    >>> value_of("0.5"), value_of("laplace"), value_of('{hours = 8}'), value_of("true")
    (0.5, 'laplace', {'hours': 8}, True)
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def merged(
    section: Mapping[str, Any], asked: Any, names: Iterable[str], prefix: str = ""
) -> dict[str, Any]:
    """Return the settings of a section, over which arguments win."""
    typed = {name: getattr(asked, f"{prefix}{name}", None) for name in names}
    return {**section, **{name: value for name, value in typed.items() if value is not None}}


def unlisted(found: dict[str, Any]) -> dict[str, Any]:
    """Return parameters in which one name alone is no list of it."""
    alone = {
        n: v[0] for n, v in found.items() if n in NAMES and isinstance(v, list) and len(v) == 1
    }
    return {**found, **alone}

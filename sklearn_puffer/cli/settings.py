"""What a run is told: parameters as the estimators have them, and what a settings file says.

Results go to standard output, everything else, one sentence of a failure too, to standard error.
"""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import sklearn_puffer

FINE, NO_PROMISE, WRONG, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

#: What the parameters of a function begin with among all arguments.
PREFIX = "noiser_"

#: Parameters that name columns: "1" is a name there, and no number.
NAMES = {"sensitive", "public", "known", "joined", "groups", "ids"}

#: What `puffer fit` may fit, and the section of its settings, by the mechanism.
MECHANISMS = {
    "noise": ("PufferfishNoiser", "noiser"),
    "typical-rows": ("PufferfishMicroaggregator", "microaggregator"),
    "swap": ("PufferfishSwap", "swap"),
}

#: Parameters of a function that are not typed.
_NOT_TYPED = {
    "plan": {"table", "settings"},
    "audit": {"estimator", "table", "attackers", "sensitive_features", "verbose"},
}


def parameters_of(command: str) -> dict[str, str]:
    """Return the parameters that can be typed, with what the function's docstring says of each."""
    return {name: text for name, text in told(command).items() if name not in _NOT_TYPED[command]}


def typed_of(command: str) -> dict[str, dict[str, str]]:
    """Return all parameters that can be typed, by function; of estimators that none before has."""
    if command in _NOT_TYPED:
        return {command: parameters_of(command)}
    found: dict[str, dict[str, str]] = {}
    for kind, _ in MECHANISMS.values() if command == "fit" else ():
        before = {name for one in found.values() for name in one}
        found[kind] = {name: text for name, text in told(kind).items() if name not in before}
    return found


def told(name: str) -> dict[str, str]:
    """Return the parameters of a function or estimator, with what its docstring says of each."""
    function = getattr(sklearn_puffer, name)
    texts = _said(inspect.getdoc(function) or "")
    return {name: texts.get(name, "") for name in inspect.signature(function).parameters}


def _said(doc: str) -> dict[str, str]:
    """Return type and first sentence of each parameter of a numpydoc docstring."""
    body = doc.partition("Parameters\n----------\n")[2].partition("\n-------")[0]
    types: dict[str, str] = {}
    lines: dict[str, list[str]] = {}
    for line in body.splitlines():
        name, sign, kind = line.partition(" : ")
        if sign and name.isidentifier():
            types[name], lines[name] = kind, []
        elif lines and line.startswith(" "):
            lines[list(lines)[-1]].append(line.strip())
    first = {name: " ".join(text).partition(". ")[0].rstrip(".:;") for name, text in lines.items()}
    return {name: f"{types[name]}. {text}." for name, text in first.items()}


def read_settings(path: str | None) -> dict[str, dict[str, Any]]:
    """Return the sections of a settings file: table, release, and one for each mechanism.

    Raises
    ------
    ValueError
        If it is no TOML, or has a section or a key that nothing reads.
    OSError
        If it cannot be read.
    """
    known = {**_SECTIONS, **{section: set(told(kind)) for kind, section in MECHANISMS.values()}}
    if path is None:
        return {name: {} for name in known}
    try:
        sections = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the settings {path!r} are no TOML: {error}.") from error
    _check_keys(sections, known, f"the settings {path!r}")
    for name, keys in known.items():
        section = sections.setdefault(name, {})
        if not isinstance(section, dict):
            raise ValueError(f"the settings {path!r} say {name}; write [{name}] above it.")
        _check_keys(section, keys, f"[{name}] of {path!r}")
    return sections


def _check_keys(keys: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    strange = sorted(set(keys) - set(known))
    if strange:
        raise ValueError(
            f"{where} has {strange[0]!r}, which is none of {', '.join(sorted(known))}; "
            "mend or remove it."
        )


def value_of(text: str) -> Any:
    """Return what was typed as a value of TOML, or else as a string.

    >>> value_of("0.5"), value_of("laplace"), value_of('{hours = 8}'), value_of("true")
    (0.5, 'laplace', {'hours': 8}, True)
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


#: How to release, beside the key: what can be typed, or stand in a settings file.
RELEASE: dict[str, dict[str, Any]] = {
    "unknown": {
        "type": value_of,
        "metavar": "VALUE",
        "help": "what becomes of values that fit has not seen, as in `puffer fit`: "
        '"error" or "nearest"',
    },
    "row_id": {"metavar": "NAME", "help": "the column of ids: asks for keyed noise"},
    "dataset": {"metavar": "NAME", "help": "of the table, for keyed noise and ledger"},
    "release": {"type": int, "metavar": "NUMBER", "help": "another one is drawn anew"},
    "ledger": {"metavar": "FILE", "help": "count this release there"},
    "persons": {"metavar": "FILE", "help": "count it there for each person instead"},
    "withhold": {
        "action": "store_true",
        "default": None,
        "help": "with --persons: leave out who has no release left, instead of refusing all",
    },
    "note": {"metavar": "TEXT", "help": "for the ledger"},
}
_SECTIONS = {
    "table": {"separator", "missing_values", "types"},
    "release": {*RELEASE, "key_file", "key_env"},
}


def merged(
    section: Mapping[str, Any], args: Any, names: Iterable[str], prefix: str = ""
) -> dict[str, Any]:
    """Return the settings of a section; arguments take their place."""
    typed = {name: getattr(args, f"{prefix}{name}", None) for name in names}
    return {**section, **{name: value for name, value in typed.items() if value is not None}}


def unlisted(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with a single name in place of a list of one."""
    alone = {
        n: v[0] for n, v in parameters.items() if n in NAMES and isinstance(v, list) and len(v) == 1
    }
    return {**parameters, **alone}


def without_none(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with None, which TOML does not have, in place of the word none."""
    return {
        name: None if value == "none" and name not in NAMES else value
        for name, value in parameters.items()
    }


def say(text: str) -> None:
    """Write a result, and a line break, to standard output."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """Write a line about the run to standard error."""
    sys.stderr.write(f"puffer: {text}\n")
    sys.stderr.flush()


def one_line(error: Any) -> str:
    """Return the words of an error or a warning in one printable line."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}"
    plain = "".join(
        character if character.isprintable() else "?" for character in " ".join(text.split())
    )
    return plain or type(error).__name__

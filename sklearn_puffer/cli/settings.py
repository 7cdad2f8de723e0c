"""Parameters of a run: those of the estimators, and a settings file; and its output.

Results go to standard output, messages and errors to standard error.
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

#: The prefix of the parameters of a function among all arguments.
PREFIX = "noiser_"

#: Parameters that name columns: "1" is a name there, and no number.
NAMES = {"sensitive", "public", "known", "joined", "groups", "ids"}

#: The estimator of each mechanism, and its section of a settings file.
MECHANISMS = {
    "noise": ("PufferfishNoiser", "noiser"),
    "typical-rows": ("PufferfishMicroaggregator", "microaggregator"),
    "swap": ("PufferfishSwap", "swap"),
}

#: Parameters of a function that are no options.
_NOT_TYPED = {
    "plan": {"table", "settings"},
    "audit": {"estimator", "table", "attackers", "sensitive_features", "verbose"},
}


def parameters_of(command: str) -> dict[str, str]:
    """Return the parameters of a function that are options, with their help."""
    return {name: text for name, text in told(command).items() if name not in _NOT_TYPED[command]}


def typed_of(command: str) -> dict[str, dict[str, str]]:
    """Return the options of a command by function; each parameter of estimators once."""
    if command in _NOT_TYPED:
        return {command: parameters_of(command)}
    found: dict[str, dict[str, str]] = {}
    for kind, _ in MECHANISMS.values() if command == "fit" else ():
        before = {name for one in found.values() for name in one}
        found[kind] = {name: text for name, text in told(kind).items() if name not in before}
    return found


def told(name: str) -> dict[str, str]:
    """Return the parameters of a function or estimator, with the help from its docstring."""
    function = getattr(sklearn_puffer, name)
    texts = _parameter_help(inspect.getdoc(function) or "")
    return {name: texts.get(name, "") for name in inspect.signature(function).parameters}


def _parameter_help(doc: str) -> dict[str, str]:
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
        If it is no TOML, or has an unknown section or key.
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
    """Return an argument as a value of TOML, or else as a string.

    >>> value_of("0.5"), value_of("laplace"), value_of('{hours = 8}'), value_of("true")
    (0.5, 'laplace', {'hours': 8}, True)
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


#: Options of a release, beside the key; keys of the section [release].
RELEASE: dict[str, dict[str, Any]] = {
    "unknown": {
        "type": value_of,
        "metavar": "VALUE",
        "help": "how to treat values that fit has not seen, as in `puffer fit`: "
        '"error" or "nearest"',
    },
    "row_id": {"metavar": "NAME", "help": "the column of ids, for keyed noise"},
    "dataset": {"metavar": "NAME", "help": "name of the table, for keyed noise and the ledger"},
    "release": {
        "type": int,
        "metavar": "NUMBER",
        "help": "number of the release, each with fresh keyed noise",
    },
    "ledger": {"metavar": "FILE", "help": "the ledger to count this release in"},
    "persons": {"metavar": "FILE", "help": "the ledger of persons to count it in instead"},
    "withhold": {
        "action": "store_true",
        "default": None,
        "help": "with --persons: omit persons without a release left, instead of refusing all",
    },
    "note": {"metavar": "TEXT", "help": "a note in the ledger"},
}
_SECTIONS = {
    "table": {"separator", "missing_values", "types"},
    "release": {*RELEASE, "key_file", "key_env"},
}


def merged(
    section: Mapping[str, Any], args: Any, names: Iterable[str], prefix: str = ""
) -> dict[str, Any]:
    """Return the settings of a section, overridden by arguments.

    A list of one name is the name; the word none is None, which TOML lacks, but for names.
    """
    typed = {name: getattr(args, f"{prefix}{name}", None) for name in names}
    found = {**section, **{name: value for name, value in typed.items() if value is not None}}
    for name, value in found.items():
        if name in NAMES and isinstance(value, list) and len(value) == 1:
            found[name] = value[0]
        elif prefix and value == "none" and name not in NAMES:
            found[name] = None
    return found


def say(text: str) -> None:
    """Write a result, and a line break, to standard output."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """Write a line about the run to standard error."""
    sys.stderr.write(f"puffer: {text}\n")
    sys.stderr.flush()


def one_line(error: Any) -> str:
    """Return the message of an error or a warning in one printable line."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}"
    plain = "".join(
        character if character.isprintable() else "?" for character in " ".join(text.split())
    )
    return plain or type(error).__name__

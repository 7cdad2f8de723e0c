"""Parameters of a run: those of the estimators, and a settings file; and its output.

Results go to standard output, messages and errors to standard error.
"""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
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

#: Files that are read, by their places; and further ones, by options.
POSITIONS = ("table", "input", "artifact")
READ = (*POSITIONS, "settings", "audit", "key_file")

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


def message_of(error: Any) -> str:
    """Return the message of an error or a warning in printable lines, with options by name."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}"
    lines = (" ".join(line.split()) for line in as_typed(text).splitlines())
    plain = ["".join(c if c.isprintable() else "?" for c in line) for line in lines if line]
    return "\n  ".join(plain) or type(error).__name__


#: What messages say in Python, and what it is on the command line.
_WORDS = {
    "X": "the table",
    "None": "none",
    "pd.to_datetime": "--type COLUMN=date",
    "pd.to_numeric": "--type COLUMN=float",
    "to set_params after fit, as --unknown to puffer release": "to puffer release",
    "key names the environment variable": "--key-env names the environment variable",
    "Ledger.open": "puffer ledger show",
    "PersonLedger.open": "puffer persons show",
    "PersonLedger": "ledger of persons (--persons)",
    **{kind: f"--mechanism {mechanism}" for mechanism, (kind, _) in MECHANISMS.items()},
}


def as_typed(text: str) -> str:
    """Return a message with options in the place of the arguments of Python; quotes stay.

    >>> as_typed("column 'X' of X has few rows; take n_bins=5, or leave it out of public=.")
    "column 'X' of the table has few rows; take --n-bins 5, or leave it out of --public."
    """
    return _python().sub(_option_of, text)


def _option_of(found: re.Match[str]) -> str:
    if found["quoted"] or found["word"]:
        return found["quoted"] or _WORDS[found["word"]]
    name, value = found["name"] or found["subject"], found["value"] or ""
    if value.startswith("{"):  # a table of TOML
        return f"{name} = {value.replace(chr(39), '').replace(':', ' =')} in --settings"
    value = _WORDS.get(value, value.strip("\"'"))
    return f"--{name.replace('_', '-')} {value}".rstrip()


@cache
def _python() -> re.Pattern[str]:
    """Return what finds arguments with their values, as subjects, or by their underscores."""
    functions = [*(kind for kind, _ in MECHANISMS.values()), *_NOT_TYPED]
    names = {*RELEASE, *(name for each in functions for name in told(each))}
    name, words = "|".join(names), "|".join(map(re.escape, _WORDS))
    long = "|".join(each for each in names if "_" in each)
    value = r"""(?P<value>"[^"]*"|'[^']*'|\{[^}]*\}|\[.*?\](?!\w)|\w+(\.\w+)*)?"""
    return re.compile(
        r"""(?<!\w)(?P<quoted>'[^']*'|"[^"]*")"""
        rf"|(?<![\w-])((?P<name>{name})={value}|(?P<word>{words})(?!\w))"
        rf"|(?P<subject>^({name})(?= (must|names|is|has|says)\b)|(?<![\w-])({long})(?![\w=]))"
    )


def check_there(name: str, path: str) -> None:
    """Refuse a file to read that is not there, by the name of its argument.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    if not Path(path).exists():
        what = name.upper() if name in POSITIONS else f"--{name.replace('_', '-')}"
        raise FileNotFoundError(
            f"{what} is {path!r}, and there is no such file; check its name and folder."
        )

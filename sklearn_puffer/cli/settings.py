"""Parameters of a run, which are those of the estimators; and its output.

Results go to standard output, messages and errors to standard error.
"""

from __future__ import annotations

import inspect
import re
import shlex
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import sklearn_puffer

FINE, NO_PROMISE, WRONG, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

#: The prefix of the parameters of a function among all arguments.
PREFIX = "noiser_"

#: Parameters that name columns: "1" is a name there, and no number.
NAMES = {"sensitive", "public", "known", "joined", "groups", "ids"}

#: The estimator of each mechanism.
MECHANISMS = {
    "noise": "PufferfishNoiser",
    "typical-rows": "PufferfishMicroaggregator",
    "swap": "PufferfishSwap",
}

#: Files that are read, by their places; and further ones, by options.
POSITIONS = ("table", "input", "artifact")
READ = (*POSITIONS, "audit", "key_file")

#: The file of the key in commands that are printed.
KEY_FILE = "people.key"

#: Parameters of a function that are no options.
_NOT_TYPED = {
    "plan": {"table", "settings"},
    "audit": {"estimator", "table", "sensitive_features", "verbose"},
}


def parameters_of(command: str) -> dict[str, str]:
    """Return the parameters of a function that are options, with their help."""
    return {name: text for name, text in told(command).items() if name not in _NOT_TYPED[command]}


def typed_of(command: str) -> dict[str, dict[str, str]]:
    """Return the options of a command by function; each parameter of estimators once."""
    if command in _NOT_TYPED:
        return {command: parameters_of(command)}
    found: dict[str, dict[str, str]] = {}
    for kind in MECHANISMS.values() if command == "fit" else ():
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


def value_of(text: str) -> Any:
    """Return an argument as a value of TOML, or else as a string.

    >>> value_of("0.5"), value_of("laplace"), value_of('{hours = 8}'), value_of("true")
    (0.5, 'laplace', {'hours': 8}, True)
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def typed(args: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of a function that are typed.

    A list of one name is the name; the word none is None, which TOML lacks, but for names.
    """
    given = {name: getattr(args, f"{PREFIX}{name}", None) for name in names}
    found = {name: value for name, value in given.items() if value is not None}
    for name, value in found.items():
        if name in NAMES and len(value) == 1:
            found[name] = value_of(value[0]) if value[0].startswith("{") else value[0]
        elif value == "none" and name not in NAMES:
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


#: Options of a release that messages name.
_RELEASE = ("unknown", "row_id", "dataset", "release", "ledger", "persons", "withhold", "note")

#: What messages say in Python, and what it is on the command line.
_WORDS = {
    "X": "the table",
    "None": "none",
    'table.insert(0, "id", range(len(table)))': "in a column named id",
    "pd.to_datetime": "--type COLUMN=date",
    "pd.to_numeric": "--type COLUMN=float",
    "astype(float)": "--type COLUMN=float",
    "astype(str)": "--type COLUMN=string",
    "to set_params after fit, as --unknown to puffer release": "to puffer release",
    "key names the environment variable": "--key-env names the environment variable",
    "Ledger.open": "puffer ledger show",
    "PersonLedger.open": "puffer persons show",
    "PersonLedger": "ledger of persons (--persons)",
    "Ledger.add adds": "the Python method Ledger.add adds",
    'exhausted="withhold"': "--withhold",
    "to_json() of a fitted estimator": "puffer fit",
    "it, or sensitive_features as in fit": "a table that has it",
    "b'blake2b:'": "blake2b:",
    "y and sensitive column": "--label and sensitive column",
    "pass another y": "take another --label",
    "see utility_": "see puffer report",
    "print it to see the remedy": "it has the remedy",
    "certificate_.details()": "puffer report",
    "certificate_.over_set says how much": "puffer audit attacks with some",
    "certificate_.against(prior) says how much": "puffer audit attacks with some",
    **{kind: f"--mechanism {mechanism}" for mechanism, kind in MECHANISMS.items()},
}


def as_typed(text: str) -> str:
    """Return a message with options in the place of the arguments of Python; quotes stay.

    >>> as_typed("column 'X' of X has few rows; take n_bins=5, or leave it out of public=.")
    "column 'X' of the table has few rows; take --n-bins 5, or leave it out of --public."
    """
    return _python().sub(_option_of, text)


def text_of(document: Any) -> str:
    """Return the text of a certificate or a page, in whose advice are options and commands."""
    lines = str(document).splitlines()
    advice = ("Risk: ", "certificate_.", "  - ", "  (change", "Release with", "No setting")
    return "\n".join(as_typed(line) if line.startswith(advice) else line for line in lines)


def _option_of(found: re.Match[str]) -> str:
    if found["quoted"] or found["word"]:
        return found["quoted"] or _WORDS[found["word"]]
    name, value = found["name"] or found["subject"], found["value"] or ""
    if value.startswith("{"):  # a table of TOML
        value = shlex.quote(value.replace("'", "").replace(":", " ="))
    else:
        value = _WORDS.get(value, value.strip("\"'"))
    return f"--{name.replace('_', '-')} {value}".rstrip()


@cache
def _python() -> re.Pattern[str]:
    """Return what finds arguments with their values, as subjects, or by their underscores."""
    typed = [*map(told, MECHANISMS.values()), *map(parameters_of, _NOT_TYPED)]
    names = {*_RELEASE, *(name for each in typed for name in each)}
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
        error = FileNotFoundError(
            f"{what} is {path!r}, and there is no such file; check its name and folder."
        )
        if name == "key_file":
            error.add_note(key_made(path))
        raise error


def key_made(path: str) -> str:
    """Return the command that makes a file with a key, which no extra is needed for."""
    from sklearn_puffer._words import on_one_line  # slow to import

    key = "import secrets; print('blake2b:' + secrets.token_hex(32))"
    made = f'(umask 077; python -c "{key}" > {shlex.quote(path)})'
    return f"to make a key that only you can read, once: {on_one_line(made)}"

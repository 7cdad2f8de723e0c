"""One run: what can be typed, or stands in a settings file, an exit status, and what is said.

Results go to standard output, everything else, one sentence of a failure too, to standard error.
"""

from __future__ import annotations

import argparse
import inspect
import os
import signal
import sys
import threading
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

FINE, NO_PROMISE, WRONG, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

_TOP = """
Release a table so that its public columns tell little about sensitive ones.

  puffer plan adult.csv --sensitive race --public age --public education
  puffer fit adult.csv release.json --sensitive race --public age --public education
  puffer report release.json
  puffer audit release.json held_out.csv
  puffer release release.json adult.csv released.csv
"""

_STATUS = """
Exit status: 0 where all is well; 1 where a certificate does not hold or a budget is spent, and
nothing was released, or where rows do not look like those of fit, or an attack tells more than was
promised; 2 of wrong usage, or of a file that cannot be used; 130 after Ctrl-C.
"""

_FIT = """
Learn what the public columns of TABLE tell about the sensitive ones, find the noise, and write the
form of the release: all that releasing takes, without the laws of the table.

  puffer fit adult.csv release.json --sensitive race --public age --n-bins 20 --epsilon 0.5
  puffer fit adult.parquet release.json --settings release.toml
"""

_SETTINGS = """
Settings file (TOML), of which arguments win:

  [table]                      # of CSV files
  separator = ";"              # default: a comma
  missing_values = ["", "?"]   # what stands for no value, where it is not quoted
  types = { zip = "string" }   # string, integer, float or boolean
  [noiser]                     # any parameter of PufferfishNoiser
  sensitive = "race"
  epsilon = 0.5
  n_bins = { age = 20 }
  [release]
  row_id = "client"            # keyed noise; with key_file or key_env
  key_env = "PUFFER_KEY"
  dataset = "clients"
  ledger = "clients.ledger"
"""

_RELEASE = """
Release the public columns of INPUT into OUTPUT, a few rows in memory at a time. OUTPUT is there
when all of it is, and never before; with a ledger, the release is on record before the first row.

  puffer release release.json adult.csv released.csv
  puffer release release.json clients.parquet out.parquet --ledger clients.ledger
  puffer release release.json clients.csv out.csv --row-id client --key-env PUFFER_KEY

With --row-id and a key an unchanged row comes out the same every time: after a run that was killed,
do it again; a ledger counts the same keyed release of the same file once.
"""

_PLAN = """
Fit a few settings on one part of a table and measure them on the rest: what changes, what attackers
find, and how well a task is learnt. Nothing is released or spent; the plan is computed from the raw
rows, so keep it where you keep the table.

  puffer plan adult.csv --sensitive race --public age --public education --epsilon 1
  puffer plan adult.csv --sensitive race --task income --out plan.html
"""

_CHECK = """
See whether the rows of TABLE still look like those of fit, which the promise is about; with
--sensitive also those of each secret, and the loss under what is seen, an estimate.

  puffer fit adult.csv release.json --sensitive race --public age --noiser noiser.joblib
  puffer check noiser.joblib new.csv
  puffer check noiser.joblib new.csv --sensitive race --out drift.html

--sensitive takes the saved noiser: a form holds no laws of secrets to compare with. The table is
read into memory, and nothing is released. The status is 1 where the rows differ.
"""

_AUDIT = """
Attack what would be released of TABLE, rows that were not in fit and have their secrets, and say
what attackers find beside what is promised. The releases that it draws are dropped.

  puffer audit release.json held_out.csv --task income
  puffer audit swap.joblib held_out.csv --out audit.html --peer remover=removed.csv

The audit is computed from the raw rows: keep it where you keep the table. The table is read into
memory. The status is 1 where an attack tells more than was promised.
"""

_REPORT = """
Show the report of a form or a saved noiser for the person who signs the release: the promise in
plain words, what is not promised, settings, what survives of each column, pairs of secrets, and a
field to sign. Or write it to a file (.txt, .html, .md or .json).

  puffer report release.json
  puffer report release.json --out report.html --name clients --by "A. Clerk"
  puffer report release.json --kind external --out for_recipients.html

The internal report is computed from the raw rows: keep it where you keep the table. The external
one is made of settings and names alone. The status is 1 where the certificate does not hold.
"""

_LEDGER = """
Keep the record of what was released, so that it cannot be released too often.

  puffer ledger create clients.ledger release.json
  puffer ledger left clients.ledger release.json
  puffer ledger show clients.ledger release.json
  puffer ledger spend clients.ledger release.json --note "sent by hand"
"""


_PERSONS = """
Keep the record of what the rows of each person have spent. It knows persons by their ids and the
key of the noise, in which every release of it is keyed.

  puffer persons create clients.sqlite release.json --key-file clients.key
  puffer release release.json clients.csv out.csv --row-id client --key-file clients.key \\
      --persons clients.sqlite
  puffer persons left clients.sqlite release.json 000017 --key-file clients.key
  puffer persons show clients.sqlite release.json --key-file clients.key
  puffer persons migrate clients.ledger clients.sqlite release.json --key-file clients.key
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the name of the command; those of this process by default.

    Returns
    -------
    int
        0 where all is well; 1 where a certificate does not hold, or a budget is spent, and nothing
        was released; 2 of wrong usage, or a file that cannot be used; 130 after Ctrl-C.

    Examples
    --------
    >>> from sklearn_puffer.cli import main
    >>> main(["report", "absent.json"])
    2
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        asked = _parser(given).parse_args(given)
    except SystemExit as end:  # argparse has said what is wrong
        return int(end.code or 0)
    return _run(asked)


def _run(asked: Any) -> int:
    before = _stop_when_terminated()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            setattr(warnings, "showwarning", _show_warning)  # noqa: B010
            return int(asked.run(asked) or FINE)
    except KeyboardInterrupt:
        tell("stopped: the output is whole or absent; what a ledger has counted stays counted.")
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads the text has read enough
        return _end_quietly()
    except Exception as error:
        return _failed(error, asked)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _end_quietly() -> int:
    """Leave nothing for Python to write at its end where nobody reads any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FINE


def _failed(error: Exception, asked: Any) -> int:
    if asked.traceback:
        sys.stderr.write(traceback.format_exc())
    tell(f"{asked.command}: error: {one_line(error)}")
    return NO_PROMISE if _lacks_a_promise(error) else WRONG


def _lacks_a_promise(error: Exception) -> bool:
    from sklearn_puffer import OverspentError, UncertifiedError

    return isinstance(error, UncertifiedError | OverspentError)


def _show_warning(message: Warning | str, *others: Any) -> None:
    tell(f"warning: {one_line(message)}")


def _stop_when_terminated() -> Any:
    """Let SIGTERM end the run as an exception does, so that nothing half written stays behind."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """Return what reads the arguments; those of `fit` are made when it is asked for."""
    top = _Parser(prog="puffer", description=_TOP, epilog=_STATUS)
    top.add_argument("--version", action=_Version, help="show the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _fit(commands, whole="fit" in given)
    _plan(commands, whole="plan" in given)
    _release(commands)
    _check(commands)
    _audit(commands, whole="audit" in given)
    _report(commands)
    _ledger(commands)
    _persons(commands)
    return top


class _Parser(argparse.ArgumentParser):
    """One whose texts keep their lines, and which takes no abbreviations."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )


class _Version(argparse.Action):
    """Show the version, which is imported for that alone."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, own: argparse.ArgumentParser, *others: Any) -> None:
        from sklearn_puffer import __version__

        say(f"puffer {__version__}")
        own.exit()


def _command(commands: Any, name: str, about: str, text: str, run: str) -> argparse.ArgumentParser:
    """Add a command, whose work is done by ``module:function`` of this folder."""
    own: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=text, epilog=_STATUS
    )
    own.set_defaults(run=_later(run))
    own.add_argument(
        "--traceback", action="store_true", help="of an error, show where it came from, too"
    )
    return own


def _later(place: str) -> Callable[[Any], int]:
    """Return a function that is imported when it is called: help is to be fast."""
    module, _, name = place.partition(":")
    return lambda asked: getattr(import_module(f"sklearn_puffer.cli.{module}"), name)(asked)


def _fit(commands: Any, *, whole: bool) -> None:
    about = "learn the noise from a table, and write the form of the release"
    own = _command(commands, "fit", about, _FIT + _SETTINGS, "commands:fit")
    own.add_argument("table", metavar="TABLE", help="a .parquet, .csv or .tsv file")
    own.add_argument("form", metavar="FORM", help="the form to write, a .json file")
    own.add_argument(
        "--noiser",
        metavar="FILE",
        help="save the whole noiser, too (joblib); it holds the laws of the table: keep it as safe",
    )
    _shared(own)
    own.add_argument("--force", action="store_true", help="replace files that are there")
    if whole:
        _add_parameters(own, "PufferfishNoiser", noiser_parameters())


def _plan(commands: Any, *, whole: bool) -> None:
    own = _command(commands, "plan", "compare settings on a table", _PLAN, "commands:plan")
    own.add_argument("table", metavar="TABLE", help="a .parquet, .csv or .tsv file")
    _shared(own)
    _out(own)
    if whole:
        _add_parameters(own, "plan", plan_parameters())


def _check(commands: Any) -> None:
    about = "see whether rows still look like those of fit"
    own = _command(commands, "check", about, _CHECK, "commands:check")
    _form(own)
    own.add_argument("table", metavar="TABLE", help="a .parquet, .csv or .tsv file")
    text = "a sensitive column; repeated for several"
    own.add_argument("--sensitive", action="append", metavar="NAME", help=text)
    _shared(own)
    _out(own)


def _audit(commands: Any, *, whole: bool) -> None:
    about = "attack what would be released of rows that were not in fit"
    own = _command(commands, "audit", about, _AUDIT, "commands:audit")
    _form(own)
    own.add_argument("table", metavar="TABLE", help="a .parquet, .csv or .tsv file, with secrets")
    text = "the rows of TABLE as another way released them; repeated for several"
    own.add_argument("--peer", dest="peers", action="append", metavar="NAME=FILE", help=text)
    _shared(own)
    _out(own)
    own.add_argument("--quiet", action="store_true", help="tell no progress")
    if whole:
        _add_parameters(own, "audit", audit_parameters())


def _out(own: argparse.ArgumentParser) -> None:
    own.add_argument("--out", metavar="FILE", help="a .txt, .html, .md or .json file to write")
    own.add_argument("--force", action="store_true", help="replace the file if it is there")


def _add_parameters(
    own: argparse.ArgumentParser, name_of_all: str, parameters: dict[str, str]
) -> None:
    """Add parameters: their names, defaults and texts are those of what takes them."""
    group = own.add_argument_group(
        f"parameters of {name_of_all}",
        "VALUE is one of TOML (0.5, true, [1, 2], {age = 20}), or a plain word; NAME is a column, "
        "and the option is repeated for several.",
    )
    for name, said in parameters.items():
        several: dict[str, Any] = {"type": value_of, "metavar": "VALUE"}
        if name in NAMES:
            several = {"action": "append", "metavar": "NAME"}
        text = said.replace("%", "%%")
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, dest=f"{PREFIX}{name}", help=text, **several)


def _shared(own: argparse.ArgumentParser) -> None:
    """Add what is said of CSV files."""
    own.add_argument("--settings", metavar="TOML", help="a settings file; see `puffer fit --help`")
    own.add_argument("--separator", metavar="CHARACTER", help="between values of a CSV file")
    own.add_argument(
        "--missing-value",
        dest="missing_values",
        action="append",
        metavar="TEXT",
        help="what stands for no value in a CSV file, besides nothing; repeated for several",
    )
    own.add_argument(
        "--type",
        dest="types",
        action="append",
        metavar="COLUMN=TYPE",
        help="string, integer, float or boolean; repeated for several columns of a CSV file",
    )


def _release(commands: Any) -> None:
    about = "release a table by a form or a saved noiser"
    own = _command(commands, "release", about, _RELEASE, "commands:release")
    _form(own)
    own.add_argument("input", metavar="INPUT", help="a .parquet, .csv or .tsv file")
    own.add_argument("output", metavar="OUTPUT", help="the file to write, of any of these kinds")
    text = 'what becomes of values that fit has not seen, as in `puffer fit`: "error" or "nearest"'
    own.add_argument("--unknown", type=value_of, metavar="VALUE", help=text)
    own.add_argument("--row-id", metavar="NAME", help="the column of ids: asks for keyed noise")
    _key(own, required=False)
    own.add_argument("--dataset", metavar="NAME", help="of the table, for keyed noise and ledger")
    own.add_argument("--release", type=int, metavar="NUMBER", help="another one is drawn anew")
    own.add_argument("--ledger", metavar="FILE", help="count this release there")
    own.add_argument("--persons", metavar="FILE", help="count it there for each person instead")
    text = "with --persons: leave out who has no release left, instead of refusing all"
    own.add_argument("--withhold", action="store_true", default=None, help=text)
    own.add_argument("--note", metavar="TEXT", help="for the ledger")
    _shared(own)
    own.add_argument("--force", action="store_true", help="replace OUTPUT if it is there")
    own.add_argument("--quiet", action="store_true", help="tell no progress")


def _key(own: argparse.ArgumentParser, *, required: bool) -> None:
    key = own.add_mutually_exclusive_group(required=required)
    key.add_argument("--key-file", metavar="FILE", help="that holds the key: 16 bytes or more")
    key.add_argument("--key-env", metavar="VARIABLE", help="of the environment, with the key")


def _form(own: argparse.ArgumentParser) -> None:
    own.add_argument(
        "form",
        metavar="FORM",
        help="a form (.json), or a saved noiser (.joblib), which runs code when it is loaded: open "
        "only your own",
    )


def _report(commands: Any) -> None:
    about = "show what is promised, for the person who signs"
    own = _command(commands, "report", about, _REPORT, "commands:report")
    _form(own)
    kinds = ["internal", "external"]
    text = "for who signs (the default), or for recipients: nothing made of raw rows"
    own.add_argument("--kind", choices=kinds, default="internal", help=text)
    own.add_argument("--name", metavar="NAME", help="of the data set")
    own.add_argument("--by", default="", metavar="NAME", help="who makes the report")
    _out(own)


def _ledger(commands: Any) -> None:
    about = "create, show and spend from a ledger"
    own = commands.add_parser("ledger", help=about, description=_LEDGER, epilog=_STATUS)
    actions = own.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("create", "start a ledger, with nothing spent"),
        ("show", "show all that was released"),
        ("left", "show what may still be released"),
        ("spend", "put a release on record that is made elsewhere"),
    ):
        each = _command(actions, name, text, f"{text.capitalize()}.", f"commands:{name}_ledger")
        each.add_argument("ledger", metavar="LEDGER", help="its file")
        _form(each)
        if name != "show":
            _of_ledger(each, name)


def _of_ledger(own: argparse.ArgumentParser, name: str) -> None:
    if name == "create":
        text = "independent data, each with a whole budget; repeated for several"
        own.add_argument("--dataset", dest="datasets", action="append", metavar="NAME", help=text)
        return
    own.add_argument("--dataset", metavar="NAME", help="may be left out where there is only one")
    if name == "spend":
        own.add_argument("--releases", type=int, default=1, metavar="NUMBER", help="default: 1")
        own.add_argument("--note", default="", metavar="TEXT")


def _persons(commands: Any) -> None:
    about = "count what the rows of each person have spent"
    own = commands.add_parser("persons", help=about, description=_PERSONS, epilog=_STATUS)
    actions = own.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("create", "start a ledger of persons, in which nobody has spent anything"),
        ("migrate", "start one in which everybody has spent what a ledger says, and close that"),
        ("show", "show what was released"),
        ("left", "show what may still be released of a person"),
    ):
        each = _command(actions, name, text, f"{text.capitalize()}.", f"commands:{name}_persons")
        if name == "migrate":
            each.add_argument("ledger", metavar="LEDGER", help="a ledger of releases of tables")
            text = "in it; may be left out where there is only one"
            each.add_argument("--dataset", metavar="NAME", help=text)
        each.add_argument("persons", metavar="PERSONS", help="the file of the ledger of persons")
        _form(each)
        _key(each, required=True)
        _of_persons(each, name)


def _of_persons(own: argparse.ArgumentParser, name: str) -> None:
    if name in ("create", "migrate"):
        text = "what becomes of rows that changed: refused (the default), or counted once more"
        choices = ["refuse", "count"]
        own.add_argument("--changes", choices=choices, default="refuse", help=text)
    if name == "left":
        own.add_argument("person", metavar="ID", help="of the person")
        own.add_argument("--integer", action="store_true", help="the id is a whole number")


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


def say(text: str) -> None:
    """Write a result, and a line break, to standard output."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """Write a line about the run to standard error."""
    sys.stderr.write(f"puffer: {text}\n")
    sys.stderr.flush()


def one_line(error: Any) -> str:
    """Return what an error or a warning says, in one line that no terminal takes for commands."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.strerror}: {error.filename!r}"
    plain = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    return plain or type(error).__name__

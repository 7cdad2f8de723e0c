"""One run: what can be typed, its help, and an exit status."""

from __future__ import annotations

import argparse
import inspect
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from sklearn_puffer.cli.settings import (
    FINE,
    INTERRUPTED,
    MECHANISMS,
    NAMES,
    NO_PROMISE,
    PREFIX,
    RELEASE,
    TERMINATED,
    WRONG,
    one_line,
    say,
    tell,
    typed_of,
    value_of,
)

_TOP = """
Release a table so that its public columns tell little about sensitive ones.

  puffer plan adult.csv --sensitive race --public age --public education
  puffer fit adult.csv release.json --sensitive race --public age --public education
  puffer report release.json
  puffer audit release.json held_out.csv
  puffer release release.json adult.csv released.csv
"""

_A_FILE = "a .parquet, .csv or .tsv file"

_STATUS = """
Exit status: 0 where all is well; 1 where a certificate does not hold or a budget is spent, and
nothing was released, or where rows do not look like those of fit, or an attack tells more than was
guaranteed; 2 of wrong usage, or of a file that cannot be used; 130 after Ctrl-C.
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
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = _parser(words).parse_args(words)
    except SystemExit as end:  # argparse has said what is wrong
        return int(end.code or 0)
    return _run(args)


def _run(args: Any) -> int:
    before = _stop_when_terminated()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            setattr(warnings, "showwarning", _show_warning)  # noqa: B010
            return int(args.run(args) or FINE)
    except KeyboardInterrupt:
        tell("stopped: the output is whole or absent; what a ledger has counted stays counted.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the text has read enough
        # nothing is left for Python to write at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except Exception as error:
        return _failed(error, args)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _failed(error: Exception, args: Any) -> int:
    from sklearn_puffer import OverspentError, UncertifiedError

    if args.traceback:
        sys.stderr.write(traceback.format_exc())
    tell(f"{args.command}: error: {one_line(error)}")
    return NO_PROMISE if isinstance(error, UncertifiedError | OverspentError) else WRONG


def _show_warning(message: Warning | str, *others: Any) -> None:
    tell(f"warning: {one_line(message)}")


def _stop_when_terminated() -> Any:
    """Let SIGTERM end the run as an exception does, so that nothing half written stays behind."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser; only the command that is typed has the parameters of its function."""
    top = _Parser(prog="puffer", description=_TOP, epilog=_STATUS)
    top.add_argument("--version", action=_Version, help="show the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (_fit, _plan, _release, _check, _audit, _report):
        name = add.__name__.removeprefix("_")
        parser = _command(commands, name, inspect.getdoc(add) or "", name)
        add(parser)
        for function, parameters in typed_of(name).items() if name in words else ():
            _add_parameters(parser, function, parameters)
    for several in (_ledger, _persons):
        about, _, text = (inspect.getdoc(several) or "").partition("\n\n")
        name = several.__name__.removeprefix("_")
        parser = commands.add_parser(name, help=about, description=text, epilog=_STATUS)
        several(parser.add_subparsers(dest="action", metavar="ACTION", required=True))
    return top


class _Parser(argparse.ArgumentParser):
    """A parser whose texts keep their lines, and which takes no abbreviations."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )


class _Version(argparse.Action):
    """Show the version, which is imported for that alone."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *others: Any) -> None:
        from sklearn_puffer import __version__

        say(f"puffer {__version__}")
        parser.exit()


def _command(commands: Any, name: str, doc: str, run: str) -> argparse.ArgumentParser:
    """Add a command with this docstring, which runs a function of `commands`."""
    about, _, text = doc.partition("\n\n")
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=text or about, epilog=_STATUS
    )

    def later(args: Any) -> Any:
        from sklearn_puffer.cli import commands  # which import much, and help is to be fast

        return getattr(commands, run)(args)

    parser.set_defaults(run=later)
    parser.add_argument(
        "--traceback", action="store_true", help="of an error, show where it came from, too"
    )
    return parser


def _add_parameters(
    parser: argparse.ArgumentParser, function: str, parameters: Mapping[str, str]
) -> None:
    """Add parameters of the function behind a command, with names and texts of their own."""
    group = parser.add_argument_group(
        f"parameters of {function}",
        "VALUE is one of TOML (0.5, true, [1, 2], {age = 20}), or a plain word, of which none is "
        "None; NAME is a column, and the option is repeated for several.",
    )
    for name, about in parameters.items():
        kind: dict[str, Any] = {"type": value_of, "metavar": "VALUE"}
        if name in NAMES:
            kind = {"action": "append", "metavar": "NAME"}
        text = about.replace("%", "%%")
        group.add_argument(_option(name), dest=f"{PREFIX}{name}", help=text, **kind)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# The docstrings of these functions are what `puffer --help` and `puffer COMMAND --help` show.


def _fit(parser: argparse.ArgumentParser) -> None:
    """Learn noise, typical rows or a swap from a table, and write the release artifact.

    Learn what the public columns of TABLE tell about the sensitive ones, find the noise, and write
    the release artifact: all that a release needs, without the distributions of the table. With
    --mechanism typical-rows find typical rows and the channel between them; with --mechanism swap
    solve who may exchange rows with whom.

      puffer fit adult.csv release.json --sensitive race --public age --n-bins 20 --epsilon 0.5
      puffer fit adult.parquet release.json --settings release.toml
      puffer fit adult.csv rows.json --mechanism typical-rows --sensitive sex
      puffer fit adult.csv swap.json --mechanism swap --sensitive sex --ids client

    Settings file (TOML), of which arguments win:

      [table]                      # of CSV files
      separator = ";"              # default: a comma
      missing_values = ["", "?"]   # what stands for no value, where it is not quoted
      types = { zip = "string" }   # string, integer, float or boolean
      [noiser]                     # any parameter of PufferfishNoiser
      sensitive = "race"
      epsilon = 0.5
      n_bins = { age = 20 }
      [microaggregator]            # or, in its place, any of PufferfishMicroaggregator
      sensitive = "race"
      [swap]                       # or, in its place, any of PufferfishSwap
      sensitive = "race"
      [release]
      row_id = "client"            # keyed noise; with key_file or key_env
      key_env = "PUFFER_KEY"
      dataset = "clients"
      ledger = "clients.ledger"
    """
    parser.add_argument("table", metavar="TABLE", help=_A_FILE)
    parser.add_argument("artifact", metavar="ARTIFACT", help="the file to write, .json")
    text = (
        "save the whole noiser, too (joblib); it holds the table's distributions: keep it as safe"
    )
    parser.add_argument("--noiser", metavar="FILE", help=text)
    text = "what changes the rows: noise, the default, typical-rows or swap"
    parser.add_argument("--mechanism", type=_mechanism, choices=list(MECHANISMS), help=text)
    _shared(parser)
    parser.add_argument("--force", action="store_true", help="replace files that are there")


def _mechanism(text: str) -> str:
    """Return a mechanism by its name, or by that of typical rows in earlier versions."""
    return {"microaggregation": "typical-rows"}.get(text, text)


def _plan(parser: argparse.ArgumentParser) -> None:
    """Compare typical rows, a swap and noise on a table.

    Fit typical rows, a swap (where --ids or --known say whose row is whose) and noise (of few
    columns) on one part of a table and measure them on the rest: what changes, what attackers
    find, how well a task is learnt, and for whom each is proven. Nothing is released or spent; the
    plan is computed from the raw rows, so keep it where you keep the table.

      puffer plan adult.csv --sensitive race --public age --public education --epsilon 1
      puffer plan adult.csv --sensitive race --task income --out plan.html
    """
    parser.add_argument("table", metavar="TABLE", help=_A_FILE)
    _shared(parser)
    _out(parser)


def _check(parser: argparse.ArgumentParser) -> None:
    """See whether rows still look like those of fit.

    See whether the rows of TABLE still look like those of fit, which the guarantee is about.

      puffer fit adult.csv release.json --sensitive race --public age
      puffer check release.json new.csv --out drift.html

    The table is read into memory, and nothing is released. The status is 1 where the rows differ.
    """
    _artifact(parser)
    parser.add_argument("table", metavar="TABLE", help=_A_FILE)
    _shared(parser)
    _out(parser)


def _audit(parser: argparse.ArgumentParser) -> None:
    """Attack what would be released of rows that were not in fit.

    Attack what would be released of TABLE, rows that were not in fit and have their secrets, and
    say what attackers find beside what is guaranteed. The releases that it draws are dropped.

      puffer audit release.json held_out.csv --task income
      puffer audit noiser.joblib held_out.csv --out audit.html

    The audit is computed from the raw rows: keep it where you keep the table. The table is read
    into memory. The status is 1 where an attack tells more than was guaranteed.
    """
    _artifact(parser)
    parser.add_argument("table", metavar="TABLE", help=f"{_A_FILE}, with secrets")
    _shared(parser)
    _out(parser)
    parser.add_argument("--quiet", action="store_true", help="tell no progress")


def _release(parser: argparse.ArgumentParser) -> None:
    """Release a table by a release artifact or a saved noiser.

    Release the public columns of INPUT into OUTPUT, a few rows in memory at a time. OUTPUT is there
    when all of it is, and never before; with a ledger, the release is on record before the first
    row.

      puffer release release.json adult.csv released.csv
      puffer release release.json clients.parquet out.parquet --ledger clients.ledger
      puffer release release.json clients.csv out.csv --row-id client --key-env PUFFER_KEY

    With --row-id and a key an unchanged row comes out the same every time: after a run that was
    killed, do it again; a ledger counts the same keyed release of the same file once.

    A swap takes all of INPUT into memory, with its secrets, and needs --row-id and a key: two swaps
    of the same people undo each other.
    """
    _artifact(parser)
    parser.add_argument("input", metavar="INPUT", help=_A_FILE)
    parser.add_argument("output", metavar="OUTPUT", help="the file to write, of any of these kinds")
    _key(parser, required=False)
    for name, option in RELEASE.items():
        parser.add_argument(_option(name), **option)
    _shared(parser)
    parser.add_argument("--force", action="store_true", help="replace OUTPUT if it is there")
    parser.add_argument("--quiet", action="store_true", help="tell no progress")


def _report(parser: argparse.ArgumentParser) -> None:
    """Show what is guaranteed, for the person who signs.

    Show the report of a release artifact or a saved noiser for the person who signs the release:
    the guarantee in plain words, what is not guaranteed, settings, what survives of each column,
    pairs of secrets, and a field to sign. Or write it to a file (.txt, .html, .md or .json). With
    --audit it attacks the release first, as `puffer audit` does, and with --plan it compares other
    ways on the table, as `puffer plan` does; what either finds stands in the report.

      puffer report release.json
      puffer report release.json --audit held_out.csv --task income --plan adult.csv
      puffer report release.json --out report.html --name clients --by "A. Clerk"
      puffer report release.json --kind external --out for_recipients.html

    The internal report is computed from the raw rows: keep it where you keep the table. The
    external one is made of settings and names alone. The status is 1 where the certificate does not
    hold.
    """
    _artifact(parser)
    kinds = ["internal", "external"]
    text = "for who signs (the default), or for recipients: nothing made of raw rows"
    parser.add_argument("--kind", choices=kinds, default="internal", help=text)
    parser.add_argument("--name", metavar="NAME", help="of the data set")
    parser.add_argument("--by", default="", metavar="NAME", help="who makes the report")
    text = "attack what is released of these rows, which were not in fit, with their secrets"
    parser.add_argument("--audit", metavar="TABLE", help=text)
    text = "compare other ways to release the columns of this table, with its secrets"
    parser.add_argument("--plan", metavar="TABLE", help=text)
    text = "a column of either that a model is to predict from released rows"
    parser.add_argument("--task", metavar="NAME", help=text)
    _shared(parser)
    _out(parser)


def _ledger(actions: Any) -> None:
    """Create, show and spend from a ledger.

    Keep the record of what was released, so that it cannot be released too often.

      puffer ledger create clients.ledger release.json
      puffer ledger show clients.ledger release.json
      puffer ledger spend clients.ledger release.json --note "sent by hand"
    """
    texts = {
        "create": "Start a ledger, with nothing spent.",
        "show": "Show all that was released, and what may still be.",
        "spend": "Put a release on record that is made elsewhere.",
    }
    create, show, spend = (
        _command(actions, name, text, f"{name}_ledger") for name, text in texts.items()
    )
    for parser in (create, show, spend):
        parser.add_argument("ledger", metavar="LEDGER", help="its file")
        _artifact(parser)
    text = "independent data, each with a whole budget; repeated for several"
    create.add_argument("--dataset", dest="datasets", action="append", metavar="NAME", help=text)
    text = "may be left out where there is only one"
    spend.add_argument("--dataset", metavar="NAME", help=text)
    spend.add_argument("--releases", type=int, default=1, metavar="NUMBER", help="default: 1")
    spend.add_argument("--note", default="", metavar="TEXT")


def _persons(actions: Any) -> None:
    r"""Count what the rows of each person have spent.

    Keep the record of what the rows of each person have spent. Persons are known by their ids and
    the key of the noise; every release is keyed by it.

      puffer persons create clients.sqlite release.json --key-file clients.key
      puffer release release.json clients.csv out.csv --row-id client --key-file clients.key \
          --persons clients.sqlite
      puffer persons left clients.sqlite release.json 000017 --key-file clients.key
      puffer persons show clients.sqlite release.json --key-file clients.key
    """
    texts = {
        "create": "Start a ledger of persons, in which nobody has spent anything.",
        "show": "Show what was released.",
        "left": "Show what may still be released of a person.",
    }
    create, show, left = (
        _command(actions, name, text, f"{name}_persons") for name, text in texts.items()
    )
    for parser in (create, show, left):
        parser.add_argument("persons", metavar="PERSONS", help="the file of the ledger of persons")
        _artifact(parser)
        _key(parser, required=True)
    text = "what becomes of rows that changed: refused (the default), or counted once more"
    create.add_argument("--changes", choices=["refuse", "count"], default="refuse", help=text)
    left.add_argument("person", metavar="ID", help="of the person")
    left.add_argument("--integer", action="store_true", help="the id is a whole number")


def _out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="a .txt, .html, .md or .json file to write")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def _shared(parser: argparse.ArgumentParser) -> None:
    """Add what is said of CSV files."""
    parser.add_argument(
        "--settings", metavar="TOML", help="a settings file; see `puffer fit --help`"
    )
    parser.add_argument("--separator", metavar="CHARACTER", help="between values of a CSV file")
    text = "what stands for no value in a CSV file, besides nothing; repeated for several"
    parser.add_argument(
        "--missing-value", dest="missing_values", action="append", metavar="TEXT", help=text
    )
    text = "string, integer, float or boolean; repeated for several columns of a CSV file"
    parser.add_argument("--type", dest="types", action="append", metavar="COLUMN=TYPE", help=text)


def _key(parser: argparse.ArgumentParser, *, required: bool) -> None:
    key = parser.add_mutually_exclusive_group(required=required)
    key.add_argument("--key-file", metavar="FILE", help="that holds the key: 16 bytes or more")
    key.add_argument("--key-env", metavar="VARIABLE", help="of the environment, with the key")


def _artifact(parser: argparse.ArgumentParser) -> None:
    text = (
        "a release artifact (.json), or a saved noiser (.joblib), which runs code when it is "
        "loaded: open only your own"
    )
    parser.add_argument("artifact", metavar="ARTIFACT", help=text)

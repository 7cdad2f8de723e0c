"""Release a table so that its public columns tell little about sensitive ones.

  puffer plan adult.csv --sensitive race     (compares ways, and tells the command that fits)
  puffer fit adult.csv release.json --mechanism typical-rows --sensitive race
  puffer report release.json
  puffer audit release.json held_out.csv     (with rows that were not in fit)
  puffer release release.json adult.csv released.csv

Files are read by pyarrow, which comes with pip install "sklearn-puffer[cli]", in a checkout with
pip install ".[cli]".
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from sklearn_puffer.cli.settings import (
    FINE,
    INTERRUPTED,
    MECHANISMS,
    NAMES,
    NO_PROMISE,
    PREFIX,
    READ,
    TERMINATED,
    WRONG,
    check_there,
    message_of,
    say,
    tell,
    typed_of,
    value_of,
)

_A_FILE = "a .parquet, .csv or .tsv file"

_STATUS = """
Exit status: 0 on success; 1 if nothing was released because a certificate does not hold or a
budget is spent, if rows have drifted from those of fit, or if an attack finds more than is
guaranteed; 2 for wrong usage or a file that cannot be used; 130 after Ctrl-C.
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
        0 on success; 1 if nothing was released because a certificate does not hold or a budget is
        spent, if rows have drifted, or if an attack finds more than is guaranteed; 2 for wrong
        usage or a file that cannot be used; 130 after Ctrl-C.

    Examples
    --------
    >>> from sklearn_puffer.cli import main
    >>> main(["report", "absent.json"])
    2
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        from sklearn_puffer import __version__  # slow to import, as the commands are

        say(f"puffer {__version__}")
        return FINE
    try:
        args, strange = _parser(words).parse_known_args(words)
    except SystemExit as end:  # the error is written
        return int(end.code or 0)
    if strange:
        tell(_about_strange(args.command, strange))
        return WRONG
    args.words = words
    return _run(args)


def _about_strange(command: str, strange: Sequence[str]) -> str:
    """Return the error about words that a command does not take."""
    from sklearn_puffer._words import meant, on_one_line  # slow to import

    word = next((each for each in strange if each.startswith("-")), strange[0]).partition("=")[0]
    parsers = _parser(["fit", "plan", "audit"]).commands.choices
    usages = {name: " ".join(parser.format_usage().split()) for name, parser in parsers.items()}
    ways = [f"puffer {name} {way}" for name in usages if (way := _option_in(usages[name], word))]
    near = "" if ways else meant(word, re.findall(r"--[a-z-]+", usages[command]))
    remedy = " or ".join(ways) or f"puffer {command} --help"
    return f"{command}: error: puffer {command} takes no {on_one_line(word)}{near}; try {remedy}."


def _option_in(usage: str, word: str) -> str:
    """Return an option of this name, or with this choice, of a command; "" if it has none.

    >>> _option_in("puffer report [--kind {internal,external}]", "--external")
    '--kind external'
    """
    choice = re.escape(word.removeprefix("--"))
    found = re.search(rf"(--[a-z-]+) {{[^}}]*\b{choice}\b|(?<!\S)\[?(--{choice})(?![\w-])", usage)
    if not found or not word.startswith("--"):
        return ""
    return found[2] or f"{found[1]} {word[2:]}"


def _run(args: Any) -> int:
    def show(message: Warning | str, *others: Any) -> None:
        tell(f"warning: {message_of(message)}")

    before = None
    if threading.current_thread() is threading.main_thread():
        # an exception, so that no partial output stays behind
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            setattr(warnings, "showwarning", show)  # noqa: B010
            for name in READ:
                path = None if (args.command, name) == ("fit", "artifact") else vars(args).get(name)
                if path is not None:
                    check_there(name, path)
            return int(args.run(args) or FINE)
    except KeyboardInterrupt:
        tell("stopped: the output is whole or absent; what a ledger has counted stays counted.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the text has read enough
        # else Python fails when it flushes the output at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except Exception as error:
        from sklearn_puffer import OverspentError, UncertifiedError

        if args.traceback:
            sys.stderr.write(traceback.format_exc())
        tell(f"{args.command}: error: {message_of(error)}")
        for note in getattr(error, "__notes__", ()):
            tell(note)
        return NO_PROMISE if isinstance(error, UncertifiedError | OverspentError) else WRONG
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _parser(words: Sequence[str]) -> _Parser:
    """Return the parser; only the command in ``words`` gets the parameters of its function."""
    top = _Parser(prog="puffer", description=__doc__, epilog=_STATUS)
    top.add_argument("--version", action="store_true", help="show the version and exit")
    top.commands = commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
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
    """A parser that keeps the lines of texts, takes no abbreviations, and refuses in a sentence."""

    commands: Any

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        tell(f"error: {message}; {self.prog} --help shows more.")
        raise SystemExit(WRONG)


def _command(commands: Any, name: str, doc: str, run: str) -> argparse.ArgumentParser:
    """Add a command with this docstring, which runs the function ``run`` of `commands`."""
    about, _, text = doc.partition("\n\n")
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=text or about, epilog=_STATUS
    )

    def run_command(args: Any) -> Any:
        from sklearn_puffer.cli import commands  # slow to import, and --help does not need it

        return getattr(commands, run)(args)

    parser.set_defaults(run=run_command)
    parser.add_argument("--traceback", action="store_true", help="show the traceback of an error")
    return parser


def _add_parameters(
    parser: argparse.ArgumentParser, function: str, parameters: Mapping[str, str]
) -> None:
    """Add the parameters of the function behind a command as options."""
    group = parser.add_argument_group(
        f"parameters of {function}",
        "VALUE is written as in TOML (0.5, true, [1, 2], {age = 20}), or as a plain word; none is "
        "None. NAME is a column; repeat the option for several.",
    )
    for name, about in parameters.items():
        kind: dict[str, Any] = {"type": value_of, "metavar": "VALUE"}
        if name in NAMES:
            kind = {"action": "append", "metavar": "NAME"}
        text = about.replace("%", "%%")
        group.add_argument(f"--{name.replace('_', '-')}", dest=f"{PREFIX}{name}", help=text, **kind)


# The docstrings of these functions are what `puffer --help` and `puffer COMMAND --help` show.


def _fit(parser: argparse.ArgumentParser) -> None:
    """Learn noise, typical rows or a swap from a table, and write the release artifact.

    Learn what the public columns of TABLE reveal of the sensitive ones, compute the noise scales,
    and write the release artifact: all that a release needs, without the distributions of the
    table. With --mechanism typical-rows compute typical rows and the channel between them; with
    --mechanism swap compute the flows of rows between secrets.

      puffer fit adult.csv release.json --sensitive race --public age --n-bins 20 --epsilon 0.5
      puffer fit adult.csv rows.json --mechanism typical-rows --sensitive sex
      puffer fit adult.csv swap.json --mechanism swap --sensitive sex --ids client
    """
    parser.add_argument("table", metavar="TABLE", help=_A_FILE)
    parser.add_argument("artifact", metavar="ARTIFACT", help="the file to write, .json")
    text = "noise (the default), typical-rows or swap"
    parser.add_argument("--mechanism", choices=list(MECHANISMS), default="noise", help=text)
    text = "a column that a model is to predict: typical rows are grouped for it"
    parser.add_argument("--label", metavar="NAME", help=text)
    _shared(parser)


def _plan(parser: argparse.ArgumentParser) -> None:
    """Compare typical rows, a swap and noise on a table.

    Fit typical rows, a swap (with --ids or --known) and noise (on few columns) to one part of a
    table and measure them on the rest: how much values change, what attackers find, how well a
    task is learnt, and which readers each is proven for. Nothing is released or spent. The plan is
    computed from the raw rows: keep it where you keep the table.

      puffer plan adult.csv --sensitive race --public age --public education --epsilon 1
      puffer plan adult.csv --sensitive race --task income --out plan.html
    """
    parser.add_argument("table", metavar="TABLE", help=_A_FILE)
    _shared(parser)
    _out(parser)


def _check(parser: argparse.ArgumentParser) -> None:
    """Test whether rows have drifted from those of fit.

    Test whether the rows of TABLE have drifted from those of fit, which the guarantee is about.

      puffer fit adult.csv release.json --sensitive race --public age
      puffer check release.json new.csv --out drift.html

    The table is read into memory, and nothing is released. The status is 1 if rows have drifted.
    """
    _artifact(parser)
    parser.add_argument("table", metavar="TABLE", help=_A_FILE)
    _shared(parser)
    _out(parser)


def _audit(parser: argparse.ArgumentParser) -> None:
    """Attack simulated releases of rows that were not in fit.

    Attack simulated releases of TABLE, whose rows were not in fit and have their secrets, and
    compare what attackers find with what is guaranteed. The simulated releases are discarded.

      puffer audit release.json held_out.csv --task income
      puffer audit release.json held_out.csv --out audit.html

    The audit is computed from the raw rows: keep it where you keep the table. The table is read
    into memory. The status is 1 if an attack finds more than is guaranteed.
    """
    _artifact(parser)
    parser.add_argument("table", metavar="TABLE", help=f"{_A_FILE}, with secrets")
    _shared(parser)
    _out(parser)
    parser.add_argument("--quiet", action="store_true", help="tell no progress")


def _release(parser: argparse.ArgumentParser) -> None:
    """Release a table by a release artifact.

    Release the public columns of INPUT into OUTPUT, in memory. OUTPUT
    appears when it is complete. With a ledger, the release is recorded before the first row.

      puffer release release.json adult.csv released.csv
      puffer release release.json clients.parquet out.parquet --ledger clients.ledger
      puffer release release.json clients.csv out.csv --row-id client --key-env PUFFER_KEY

    With --row-id and a key an unchanged row is released alike every time. So repeat a run that was
    killed; a ledger counts the same keyed release of the same file once.

    A swap takes all of INPUT into memory, with its secrets. Release it once: two swaps of the same
    people tell more together than either, and only --row-id and a key make the same one again.
    """
    _artifact(parser)
    parser.add_argument("input", metavar="INPUT", help=_A_FILE)
    parser.add_argument("output", metavar="OUTPUT", help="the file to write, of any of these kinds")
    _key(parser, required=False)
    text = "how to treat values that fit has not seen, as in `puffer fit`"
    parser.add_argument("--unknown", type=value_of, metavar="VALUE", help=text)
    text = "the column of ids, for keyed noise"
    parser.add_argument("--row-id", metavar="NAME", help=text)
    text = "name of the table, for keyed noise and the ledger"
    parser.add_argument("--dataset", metavar="NAME", help=text)
    text = "number of the release, each with fresh keyed noise"
    parser.add_argument("--release", type=int, default=0, metavar="NUMBER", help=text)
    ledgers = parser.add_mutually_exclusive_group()
    text = "the ledger to count this release in"
    ledgers.add_argument("--ledger", metavar="FILE", help=text)
    text = "the ledger of persons to count it in instead"
    ledgers.add_argument("--persons", metavar="FILE", help=text)
    text = "with --persons: omit persons without a release left, instead of refusing all"
    parser.add_argument("--withhold", action="store_true", help=text)
    parser.add_argument("--note", default="", metavar="TEXT", help="a note in the ledger")
    _shared(parser)
    parser.add_argument("--quiet", action="store_true", help="tell no progress")


def _report(parser: argparse.ArgumentParser) -> None:
    """Show the report for the person who signs the release.

    Show the report of a release artifact for the person who signs the release: the guarantee in
    plain words, what is not guaranteed, settings, the utility of each column, the
    pairs of secrets, and a field to sign. Or write it to a file (.txt, .html or .json). With
    --audit it includes an audit, as `puffer audit` makes it.

      puffer report release.json
      puffer report release.json --audit held_out.csv --task income
      puffer report release.json --out report.html --name clients --by "A. Clerk"
      puffer report release.json --kind external --out for_recipients.html

    The internal report is computed from the raw rows: keep it where you keep the table. The
    external one holds settings and names alone. The status is 1 if the certificate does not hold,
    or an attack finds more than is guaranteed.
    """
    _artifact(parser)
    kinds = ["internal", "external"]
    text = "for the person who signs (the default), or for recipients, without figures of raw rows"
    parser.add_argument("--kind", choices=kinds, default="internal", help=text)
    parser.add_argument("--name", metavar="NAME", help="of the data set")
    parser.add_argument("--by", default="", metavar="NAME", help="who makes the report")
    text = "audit with these rows, which were not in fit, with their secrets"
    parser.add_argument("--audit", metavar="TABLE", help=text)
    text = "a column of this table that a model is to predict from released rows"
    parser.add_argument("--task", metavar="NAME", help=text)
    _shared(parser)
    _out(parser)


def _ledger(actions: Any) -> None:
    """Create, show and spend from a ledger.

    Record releases, and refuse those beyond the budget.

      puffer ledger create clients.ledger release.json
      puffer ledger show clients.ledger release.json
      puffer ledger spend clients.ledger release.json --note "sent by hand"
    """
    texts = {
        "create": "Start a ledger, with nothing spent.",
        "show": "Show recorded releases, and how many are left.",
        "spend": "Record a release that is made elsewhere.",
    }
    create, show, spend = (
        _command(actions, name, text, f"{name}_ledger") for name, text in texts.items()
    )
    for parser in (create, show, spend):
        parser.add_argument("ledger", metavar="LEDGER", help="its file")
        _artifact(parser)
    text = "an independent dataset with a budget of its own; repeat for several"
    create.add_argument("--dataset", dest="datasets", action="append", metavar="NAME", help=text)
    text = "may be omitted if there is only one"
    spend.add_argument("--dataset", metavar="NAME", help=text)
    spend.add_argument("--releases", type=int, default=1, metavar="NUMBER", help="default: 1")
    spend.add_argument("--note", default="", metavar="TEXT")


def _persons(actions: Any) -> None:
    r"""Create, show and query a ledger of persons.

    Record how much of the budget each person has spent. Persons are identified by their ids and
    the key; every release is keyed by it.

      puffer persons create clients.sqlite release.json --key-file clients.key
      puffer release release.json clients.csv out.csv --row-id client --key-file clients.key \
          --persons clients.sqlite
      puffer persons left clients.sqlite release.json 000017 --key-file clients.key
      puffer persons show clients.sqlite release.json --key-file clients.key
    """
    texts = {
        "create": "Start a ledger of persons, in which nobody has spent anything.",
        "show": "Show recorded releases.",
        "left": "Show how many releases a person has left.",
    }
    create, show, left = (
        _command(actions, name, text, f"{name}_persons") for name, text in texts.items()
    )
    for parser in (create, show, left):
        parser.add_argument("persons", metavar="PERSONS", help="the file of the ledger of persons")
        _artifact(parser)
        _key(parser, required=True)
    text = "whether to refuse rows that changed (the default), or to count them once more"
    create.add_argument("--changes", choices=["refuse", "count"], default="refuse", help=text)
    left.add_argument("person", metavar="ID", help="of the person")
    left.add_argument("--integer", action="store_true", help="the id is a whole number")


def _out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", help="a .txt, .html or .json file to write")


def _shared(parser: argparse.ArgumentParser) -> None:
    """Add the options on files."""
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    parser.add_argument("--separator", metavar="CHARACTER", help="between values of a CSV file")
    text = "what stands for a missing value in a CSV file, besides an empty one; repeat for several"
    parser.add_argument(
        "--missing-value", dest="missing_values", action="append", metavar="TEXT", help=text
    )
    text = "string, integer, float, boolean or date; repeat for several columns of a CSV file"
    parser.add_argument("--type", dest="types", action="append", metavar="COLUMN=TYPE", help=text)


def _key(parser: argparse.ArgumentParser, *, required: bool) -> None:
    key = parser.add_mutually_exclusive_group(required=required)
    key.add_argument(
        "--key-file", metavar="FILE", help="a file that holds the key: 16 bytes or more"
    )
    key.add_argument(
        "--key-env", metavar="VARIABLE", help="an environment variable that holds the key"
    )


def _artifact(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("artifact", metavar="ARTIFACT", help="a release artifact, .json")

"""One run of the command line: arguments in, an exit status out, and one sentence if it fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

from sklearn_puffer.cli.arguments import parser
from sklearn_puffer.cli.speech import one_line, tell

FINE, NO_PROMISE, WRONG, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143


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
        asked = parser(given).parse_args(given)
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

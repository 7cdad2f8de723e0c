"""What disks, processes, clocks and interrupts do to a ledger, of tables and of persons alike."""

import contextlib
import errno
import gc
import importlib
import json
import math
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from children import processes

from sklearn_puffer import Ledger, LedgerError, OverspentError, PersonLedger, PufferfishNoiser
from sklearn_puffer._ledgers import store

KEY = b"blake2b:" + bytes(range(32))
TABLE = pd.DataFrame(
    {"loan": ["no", "yes"] * 20, "cars": [0, 5, 5, 1, 9, 8, 3, 3] * 5, "id": range(40)}
)


class Tables:
    """A ledger of whole tables, as the tests use it."""

    another = staticmethod(lambda number: "another")  # the name of one more release

    made, opener = staticmethod(Ledger.create), staticmethod(Ledger.open)

    @staticmethod
    def spend(ledger, noiser, name):
        return ledger.transform(noiser, TABLE, note=str(name))

    @staticmethod
    def on_record(ledger):
        """Return how many releases are on record under each name."""
        return {entry.note: entry.releases for entry in ledger.history()}

    @staticmethod
    def left(ledger):
        return ledger.left().releases


class Persons:
    """A ledger of persons, who are all released at once."""

    another = staticmethod(str)

    @staticmethod
    def made(path, noiser, **options):
        return PersonLedger.create(path, noiser, key=KEY, **options)

    @staticmethod
    def opener(path, noiser, **options):
        return PersonLedger.open(path, noiser, key=KEY, **options)

    @staticmethod
    def spend(ledger, noiser, name):
        return ledger.transform(noiser, TABLE, row_id="id", dataset=str(name))

    @staticmethod
    def on_record(ledger):
        calls = ledger.history()
        released = {ledger.left(person).released for person in (0, 39)} if calls else {0}
        assert released == {sum(call.new > 0 for call in calls)}
        return {call.dataset: 1 for call in calls if call.new}

    @staticmethod
    def left(ledger):
        [left] = {ledger.left(person).releases for person in (0, 17, 39)}
        return left


KINDS = {"tables": Tables, "persons": Persons}


def fitted(**options):
    own = {"epsilon": 1.0, "sensitive": "loan", "public": ["cars"], "releases": 2}
    return PufferfishNoiser(**own | options).fit(TABLE)


@pytest.fixture(scope="module")
def noiser():
    return fitted()


@pytest.fixture(scope="module")
def patient():
    """Return a noiser whose ledger is not spent by thousands of releases."""
    return fitted(releases=10**6)


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "survey.ledger"


@pytest.fixture
def ledger(kind, path, noiser):
    return kind.made(path, noiser)


def touch(sheet):
    """Write a record that is another one at each write, and counts the same."""
    sheet.write({**sheet.record, "touched": sheet.record.get("touched", 0) + 1})


def names(path):
    return sorted(each.name for each in path.parent.iterdir())


# ------------------------------------------------------------------------------- what is damaged


def sql(*statements):
    def run(path):
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return run


def _exchanged(whole):
    """Return a file whose second and third page have changed places."""
    return whole[:4096] + whole[8192:12288] + whole[4096:8192] + whole[12288:]


DAMAGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "cut off in its last page": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "zeros": lambda path: path.write_bytes(b"\0" * 9000),
    "not a ledger": lambda path: path.write_text("[1, 2]"),
    "not text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
    "another database": lambda path: (path.unlink(), sql("CREATE TABLE t (x)")(path)),
    "another log": sql("PRAGMA journal_mode=WAL"),
    "a trigger": sql("CREATE TRIGGER t AFTER INSERT ON parts BEGIN DELETE FROM parts; END"),
    "an index more": sql("CREATE INDEX i ON parts (data)"),
    "no parts": sql("DROP TABLE parts"),
    "no head": sql("DELETE FROM head"),
    "two heads": sql("INSERT INTO head SELECT * FROM head"),
    "no text": sql("UPDATE head SET text = 7"),
    "another text": sql("UPDATE head SET text = substr(text, 3)"),
    "exchanged pages": lambda path: path.write_bytes(_exchanged(path.read_bytes())),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_ledger_is_refused_and_left_as_it_is(ledger, kind, noiser, path, damage):
    kind.spend(ledger, noiser, "a")
    damage(path)
    before = path.read_bytes()
    for use in (
        lambda: kind.spend(ledger, noiser, "b"),
        lambda: kind.left(ledger),
        ledger.history,
        lambda: str(ledger),
        lambda: kind.opener(path, noiser),
    ):
        with pytest.raises(LedgerError, match=r"is not a ledger, or a damaged one"):
            use()
    assert path.read_bytes() == before


PERSONS_DAMAGED = {
    "no persons": sql("DELETE FROM parts"),
    "fewer persons": sql("UPDATE parts SET data = substr(data, 33)"),
    "fewer releases": sql("UPDATE parts SET more = substr(more, 9)"),
    "a part with another number": sql("UPDATE parts SET part = 1"),
    "a part that is text": sql("UPDATE parts SET data = 'text'"),
    "a part that is a number": sql("UPDATE parts SET more = 5"),
}


@pytest.mark.parametrize("damage", PERSONS_DAMAGED.values(), ids=PERSONS_DAMAGED)
def test_persons_that_were_damaged_are_refused(path, noiser, damage):
    ledger = Persons.made(path, noiser)
    Persons.spend(ledger, noiser, "a")
    damage(path)
    for use in (lambda: Persons.spend(ledger, noiser, "b"), lambda: ledger.left(0)):
        with pytest.raises(LedgerError, match=r"is not a ledger, or a damaged one"):
            use()


def test_a_file_cut_off_anywhere_is_refused(ledger, kind, noiser, path):
    kind.spend(ledger, noiser, "a")
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 509), len(whole) - 1]:
        path.write_bytes(whole[:size])
        for use in (lambda: kind.spend(ledger, noiser, "b"), lambda: kind.left(ledger)):
            with pytest.raises(LedgerError, match="or a damaged one"):
                use()


def forge(path, change):
    """Change the record of a ledger."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        [(text,)] = connection.execute("SELECT text FROM head").fetchall()
        record = json.loads(text)
        change(record)
        connection.execute("UPDATE head SET text = ?", (json.dumps(record).encode(),))


FORGED = {
    "a budget of a billion digits": lambda r: r["rule"].update(budgets=[["cars", "1e999999999"]]),
    "a budget of as many places": lambda r: r["rule"].update(budgets=[["cars", "1e-999999999"]]),
    "a budget over nought": lambda r: r["rule"].update(budgets=[["cars", "1/0"]]),
    "a rule that is a list": lambda r: r.update(rule=[1]),
    "no rule": lambda r: r.pop("rule"),
    "a scale that is a word": lambda r: r.update(scales=[["cars", "wide"]]),
    "no schema": lambda r: r.pop("schema"),
}
FORGED_TABLES = {
    "a dataset without a name": lambda r: r.update(datasets=[1]),
    "a spend of no number": lambda r: r.update(spent=[["data", [["cars", 1.0]], "x", ""]]),
    "a spend that gives back": lambda r: r.update(spent=[["data", [["cars", 1.0]], -5, ""]]),
    "a spend of another dataset": lambda r: r.update(spent=[["other", [["cars", 1.0]], 1, ""]]),
    "a spend of another column": lambda r: r.update(spent=[["data", [["pay", 1.0]], 1, ""]]),
}
FORGED_PERSONS = {
    "histories of no kind": lambda r: r.update(histories=[[[], 0], [[[7, 1]], 40]]),
    "histories of no number": lambda r: r.update(histories=[[[], 0], [[["x", 1]], 40]]),
    "histories that give back": lambda r: r.update(histories=[[[], 0], [[[0, -1]], 40]]),
    "histories of nought": lambda r: r.update(histories=[[[], 0], [[[0, 0]], 40]]),
    "no histories": lambda r: r.update(histories=[]),
    "kinds that are words": lambda r: r.update(kinds=["wide"]),
    "changes of no kind": lambda r: r.update(changes="maybe"),
}


@pytest.mark.parametrize(
    ("kind", "change"),
    [(Tables, each) for each in (FORGED | FORGED_TABLES).values()]
    + [(Persons, each) for each in (FORGED | FORGED_PERSONS).values()],
)
def test_a_file_that_holds_nonsense_is_refused_at_once(kind, path, noiser, change):
    ledger = kind.made(path, noiser)
    kind.spend(ledger, noiser, "a")
    forge(path, change)
    for use in (lambda: kind.left(ledger), lambda: kind.spend(ledger, noiser, "b")):
        with pytest.raises(LedgerError, match=r"is not a ledger, or a damaged one"):
            use()


def test_a_spend_is_synced_to_the_disk_and_cells_are_checked(ledger):
    asked = {"synchronous": 3, "fullfsync": 1, "trusted_schema": 0, "cell_size_check": 1}
    for way in (ledger._read, ledger._change):
        found = way(lambda sheet: [sheet._run(f"PRAGMA {name}").fetchone()[0] for name in asked])
        assert dict(zip(asked, found, strict=True)) == asked


def test_a_later_version_is_named(ledger, kind, noiser, path):
    forge(path, lambda record: record.update(schema="sklearn_puffer.ledger/9"))
    with pytest.raises(LedgerError, match=r"was written as 'sklearn_puffer\.ledger/9'.* open it"):
        kind.left(ledger)


# --------------------------------------------------------------------------- what is in its place


def test_a_second_name_of_the_file_is_refused(ledger, kind, noiser, path):
    os.link(path, path.with_name("other"))
    for use in (lambda: kind.spend(ledger, noiser, "a"), lambda: kind.left(ledger)):
        with pytest.raises(LedgerError, match="2 names"):
            use()


def test_a_symbolic_link_leads_to_the_one_ledger(ledger, kind, noiser, path):
    link = path.with_name("link")
    link.symlink_to(path)
    kind.spend(kind.opener(link, noiser), noiser, "a")
    assert link.is_symlink()
    assert kind.left(ledger) == 1
    assert names(path) == ["link", "survey.ledger"]


def test_a_ledger_that_was_removed_is_not_started_anew(ledger, kind, noiser, path):
    path.unlink()
    for use in (
        lambda: kind.spend(ledger, noiser, "a"),
        lambda: kind.left(ledger),
        lambda: kind.opener(path, noiser),
    ):
        with pytest.raises(FileNotFoundError, match="the ledger cannot be"):
            use()
    assert not path.exists()


def test_a_file_that_became_a_pipe_is_not_waited_for(ledger, kind, noiser, path):
    path.unlink()
    os.mkfifo(path)
    for use in (lambda: kind.spend(ledger, noiser, "a"), lambda: kind.left(ledger)):
        with pytest.raises(OSError, match="it is no regular file"):
            use()


@pytest.mark.parametrize("what", ["removed", "exchanged"])
def test_a_ledger_that_goes_in_the_middle_of_a_spend_makes_it_fail(
    ledger, kind, noiser, path, monkeypatch, what
):
    sheet = store.Account._sheet

    def meanwhile(self, connection):
        found = sheet(self, connection)
        path.rename(path.with_name("away"))
        if what == "exchanged":
            path.write_bytes(path.with_name("away").read_bytes())
        return found

    ledger.history()
    with monkeypatch.context() as patch:
        patch.setattr(store.Account, "_sheet", meanwhile)
        with pytest.raises(OSError, match="cannot be read or written, and nothing was spent"):
            ledger._change(touch)
    path.with_name("away").replace(path)
    assert kind.left(ledger) == 2


def test_create_never_overwrites_and_takes_no_foreign_journal(ledger, kind, noiser, path):
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"Ledger\.open"):
        kind.made(path, noiser)
    assert path.read_bytes() == before
    for suffix in ("-journal", "-wal"):
        path.with_name(f"new{suffix}").write_bytes(b"left over")
        with pytest.raises(FileExistsError, match="journal of another database"):
            kind.made(path.with_name("new"), noiser)
        path.with_name(f"new{suffix}").unlink()
    with pytest.raises(FileNotFoundError, match="cannot be written, and there is none now"):
        kind.made(path.parent / "nowhere" / "ledger", noiser)


@pytest.mark.parametrize("times", [(0, 0), (4e9, 4e9)])
def test_a_clock_that_is_set_back_hides_no_spend(ledger, kind, noiser, path, monkeypatch, times):
    other = kind.opener(path, noiser)
    monkeypatch.setattr(time, "time", lambda: times[0])
    for left in (2, 1):
        assert kind.left(ledger) == left
        kind.spend(other, noiser, left)
        os.utime(path, times)
    assert kind.left(ledger) == 0
    with pytest.raises(OverspentError):
        kind.spend(ledger, noiser, "more")


# ------------------------------------------------------------------------------- who may read it


@pytest.mark.skipif(os.name == "nt", reason="this system has no such rights")
def test_the_file_and_its_journal_are_for_their_owner_alone(kind, noiser, path, monkeypatch):
    seen = []
    write, link = store.Sheet.write, os.link

    def written(self, record):
        write(self, record)
        seen.extend(each.stat().st_mode & 0o777 for each in path.parent.iterdir())

    def linked(fresh, place):
        seen.append(os.stat(fresh).st_mode & 0o777)
        link(fresh, place)

    monkeypatch.setattr(store.Sheet, "write", written)
    monkeypatch.setattr(os, "link", linked)
    before = os.umask(0)
    try:
        ledger = kind.made(path, noiser)
        kind.spend(ledger, noiser, "a")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert seen == [0o600] * 3  # the new file under its first name, and a spend with its journal


def test_rights_that_were_given_are_kept(ledger, kind, noiser, path):
    path.chmod(0o640)
    kind.spend(ledger, noiser, "a")
    assert path.stat().st_mode & 0o777 == 0o640


# -------------------------------------------------------------------------------- full and locked


class Failing(sqlite3.Connection):
    """A connection that commits, and is told that the disk does not confirm it."""

    def execute(self, statement, *args):
        found = super().execute(statement, *args)
        if statement == "COMMIT":
            fault = sqlite3.OperationalError("disk I/O error")
            fault.sqlite_errorcode = sqlite3.SQLITE_IOERR_DIR_FSYNC
            raise fault
        return found


def connecting(monkeypatch, change):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: change(connect, args, options))


def test_a_state_that_the_disk_does_not_confirm_counts_as_spent(ledger, kind, noiser, monkeypatch):
    with monkeypatch.context() as patch:
        connecting(patch, lambda connect, args, options: connect(*args, **options, factory=Failing))
        with pytest.raises(OSError, match="is on record or will be undone"):
            ledger._change(touch)
    assert kind.left(ledger) == 2
    kind.spend(ledger, noiser, "a")
    assert kind.left(ledger) == 1


def test_a_read_only_disk_spends_nothing_and_can_be_read(ledger, kind, noiser, path, monkeypatch):
    before = path.read_bytes()

    def read_only(connect, args, options):
        return connect(args[0].replace("mode=rw", "mode=ro"), *args[1:], **options)

    with monkeypatch.context() as patch:
        connecting(patch, read_only)
        with pytest.raises(
            OSError, match="nothing was spent; see that disk, folder and file"
        ) as caught:
            kind.spend(ledger, noiser, "a")
        assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
        assert kind.left(ledger) == 2
    assert path.read_bytes() == before
    kind.spend(ledger, noiser, "a")
    assert kind.left(ledger) == 1


FULL = """
import pickle, resource, signal, sys
sys.path.insert(0, "tests")
from pathlib import Path
from test_ledger_faults import KINDS
folder = Path(sys.argv[1])
noiser = pickle.loads((folder / "noiser").read_bytes())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for name, kind in KINDS.items():
    ledger = kind.opener(folder / name, noiser)
    for room in range(0, 60_000, 1_700):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            kind.spend(ledger, noiser, room)
            print(name, "spent", room)
        except OSError as error:
            assert "nothing was spent" in str(error), error
            print(name, "full", room)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of files are as Linux has them")
def test_a_full_disk_spends_nothing(tmp_path, patient):
    ledgers = {name: kind.made(tmp_path / name, patient) for name, kind in KINDS.items()}
    (tmp_path / "noiser").write_bytes(pickle.dumps(patient))
    root = Path(__file__).parents[1]
    told = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    lines = [line.split() for line in told.stdout.splitlines()]
    for name, ledger in ledgers.items():
        own = [(what, room) for each, what, room in lines if each == name]
        spent = {room: 1 for what, room in own if what == "spent"}
        assert 0 < len(spent) < len(own)
        assert KINDS[name].on_record(ledger) == spent


def test_who_waits_for_a_lock_too_long_is_told_and_spends_nothing(ledger, kind, noiser, path):
    waiting = kind.opener(path, noiser, timeout=0.02)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TimeoutError, match=r"nothing was spent .*after 0\.02 s; .*longer timeout"):
        waiting._change(lambda sheet: None)
    threading.Timer(0.1, holder.close).start()
    kind.spend(ledger, noiser, "a")
    assert kind.left(waiting) == 1


def test_a_thread_waits_for_another_no_longer_than_its_timeout(ledger, kind, noiser, path):
    hasty, patient = (kind.opener(path, noiser, timeout=wait) for wait in (0.02, 10**400))
    assert patient.timeout == kind.opener(path, noiser, timeout=math.inf).timeout == math.inf
    held, done = threading.Event(), threading.Event()

    def hold(sheet):
        held.set()
        done.wait(10.0)

    holder = threading.Thread(target=ledger._change, args=(hold,))
    holder.start()
    held.wait(10.0)
    try:
        with pytest.raises(TimeoutError, match="another process or thread still holds it"):
            kind.left(hasty)
        threading.Timer(0.05, done.set).start()
        assert kind.left(patient) == 2
    finally:
        done.set()
        holder.join()


def test_threads_that_spend_at_once_never_overspend(ledger, kind, noiser):
    spent, refused = [], []

    def work(number):
        try:
            kind.spend(ledger, noiser, number)
            spent.append(number)
        except OverspentError:
            refused.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(spent), len(refused)) == (2, 6)
    assert kind.on_record(ledger) == {str(number): 1 for number in spent}


def test_nothing_is_handed_out_that_is_not_on_record(ledger, kind, noiser, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left")

    with monkeypatch.context() as patch:
        patch.setattr(store.Sheet, "write", fail)
        with pytest.raises(OSError, match="No space") as caught:
            kind.spend(ledger, noiser, "a")
    trace, frames = caught.value.__traceback__, []
    while trace is not None:
        frames.append(trace.tb_frame.f_locals)
        trace = trace.tb_next
    assert not any("released" in variables for variables in frames)
    assert kind.left(ledger) == 2
    assert kind.on_record(ledger) == {}


# ------------------------------------------------------------------------------------- interrupts

LEDGERS = ("store", "ledger", "persons", "person_ledger")
TRACED = {
    importlib.import_module(f"sklearn_puffer.{name}").__file__
    for name in (
        "_documents.records",
        "_documents.document",
        "_release.keyed_rows",
        *(f"_ledgers.{name}" for name in LEDGERS),
    )
} | {contextlib.__file__}


def interrupted_at(number, call):
    """Interrupt a call at an instruction of the ledgers' own modules, or of `contextlib`.

    Return what was raised, if anything was.
    """
    begun, raised, before = 0, None, sys.gettrace()

    def instruction(frame, event, argument):
        nonlocal begun
        begun += event == "opcode"
        if event == "opcode" and begun == number:
            raise KeyboardInterrupt
        return instruction

    def entered(frame, event, argument):
        own = frame.f_code.co_filename in TRACED
        frame.f_trace_opcodes = own
        return instruction if own else None

    sys.settrace(entered)
    try:
        call()
    except KeyboardInterrupt as interrupt:
        raised = interrupt
    finally:
        sys.settrace(before)
    return raised


def in_another_thread(call):
    done = []
    thread = threading.Thread(target=lambda: done.append(call()))
    thread.start()
    thread.join()
    assert done


def interrupt_everywhere(kind, path, noiser, monkeypatch, every):
    monkeypatch.setattr(store, "_SAFELY", ("synchronous=OFF",))  # nobody pulls the plug here
    number, interrupts, on_record = 1, 0, 0
    while True:
        own = path.with_name(f"{number}.ledger")  # each entry of a book is read: more instructions
        ledger = kind.made(own, noiser, timeout=0.0)
        other = kind.opener(own, noiser, timeout=0.0)
        kind.spend(other, noiser, kind.another(0))
        raised = interrupted_at(number, partial(kind.spend, ledger, noiser, kind.another(1)))
        new = sum(kind.on_record(other).values()) - 1
        assert new in ((0, 1) if raised else (1,))
        if raised is None:
            gc.collect()  # what an interrupt left open, while the warning of it is let pass
            return interrupts, on_record
        # while the traceback is kept, in `raised`
        in_another_thread(partial(kind.spend, other, noiser, kind.another(2)))
        assert sum(kind.on_record(other).values()) == new + 2
        interrupts, on_record, number = interrupts + 1, on_record + new, number + every


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a file is closed by its own end
def test_an_interrupt_at_any_instruction_leaves_a_whole_state_and_a_free_lock(
    kind, path, patient, monkeypatch
):
    interrupts, on_record = interrupt_everywhere(kind, path, patient, monkeypatch, every=97)
    assert 0 < on_record < interrupts


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timers")
def test_no_ctrl_c_is_lost_while_a_ledger_works(kind, path, noiser, monkeypatch):
    """Real signals, at any moment: each comes out as a KeyboardInterrupt, and none is swallowed."""
    heard, lost, chance = [], [], random.Random(7)

    def ctrl_c(number, frame):
        heard.append(number)
        signal.default_int_handler(signal.SIGINT, frame)

    monkeypatch.setattr(store, "_SAFELY", ("synchronous=OFF",))
    monkeypatch.setattr(sys, "unraisablehook", lambda fault: lost.append(fault.exc_value))
    ledger, other = kind.made(path, noiser), kind.opener(path, noiser)
    before, raised = signal.signal(signal.SIGALRM, ctrl_c), 0
    try:
        for _ in range(60):
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.02))
            try:
                while len(heard) == raised:
                    ledger._change(touch)
                    kind.left(other)
                    kind.left(ledger)
            except KeyboardInterrupt:
                raised += 1
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            assert (len(heard), lost) == (raised, [])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert raised == 60
    assert kind.left(ledger) == 2


# -------------------------------------------------- what follows is run in processes of its own


class Dying(sqlite3.Connection):
    """A connection in whose process a commit is never begun, or is the last that is done."""

    after = False

    def execute(self, statement, *args):
        if statement == "COMMIT" and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = super().execute(statement, *args)
        if statement == "COMMIT":
            os.kill(os.getpid(), signal.SIGKILL)
        return found


class DyingLater(Dying):
    after = True


def die(kind, path, noiser, step):
    if step == "_sheet":
        store.Account._sheet = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    elif step == "write":
        store.Sheet.write = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    else:
        factory = {"commit": Dying, "committed": DyingLater}[step]
        connect = sqlite3.connect
        sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=factory)
    ledger = {Tables: Ledger, Persons: PersonLedger}[kind]
    own = (KEY,) if kind is Persons else ()
    ledger = ledger(path, noiser.certificate_.fingerprint, *own)
    ledger._change(touch)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["_sheet", "write", "commit", "committed"])
def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_state(
    ledger, kind, noiser, path, step
):
    def number():
        return ledger._read(lambda sheet: sheet.record.get("touched", 0))

    before = number()
    process = processes().Process(target=die, args=(kind, path, noiser, step))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert number() == before + (step == "committed")
    assert kind.left(ledger) == 2
    kind.spend(ledger, noiser, "a")
    assert names(path) == ["survey.ledger"]


def spend_for_ever(kind, path, noiser, receipts, name):
    """Spend, and acknowledge every spend in a file of one's own."""
    ledger = kind.opener(path, noiser)
    with open(receipts / name, "ab", buffering=0) as file:
        for number in range(10**6):
            kind.spend(ledger, noiser, f"{name}/{number}")
            file.write(b"1")
            os.fsync(file.fileno())


@pytest.mark.slow
def test_processes_killed_at_random_lose_no_recorded_spend(kind, path, tmp_path, patient):
    context, chance = processes(), random.Random(4)
    receipts = tmp_path / "receipts"
    receipts.mkdir()
    ledger = kind.made(path, patient)
    for wave in range(3):
        crew = [f"{wave}-{k}" for k in range(4)]
        crowd = [
            context.Process(target=spend_for_ever, args=(kind, path, patient, receipts, name))
            for name in crew
        ]
        for process in crowd:
            process.start()
        while not all((receipts / name).exists() for name in crew):
            time.sleep(0.01)
        for process in crowd:
            time.sleep(chance.expovariate(15.0))
            process.kill()
        for process in crowd:
            process.join(60)
            assert process.exitcode == -signal.SIGKILL
        recorded = [name.partition("/")[0] for name in kind.on_record(ledger)]
        for receipt in receipts.iterdir():
            acknowledged = receipt.stat().st_size
            assert acknowledged <= recorded.count(receipt.name) <= acknowledged + 1
    assert len(recorded) > 5
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def spend_once(kind, path, noiser, number):
    try:
        kind.spend(kind.opener(path, noiser), noiser, number)
    except OverspentError:
        os._exit(7)


@pytest.mark.slow
def test_processes_that_spend_at_once_never_overspend(ledger, kind, noiser, path):
    context = processes()
    crowd = [
        context.Process(target=spend_once, args=(kind, path, noiser, number)) for number in range(4)
    ]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(60)
    assert sorted(process.exitcode for process in crowd) == [0, 0, 7, 7]
    assert kind.left(ledger) == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_in_the_middle_of_other_threads_spends_inherits_no_lock(
    kind, path, patient, monkeypatch
):
    ledger, done = kind.made(path, patient), threading.Event()

    def spend():
        number = 0
        while not done.is_set():
            kind.spend(ledger, patient, number)
            number += 1

    thread = threading.Thread(target=spend)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                status = 1
                with contextlib.suppress(BaseException):
                    kind.spend(ledger, patient, f"child {os.getpid()}")
                    status = 0
                os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        thread.join()
    assert sum(name.startswith("child") for name in kind.on_record(ledger)) == 10


# ------------------------------------------------------------------------- files of version 0.2


def write_old_tables(path):
    path.write_text('{"schema": "sklearn_puffer.ledger/1", "datasets": ["data"]}')


def write_old_persons(path):
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE about (text TEXT NOT NULL)")


@pytest.mark.parametrize(
    ("kind", "write"), [(Tables, write_old_tables), (Persons, write_old_persons)]
)
def test_a_file_of_version_0_2_is_named_and_stays_as_it_is(kind, write, path, noiser):
    write(path)
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=r"Only version 0\.2 reads the ledgers that it wrote"):
        kind.opener(path, noiser)
    assert path.read_bytes() == before

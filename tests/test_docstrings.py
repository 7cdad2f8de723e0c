"""The docstrings of public names: complete, in numpydoc's form, and with an example that runs."""

import builtins
import doctest
import importlib
import inspect
import pkgutil
import symtable
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import sklearn_puffer
from sklearn_puffer.bounds import Bound
from sklearn_puffer.noise import ProductNoise
from sklearn_puffer.notions import Notion

MODULES = [module.name for module in pkgutil.iter_modules(sklearn_puffer.__path__)]
PUBLIC = ["sklearn_puffer", *(f"sklearn_puffer.{m}" for m in MODULES if not m.startswith("_"))]
PROTOCOLS = [Bound, ProductNoise, Notion]
CONFIGURED = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
OFF = set(CONFIGURED["tool"]["numpydoc_validation"]["checks"]) - {"all"}


@pytest.mark.slow
def test_every_public_name_is_documented_in_numpydocs_form_and_has_an_example() -> None:
    faults = [fault for name in named() for fault in faults_of(name)]
    assert not faults, "\n".join([f"{len(faults)} faults of docstrings:", *faults])


def test_the_examples_of_public_names_import_what_they_use() -> None:
    """They run in ``coverage run``, beside all other names of their modules."""
    asked = {
        name: missing
        for name, offered in named().items()
        if (missing := unbound(inspect.getdoc(offered) or ""))
    }
    assert asked == {}


def unbound(text: str) -> set[str]:
    """Return the names that an example takes from elsewhere, and not from Python or itself."""
    lines = (example.source for example in doctest.DocTestParser().get_examples(text))
    whole = symtable.symtable("".join(lines), "example", "exec")
    made = {s.get_name() for s in whole.get_symbols() if is_made(s)}
    asked = {
        symbol.get_name()
        for table in tables_of(whole)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (table is whole or symbol.is_global())
    }
    return asked - made - set(dir(builtins))


def is_made(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def tables_of(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from tables_of(inner)


def test_an_example_that_leaves_out_an_import_is_found() -> None:
    assert unbound(">>> a = np.ones(2)\n>>> def f(x):\n...     return len(x) + y") == {"np", "y"}
    assert unbound(">>> import numpy as np\n>>> [np.sqrt(k) for k in range(3)]") == set()


def named() -> dict[str, object]:
    """Return what the public modules offer, and the public methods of classes, by name."""
    return {name: offered for module in PUBLIC for name, offered in names_in(module)}


def names_in(module_name: str) -> Iterator[tuple[str, object]]:
    module = importlib.import_module(module_name)
    for name in module.__all__:
        offered = getattr(module, name)
        if is_ours(offered):
            yield f"{module_name}.{name}", offered
        if inspect.isclass(offered):
            for member, method in methods(offered):
                yield f"{module_name}.{name}.{member}", method


def methods(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties that a class has from this package.

    What a protocol asks for is documented there, and not again in each class that has it.
    """
    known = {name for protocol in PROTOCOLS if cls is not protocol for name in vars(protocol)}
    for name, member in inspect.getmembers(cls):
        plain = member.fget if isinstance(member, property) else member
        if not (name.startswith("_") or name in known) and callable(plain) and is_ours(plain):
            yield name, plain


def is_ours(offered: object) -> bool:
    """Return whether something is a class or function of this package: not a number, an alias."""
    kinds = inspect.isclass(offered), inspect.isroutine(offered)
    return any(kinds) and str(getattr(offered, "__module__", "")).startswith("sklearn_puffer")


def faults_of(name: str) -> list[str]:
    from numpydoc.validate import validate  # of the `check` extra, which the fast run does without

    found = validate(name)
    excused = OFF | ({"EX01"} if is_method(name) else set())
    if name.rpartition(".")[2] in {protocol.__name__ for protocol in PROTOCOLS}:
        excused |= {"PR01"}  # of an __init__ that is no part of the protocol
    return [f"{name}: {code} {text}" for code, text in found["errors"] if code not in excused]


def is_method(name: str) -> bool:
    """Return whether a name is that of a member of a class, whose example may serve for it."""
    return name.rpartition(".")[0] not in PUBLIC

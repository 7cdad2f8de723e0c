"""Keys of noise: where they come from, and which function makes bits of them."""

from __future__ import annotations

import hashlib
import hmac
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sklearn_puffer._noise.entropy import CheckedEntropy
from sklearn_puffer._noise.sampling import system_entropy

LEAST_BYTES = 16
PREFIX = b"blake2b:"
"""What a key begins with whose bits are made by blake2b, on every machine."""

_ENVIRONMENT = "env:"
_CHECKED = b"sklearn_puffer/k"
_EITHER = (
    "give at least 16 random bytes, as secrets.token_bytes(32) makes them, the pathlib.Path of a "
    "file that holds them, or 'env:NAME' for an environment variable"
)


def read_key(key: Any) -> bytes:
    """Return the bytes of a key; no message ever shows them.

    Raises
    ------
    TypeError, ValueError, OSError
        If it is no key, is too short, or its file or variable cannot be read.
    ModuleNotFoundError
        As `backend_of`.
    """
    material, where = _material(key)
    if len(material.removeprefix(PREFIX)) < LEAST_BYTES:
        raise ValueError(f"key {where} is shorter than {LEAST_BYTES} bytes; {_EITHER}.")
    backend_of(material)
    return material


def fresh_key() -> bytes:
    """Return a random key of its own, for the function that this machine is fastest at."""
    random = CheckedEntropy(system_entropy()).words(4).tobytes()
    return random if has_aes() else PREFIX + random


def backend_of(key: bytes) -> str:
    """Return which function makes bits of a key: the key decides, and never the machine.

    Raises
    ------
    ModuleNotFoundError
        If it is AES and the package `cryptography` is not installed.
    """
    if key.startswith(PREFIX):
        return "blake2b"
    if has_aes():
        return "aes"
    raise ModuleNotFoundError(
        "key asks for AES, and the package cryptography is not installed; install it with "
        "pip install 'sklearn-puffer[keyed]', or begin every key with b'blake2b:', on all "
        "machines, which makes other bits and is slower."
    )


def has_aes() -> bool:
    """Return whether the package with AES is installed."""
    return find_spec("cryptography") is not None


def shipped_key(key: Any, material: bytes) -> ShippedKey:
    """Return a key for the tasks of an engine: of an environment variable its name alone.

    Parameters
    ----------
    key : bytes, Path, "env:NAME" or None
        As `read_key` takes it; None for one that was drawn.
    material : bytes
        What it was read as.
    """
    if isinstance(key, str):
        return ShippedKey(None, key.removeprefix(_ENVIRONMENT), _check_value(material))
    return ShippedKey(material)


class ShippedKey:
    """A key in the plan of an engine, which no text shows; who can unpickle it has it.

    >>> shipped_key(None, bytes(32))
    ShippedKey()
    """

    def __init__(self, material: bytes | None, variable: str = "", check: bytes = b"") -> None:
        self._material, self._variable, self._check = material, variable, check

    def read(self) -> bytes:
        """Return the bytes of the key, where it is used.

        Raises
        ------
        ValueError
            If the environment variable is not set there, or holds another key.
        ModuleNotFoundError
            As `backend_of`.
        """
        if self._material is not None:
            backend_of(self._material)
            return self._material
        own = read_key(f"{_ENVIRONMENT}{self._variable}")
        if not hmac.compare_digest(_check_value(own), self._check):
            raise ValueError(
                f"key names the environment variable {self._variable!r}, which holds another key "
                "in this task than where transform was called; set the same one for all workers."
            )
        return own

    def __repr__(self) -> str:
        return "ShippedKey()"

    def __dask_tokenize__(self) -> str:
        """Return what tells tasks of different keys apart, by which Dask knows those it has."""
        return (self._check or _check_value(self._material or b"")).hex()


def _check_value(key: bytes) -> bytes:
    """Return what tells keys apart, from which none can be computed; its use is bound to it."""
    root = hashlib.blake2b(key, digest_size=64, person=_CHECKED).digest()
    return hashlib.blake2b(b"check", digest_size=16, key=root).digest()


def _material(key: Any) -> tuple[bytes, str]:
    if isinstance(key, bytes):
        return _without_line_end(key, "of bytes", given=True), "of bytes"
    if isinstance(key, Path):
        where = f"in {str(key)!r}"
        return _without_line_end(key.read_bytes(), where, given=False), where
    if isinstance(key, str) and key.startswith(_ENVIRONMENT):
        name = key.removeprefix(_ENVIRONMENT)
        if name not in os.environ:
            raise ValueError(f"key names the environment variable {name!r}, which is not set.")
        where = f"in the variable {name!r}"
        return _without_line_end(os.fsencode(os.environ[name]), where, given=False), where
    raise TypeError(f"key is a {type(key).__name__}, which cannot be one; {_EITHER}.")


def _without_line_end(material: bytes, where: str, *, given: bool) -> bytes:
    """Return a key, of which a line end belongs to random bytes, and not to a line of text.

    So an editor, or echo, may leave one. Where an earlier version read it otherwise (it kept what
    was given as bytes, and dropped line ends of any file), the key is refused: it would draw other
    noise than it did.
    """
    bare = material.rstrip(b"\r\n")
    if bare == material:
        return material
    if _is_text(bare) == given:
        was = "drew with it" if given else "left it out"
        raise ValueError(
            f"key {where} ends in a line end, and earlier versions {was}: of a line of text it is "
            "no part of the key, of other bytes it is; take it off"
            f"{'' if given else ', which leaves all noise as it was'}, or take another key."
        )
    return bare if _is_text(bare) else material


def _is_text(data: bytes) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False

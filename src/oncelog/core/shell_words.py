"""Command lines that somebody copies: a shell reads exactly the words that were meant, and nothing in them steers a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def shell_text(words: Iterable[str]) -> str:
    """The words as one line for bash, zsh or ksh, printable throughout but for a word with a NUL, which no shell can take."""
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """A word in quotes where it needs them; what is not printable is an escape inside `$'…'`.

    In plain quotes an escape is text: a table shows a newline as `\\n`, and the line then names another id. A NUL would end
    `$'…'`: such a word is shown with all its escapes as text, so that it names nothing that there is.
    """
    if word.isprintable():
        return shlex.quote(word)
    if "\0" in word:
        return shlex.quote("".join(each if each.isprintable() else _as_bytes(each) for each in word))
    return "$'" + "".join(_escaped(each) for each in word) + "'"


def _escaped(character: str) -> str:
    if character in "'\\":
        return "\\" + character
    return character if character.isprintable() else _as_bytes(character)


def _as_bytes(character: str) -> str:
    """A byte that was no UTF-8 is that byte; another half of a surrogate pair comes from no shell, and is shown, too."""
    try:
        encoded = character.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        encoded = character.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{each:02x}" for each in encoded)

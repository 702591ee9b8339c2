"""Words of a command line to copy."""

from __future__ import annotations

import subprocess

import pytest

from oncelog.core.shell_words import quoted, shell_text

HOSTILE = [
    "new\nline",
    "\x1b[31mred",
    "a\rb",
    "C1\x9b31m",
    "rtl-\u202eevil",
    "it's\ta \\ \U000e0001",
    "'",
    "$(x) `y` !z",
]


@pytest.mark.parametrize("word", HOSTILE)
def test_bash_reads_the_word_that_was_meant(word: str) -> None:
    """A table writes control characters as escapes: in plain quotes such a word names another id."""
    text = shell_text(["printf", "%s", word])
    assert text.isprintable()
    assert subprocess.run(["bash", "-c", text], capture_output=True, check=True).stdout.decode() == word


def test_plain_words_stay_plain() -> None:
    assert shell_text(["oncelog", "why", "orders", "a b", "ünï"]) == "oncelog why orders 'a b' 'ünï'"


def test_what_no_shell_can_take_is_text_and_never_a_shorter_name() -> None:
    assert quoted("a\0\n") == "'a\\x00\\x0a'"  # $'…' would end at the NUL and name `a`


def test_half_a_surrogate_pair_is_shown() -> None:
    """The hint of a command with a file of that name was a traceback."""
    assert quoted("a\ud800") == "$'a\\xed\\xa0\\x80'"
    assert quoted("a\udcff") == "$'a\\xff'"

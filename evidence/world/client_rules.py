"""The tables of client_rules.txt, for those who play them."""

from __future__ import annotations

import pathlib

from oncelog.errors import ErrorCode

ONLY_OLD_PROTOCOL = ("AddParts", "AddOffsets")
UNHEARD_OF = 32000  # a code that a later Kafka may have


def read_rules() -> dict[str, list[list[str]]]:
    """Table name -> rows, the first of them the head."""
    tables: dict[str, list[list[str]]] = {}
    for line in pathlib.Path(__file__).with_name("client_rules.txt").read_text().splitlines():
        if line.startswith("## "):
            rows = tables[line[3:]] = []
        elif line and not line.startswith("#"):
            rows.append([cell.strip() for cell in line.split("|")])
    return tables


RULES = read_rules()
RETRIABLE = frozenset(map(int, RULES["retriable"][0][0].split()))


def ours(cell: str) -> str:
    """What oncelog does, of a cell that may also say what Kafka does."""
    return cell.strip("()").split(">")[-1]


def error_rows() -> dict[int, list[str]]:
    """What every code means, one entry per column."""
    _, *rows = RULES["errors"]
    named = {int(word): cells for label, *cells in rows for word in label.split() if word.isdecimal()}
    others = {word: cells for label, *cells in rows for word in label.split() if not word.isdecimal()}
    codes = [int(code) for code in ErrorCode if code != ErrorCode.NONE] + [UNHEARD_OF]
    return {code: named.get(code) or others["retriable" if code in RETRIABLE else "else"] for code in codes}


def expected_of(column: str, code: int, level: int) -> str:
    """The letter of a cell, at a level of transaction.version: with the new one EndTxn itself brings the next epoch."""
    letter = ours(error_rows()[code][RULES["errors"][0].index(column) - 1])
    return "A" if letter == "A*" and level >= 2 else letter


def columns_of(level: int) -> list[str]:
    """The answers that a producer can meet."""
    return [name for name in RULES["errors"][0][1:] if level == 1 or name not in ONLY_OLD_PROTOCOL]


CASES = [(column, level) for level in (1, 2) for column in columns_of(level)]

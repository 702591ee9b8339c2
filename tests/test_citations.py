"""Comments cite what a reader can open: KIPs, Kafka's classes and issues, pages of docs/; never notes kept elsewhere."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parent.parent
NOTES = ROOT / "docs" / "kafka-notes.md"
FOLDERS = ("src", "tests", "evidence", "bench", "examples")
PRIVATE = re.compile(
    r"\b(?:kafka-)?facts §?\d|\bkafka-(?:facts|observed)\b|\bobserved §?[A-Z]?\d|\bseed 0\d\d\b"
    r"|\b(?:reliability|house|house-style|interfaces|ecosystem|walks|peers)\.md\b|\breliability [A-Z]\d",
    re.IGNORECASE,
)
_KEY = r"[A-Z]\d{1,2}"
CITED = re.compile(rf"\bkafka-notes(?:\.md)? ({_KEY}(?:(?:-|, ){_KEY})*)\b")


def texts() -> Iterator[tuple[pathlib.Path, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".txt") and path != pathlib.Path(__file__):
                yield path, path.read_text()


def keys_of_notes() -> list[str]:
    return re.findall(rf"^\| ({_KEY}) \|", NOTES.read_text(), re.MULTILINE)


def cited_keys(text: str) -> Iterator[str]:
    """The keys that follow the page's name; of a range both ends, which share their letter."""
    for group in CITED.findall(text):
        yield from re.findall(_KEY, group)


def test_nothing_private_is_cited() -> None:
    found = [f"{path.relative_to(ROOT)}: {match[0]}" for path, text in texts() for match in PRIVATE.finditer(text)]
    assert not found


def test_cited_notes_exist() -> None:
    keys = set(keys_of_notes())
    assert [
        f"{path.relative_to(ROOT)}: {key}" for path, text in texts() for key in cited_keys(text) if key not in keys
    ] == []


def test_notes_have_one_row_for_a_key() -> None:
    keys = keys_of_notes()
    assert len(keys) > 80
    assert len(keys) == len(set(keys))


def test_differences_name_known_notes() -> None:
    """The first column of the table of defects."""
    rows = re.findall(
        rf"^\| ({_KEY}(?:, {_KEY})*) \|", (NOTES.parent / "differences-from-kafka.md").read_text(), re.MULTILINE
    )
    cited = {key for row in rows for key in row.split(", ")}
    assert len(cited) > 20
    assert cited <= set(keys_of_notes())


@pytest.mark.parametrize(
    "text",
    ["(facts 5.2)", "kafka-facts 7.2", "Observed P3: so", "(kafka-observed G1-G3)", "seed 002", "reliability S9"],
)
def test_private_citations_are_found(text: str) -> None:
    assert PRIVATE.search(text)


@pytest.mark.parametrize(
    "text", ["as it was observed in 2026", "the facts that rules share", "seed 12", "observed, 3 times"]
)
def test_words_are_no_citations(text: str) -> None:
    assert not PRIVATE.search(text)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("(docs/kafka-notes.md G1-G3, G8): x", ["G1", "G3", "G8"]),
        ("kafka-notes P15.", ["P15"]),
        ("kafka-notes C12, C13)", ["C12", "C13"]),
        ("kafka-notes M5, C14, gap 1", ["M5", "C14"]),
        ('docs/kafka-notes.md, "Markers"', []),
    ],
)
def test_keys_are_read(text: str, keys: list[str]) -> None:
    assert list(cited_keys(text)) == keys

"""Which statements are drawn: so many of each package, the dangerous ones more densely, always the same for a seed.

A statement's turn comes from a hash of the seed, its function and its text, not from where it stands: a file that
moves, or a new line elsewhere, leaves the rest of the draw as it was. Of a drawn statement one kind of mistake is
taken, then one mistake of that kind, in the same way; so constants, of which there are most, do not crowd out the rest.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections import defaultdict
from collections.abc import Iterable, Mapping

from evidence.mutants.attributes import Attributes
from evidence.mutants.operators import Mutation, mutations

SAMPLE = 324
SOURCES = pathlib.PurePath("src/oncelog")
TOP = "top"  # sync.py, errors.py, types.py and what else lies at the top
# Shares of the sample. The first six may lose, expose or repeat a record: nine in ten must be noticed there.
SHARES: Mapping[str, int] = {
    "core": 62,
    "broker": 52,
    "log": 32,
    "client": 42,
    "recipes": 20,
    "spark": 24,
    "wire": 20,
    "host": 16,
    "schema": 4,
    "faststream": 4,
    "cli": 12,
    "segments": 8,
    "console": 4,
    "testing": 6,
    "checker": 6,
    "demo": 3,
    TOP: 9,
}
DANGEROUS = ("core", "log", "broker", "client", "recipes", "spark")
KILLED_PERCENT_DANGEROUS, KILLED_PERCENT = 90, 80


def package_of(file: str) -> str:
    parts = pathlib.PurePath(file).relative_to(SOURCES).parts
    return parts[0] if len(parts) > 1 else TOP


def all_mutations(root: pathlib.Path) -> list[Mutation]:
    texts = {str(path.relative_to(root)): path.read_text() for path in sorted((root / SOURCES).rglob("*.py"))}
    attributes = Attributes(texts.values())
    return [mutation for file, text in texts.items() for mutation in mutations(file, text, attributes)]


def drawn(candidates: Iterable[Mutation], seed: int, count: int = SAMPLE) -> list[Mutation]:
    """`count` mutants, one for each of as many statements, shared out by danger; in the order of their turn."""
    statements: dict[str, dict[tuple[str, str, int], list[Mutation]]] = defaultdict(lambda: defaultdict(list))
    for each in candidates:
        statements[package_of(each.file)][each.file, each.function, each.first_line].append(each)
    chosen: list[tuple[float, Mutation]] = []
    for package, shares in SHARES.items():
        turns = sorted(statements[package].values(), key=lambda of_line: _turn(seed, of_line[0]))
        wanted = round(count * shares / sum(SHARES.values()))
        for place, of_line in enumerate(turns[:wanted]):
            chosen.append(((place + 0.5) / max(wanted, 1), _one_of(of_line, seed)))
    return [mutation for _, mutation in sorted(chosen, key=lambda pair: pair[0])]


def _one_of(of_line: list[Mutation], seed: int) -> Mutation:
    kinds = sorted(
        {each.operator for each in of_line}, key=lambda kind: _hash(seed, of_line[0].function, of_line[0].line, kind)
    )
    of_kind = [each for each in of_line if each.operator == kinds[0]]
    return min(of_kind, key=lambda each: _hash(seed, each.name))


def _turn(seed: int, mutation: Mutation) -> str:
    return _hash(seed, mutation.function, mutation.line)


def _hash(seed: int, *parts: str) -> str:
    return hashlib.sha256("\0".join((str(seed), *parts)).encode()).hexdigest()

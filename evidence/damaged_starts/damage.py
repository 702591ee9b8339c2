"""Ways to damage one file of a data directory, each drawn: which file, and how."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evidence.damaged_starts.reference import OLDER, STATES

UNTOUCHED = (".lock",)


class Impossible(Exception):
    """This file cannot be damaged in this way."""


@dataclass(frozen=True)
class Damage:
    """What was done to a directory: the files that are to be put back, and how a person would say it."""

    paths: tuple[str, ...]  # in the directory
    what: str


@dataclass
class Place:
    """A copy of the directory, its original, and the dice."""

    data: Path
    original: Path
    older: Path
    drawn: random.Random

    def others(self, path: str) -> list[str]:
        """Files of the same kind with another content."""
        content = (self.original / path).read_bytes()
        found = [each for each in files_of(self.original) if each != path and kind_of(each) == kind_of(path)]
        return [each for each in found if (self.original / each).read_bytes() != content]


def files_of(directory: Path) -> list[str]:
    """All that can be damaged."""
    found = (str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_file())
    return sorted(each for each in found if each not in UNTOUCHED)


def kind_of(path: str) -> str:
    """What sort of file it is: segments and indexes by their suffix, of metadata and internal topics by themselves."""
    directory, _, name = path.rpartition("/")
    if not directory:
        return "offset checkpoint" if name.endswith("-offset-checkpoint") else re.sub(r"\d+$", "N", name)
    suffix = re.sub(r"^\d{20}", "", name)
    return f"{directory} {suffix}" if directory.startswith("__") else suffix


def _changed(place: Place, path: str, content: bytes, what: str) -> Damage:
    (place.data / path).write_bytes(content)
    return Damage((path,), f"{path} {what}")


def removed(place: Place, path: str) -> Damage:
    (place.data / path).unlink()
    return Damage((path,), f"{path} removed")


def emptied(place: Place, path: str) -> Damage:
    if not (place.data / path).stat().st_size:
        raise Impossible
    return _changed(place, path, b"", "emptied")


def cut(place: Place, path: str) -> Damage:
    content = (place.data / path).read_bytes()
    if len(content) < 2:
        raise Impossible
    size = place.drawn.randrange(1, len(content))
    return _changed(place, path, content[:size], f"cut to {size} of {len(content)} bytes")


def flipped(place: Place, path: str) -> Damage:
    content = bytearray((place.data / path).read_bytes())
    if not content:
        raise Impossible
    filled = len(content.rstrip(b"\0")) or 1  # the zeros ahead in a journal are nothing
    at, bit = place.drawn.randrange(filled), place.drawn.randrange(8)
    content[at] ^= 1 << bit
    return _changed(place, path, bytes(content), f"bit {bit} of byte {at} flipped")


def replaced(place: Place, path: str) -> Damage:
    if not (others := place.others(path)):
        raise Impossible
    other = place.drawn.choice(others)
    return _changed(place, path, (place.original / other).read_bytes(), f"replaced by {other}")


def replaced_by_older(place: Place, path: str) -> Damage:
    """Of half of its life. But nothing can tell an older checkpoint of log starts: its offsets are all in the logs."""
    older = place.older / path
    if not older.is_file() or older.read_bytes() == (place.data / path).read_bytes():
        raise Impossible
    if path == "log-start-offset-checkpoint":
        raise Impossible
    return _changed(place, path, older.read_bytes(), "replaced by an older copy of itself")


def directory(place: Place, path: str) -> Damage:
    (place.data / path).unlink()
    (place.data / path).mkdir()
    return Damage((path,), f"{path} replaced by a directory")


def unreadable(place: Place, path: str) -> Damage:
    """By a link to itself: root may read whatever the rights say."""
    (place.data / path).unlink()
    (place.data / path).symlink_to(Path(path).name)
    return Damage((path,), f"{path} made unreadable")


def exchanged(place: Place, path: str) -> Damage:
    if not (others := place.others(path)):
        raise Impossible
    other = place.drawn.choice(others)
    for one, by in ((path, other), (other, path)):
        (place.data / one).write_bytes((place.original / by).read_bytes())
    return Damage((path, other), f"{path} and {other} exchanged")


Way = Callable[[Place, str], Damage]
WAYS: dict[str, Way] = {
    each.__name__: each
    for each in (removed, emptied, cut, flipped, replaced, replaced_by_older, directory, unreadable, exchanged)
}


@dataclass(frozen=True)
class Case:
    """One drawn start: of which directory, of which file, in which way; `seed` draws the rest."""

    seed: int
    state: str
    path: str
    way: str

    def damage(self, folder: Path, data: Path) -> Damage:
        """Make `data` a damaged copy of the state's directory in `folder`. Raises Impossible."""
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(folder / self.state, data)
        place = Place(data, folder / self.state, folder / OLDER, random.Random(f"damage {self.seed}"))
        return WAYS[self.way](place, self.path)


def case_of(seed: int, folder: Path) -> Case:
    """Kinds of files are drawn first: a directory has many indexes, and one file of each checkpoint."""
    drawn = random.Random(f"case {seed}")
    state = drawn.choice(STATES)
    by_kind: dict[str, list[str]] = {}
    for path in files_of(folder / state):
        by_kind.setdefault(kind_of(path), []).append(path)
    while True:
        path = drawn.choice(by_kind[drawn.choice(sorted(by_kind))])
        case = Case(seed, state, path, drawn.choice(sorted(WAYS)))
        if _is_possible(case, folder):
            return case


def _is_possible(case: Case, folder: Path) -> bool:
    try:
        damage = case.damage(folder, folder / "tried")
    except Impossible:
        return False
    return not _is_untold(case, damage, folder / case.state, folder / "tried")


def _is_untold(case: Case, damage: Damage, original: Path, damaged: Path) -> bool:
    """Nobody can tell: no batch names its partition, and a clean start reads no log anew, so another's longer one is taken for
    this one's. Kafka's `.txnindex` has no checksum, and a segment need not have one. A clean stop notes them, and
    recovery builds those anew that reach above the recovery point; in between are a killed broker's closed segments."""
    if case.way in (directory.__name__, unreadable.__name__):
        return False
    if case.state == "clean":
        logs = [each for each in damage.paths if each.endswith(".log")]
        return any(
            (damaged / each).stat().st_size > (original / each).stat().st_size
            for each in logs
            if (damaged / each).exists()
        )
    indexes = [original / each for each in damage.paths if each.endswith(".txnindex")]
    return any(each.with_suffix(".log") != max(each.parent.glob("*.log")) for each in indexes)


def all_cases(folder: Path, seed: int) -> Iterator[Case]:
    """Every file in every way, once."""
    for state in STATES:
        for path in files_of(folder / state):
            for way in WAYS:
                case = Case(seed, state, path, way)
                if _is_possible(case, folder):
                    yield case


def put_back(damage: Damage, original: Path, data: Path) -> None:
    """What a person with a copy does: strays get their names again, the files come from the copy."""
    for stray in data.glob("*-stray"):
        named = data / stray.name.removesuffix("-stray")
        shutil.rmtree(named, ignore_errors=True)
        stray.rename(named)
    for path in damage.paths:
        target = data / path
        if target.is_dir():
            shutil.rmtree(target)
        target.unlink(missing_ok=True)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(original / path, target)

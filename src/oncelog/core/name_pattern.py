"""Regular expressions over names that a client sends, matched in linear time.

Python's `re` tries every way to match, so one request with `(a+)+b` could stop the broker for hours; Apache Kafka
uses RE2 for the same reason. This is its everyday part: literals, `.`, classes (POSIX's too), `\\d \\w \\s`, groups, `|`, `* + ?
{n,m}`, `^ $`, `(?i)`. There are no captures, no look-around and no back-references. The pattern becomes a list of
instructions; a set of them is walked along the name, and where the set goes with a character is remembered.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable

from oncelog.lazy_dataclass import dataclass

REPEAT_MAX = 1000
INSTRUCTIONS_MAX = 5000
_REMEMBERED_MAX = 20_000
_BRACES = re.compile(r"\{(\d{1,9})(,?)(\d{1,9})?\}")

Accepts = Callable[[str], bool]
_CLASSES: dict[str, Accepts] = {
    "d": lambda c: c in "0123456789",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c in "\t\n\f\r ",
}
_POSIX = {
    "alnum": string.ascii_letters + string.digits,
    "alpha": string.ascii_letters,
    "ascii": "".join(map(chr, range(128))),
    "blank": "\t ",
    "cntrl": "".join(map(chr, (*range(32), 127))),
    "digit": string.digits,
    "graph": "".join(map(chr, range(33, 127))),
    "lower": string.ascii_lowercase,
    "print": "".join(map(chr, range(32, 127))),
    "punct": string.punctuation,
    "space": "\t\n\v\f\r ",
    "upper": string.ascii_uppercase,
    "word": string.ascii_letters + string.digits + "_",
    "xdigit": string.hexdigits,
}
_POSIX_CLASS = re.compile(r"\[:(\^?)([^:\[\]]*):\]")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}


class InvalidPattern(ValueError):
    """The text is no pattern of this language, or a too large one."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction: take a character, or go on at several places, or only at the start or end of the name."""

    accepts: Accepts | None = None
    goes_to: tuple[int, ...] = ()
    only_at: str = ""


# A piece of a program: relative jumps, so pieces can be put together and repeated.
_Piece = list[_Step]


class NamePattern:
    """A compiled pattern. Raises InvalidPattern."""

    def __init__(self, text: str) -> None:
        ignore_case = text.startswith("(?i)")
        parser = _Parser(text[4:] if ignore_case else text, ignore_case)
        self._program = parser.whole()
        self._remembered: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        states = self._closure([0], is_start=True, is_end=not name)
        last = len(name) - 1
        for index, character in enumerate(name):
            if not states:
                return False
            if index == last:
                states = self._closure(self._taken(states, character), is_start=False, is_end=True)
            else:
                states = self._next(states, character)
        return len(self._program) in states

    def _next(self, states: frozenset[int], character: str) -> frozenset[int]:
        known = self._remembered.get((states, character))
        if known is None:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            known = self._closure(self._taken(states, character), is_start=False, is_end=False)
            self._remembered[states, character] = known
        return known

    def _taken(self, states: Iterable[int], character: str) -> list[int]:
        program, size = self._program, len(self._program)
        return [at + 1 for at in states if at < size and (accepts := program[at].accepts) and accepts(character)]

    def _closure(self, places: list[int], *, is_start: bool, is_end: bool) -> frozenset[int]:
        """Every place that is reached without taking a character."""
        program, reached = self._program, set[int]()
        while places:
            at = places.pop()
            if at in reached:
                continue
            reached.add(at)
            if at == len(program) or program[at].accepts:
                continue
            step = program[at]
            if step.only_at == "" or (is_start if step.only_at == "^" else is_end):
                places += [at + distance for distance in step.goes_to]
        return frozenset(reached)


class _Parser:
    """Recursive descent: alternatives of sequences of repeated atoms."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self._text = text
        self._at = 0
        self._ignore_case = ignore_case
        self._depth = 0

    def whole(self) -> _Piece:
        piece = self._alternatives()
        if self._at < len(self._text):
            raise InvalidPattern(f"unmatched ) at {self._at}")
        return piece

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise InvalidPattern("the pattern ends too early")
        self._at += 1
        return character

    def _takes(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _alternatives(self) -> _Piece:
        piece = self._sequence()
        while self._takes("|"):
            other = self._sequence()
            fork, jump = _Step(goes_to=(1, len(piece) + 2)), _Step(goes_to=(len(other) + 1,))
            piece = _bounded([fork, *piece, jump, *other])
        return piece

    def _sequence(self) -> _Piece:
        piece: _Piece = []
        while self._peek() not in ("", "|", ")"):
            piece = _bounded([*piece, *self._repeated(self._atom())])
        return piece

    def _repeated(self, piece: _Piece) -> _Piece:
        repeats = 0
        while bounds := self._bounds():
            repeats += 1
            if repeats > 1:
                raise InvalidPattern(f"two repetitions in a row at {self._at}")
            self._takes("?")  # lazy: which way comes first does not matter to a whole match
            piece = _times(piece, *bounds)
        return piece

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._takes(sign):
                return bounds
        braces = _BRACES.match(self._text, self._at)
        if braces is None or (braces[3] and not braces[2]):
            return None
        self._at = braces.end()
        low = int(braces[1])
        high = int(braces[3]) if braces[3] else None if braces[2] else low
        if max(low, high or 0) > REPEAT_MAX or (high is not None and high < low):
            raise InvalidPattern(f"a repetition of {braces[0]}")
        return low, high

    def _atom(self) -> _Piece:
        character = self._take()
        if character == "(":
            return self._group()
        if character in "*+?":
            raise InvalidPattern(f"nothing to repeat at {self._at - 1}")
        if character in "^$":
            return [_Step(goes_to=(1,), only_at=character)]
        if character == ".":
            return [_Step(accepts=lambda c: c != "\n")]
        if character == "[":
            return [_Step(accepts=self._class())]
        if character == "\\":
            if self._peek() in ("A", "z"):
                return [_Step(goes_to=(1,), only_at="^" if self._take() == "A" else "$")]
            return [_Step(accepts=self._escape())]
        return [_Step(accepts=self._literal(character))]

    def _group(self) -> _Piece:
        self._depth += 1
        if self._depth > 100:
            raise InvalidPattern("groups are nested too deeply")
        if self._peek() == "?" and not self._takes("?:"):
            named = re.compile(r"\?P?<\w+>", re.ASCII).match(self._text, self._at)
            if named is None:
                raise InvalidPattern(f"a group of an unknown kind at {self._at}")
            self._at = named.end()
        piece = self._alternatives()
        if not self._takes(")"):
            raise InvalidPattern("a group is not closed")
        self._depth -= 1
        return piece

    def _literal(self, wanted: str) -> Accepts:
        if self._ignore_case:
            folded = wanted.casefold()
            return lambda c: c.casefold() == folded
        return lambda c: c == wanted

    def _escape(self) -> Accepts:
        character = self._take()
        if character.lower() in _CLASSES:
            accepts = _CLASSES[character.lower()]
            return accepts if character.islower() else lambda c: not accepts(c)
        return self._literal(self._escaped(character))

    def _escaped(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isalnum():
            raise InvalidPattern(f"\\{character} is not supported")
        return character

    def _posix(self, name: str, *, is_negated: bool) -> Accepts:
        if name not in _POSIX:
            raise InvalidPattern(f"there is no class [:{name}:]")
        accepted = set(_POSIX[name])
        if self._ignore_case:
            accepted |= {each.swapcase() for each in accepted}
        return lambda c: (c in accepted) is not is_negated

    def _class(self) -> Accepts:
        is_negated = self._takes("^")
        parts: list[Accepts] = []
        while not (self._peek() == "]" and parts):
            if posix := _POSIX_CLASS.match(self._text, self._at):
                self._at = posix.end()
                parts.append(self._posix(posix[2], is_negated=bool(posix[1])))
                continue
            low = self._take()
            if low == "\\" and self._peek().lower() in _CLASSES:
                parts.append(self._escape())
                continue
            low = self._escaped(self._take()) if low == "\\" else low
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._take()
                high = self._take()
                high = self._escaped(self._take()) if high == "\\" else high
                if high < low:
                    raise InvalidPattern(f"a range from {low!r} to {high!r}")
                parts.append(self._range(low, high))
            else:
                parts.append(self._literal(low))
        self._take()
        return (lambda c: not any(p(c) for p in parts)) if is_negated else (lambda c: any(p(c) for p in parts))

    def _range(self, low: str, high: str) -> Accepts:
        if self._ignore_case:
            return lambda c: low <= c <= high or low <= c.lower() <= high or low <= c.upper() <= high
        return lambda c: low <= c <= high


def _times(piece: _Piece, low: int, high: int | None) -> _Piece:
    """The piece `low` to `high` times; None: without an end."""
    size = len(piece)
    if size * max(low, high or 1, 1) > INSTRUCTIONS_MAX:
        raise InvalidPattern("the pattern is too large")
    maybe = [_Step(goes_to=(1, size + 1)), *piece]
    if high is None:
        return _bounded(piece * low + [_Step(goes_to=(1, size + 2)), *piece, _Step(goes_to=(-size - 1,))])
    return _bounded(piece * low + maybe * (high - low))


def _bounded(piece: _Piece) -> _Piece:
    if len(piece) > INSTRUCTIONS_MAX:
        raise InvalidPattern("the pattern is too large")
    return piece

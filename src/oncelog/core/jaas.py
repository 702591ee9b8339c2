"""JAAS lines, as existing deployments have them: parsed, never run.

One context for each text: `CLASS FLAG key="value" ... ;`. Values stand in quotes of either kind, with backslash escapes, or
bare; comments are Java's (its `StreamTokenizer` reads them in Kafka).
Which classes mean anything is said by who asks; what is in the options is secret and shown nowhere.
"""

from __future__ import annotations

import re
from dataclasses import field

from oncelog.lazy_dataclass import dataclass

FLAGS = ("required", "requisite", "sufficient", "optional")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_BETWEEN = re.compile(r"(?:\s+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(r"""(["'])((?:(?!\1)[^\\]|\\.)*)\1|([^\s="';]+)|(=)|(;)""", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasInvalid(ValueError):
    """A JAAS line that cannot be read; the message holds nothing of it."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options."""

    module: str
    options: dict[str, str] = field(repr=False)


def jaas_entry(text: str) -> JaasEntry:
    """The one entry of a JAAS line. Raises JaasInvalid."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[0][0] != "word":
        raise JaasInvalid('expected CLASS FLAG key="value" ... ;')
    module = tokens[0][1]
    if tokens[1][0] != "word" or tokens[1][1].lower() not in FLAGS:
        raise JaasInvalid(f"expected one of {', '.join(FLAGS)} behind the login module")
    if tokens[-1][0] != ";":
        raise JaasInvalid("expected ; at the end")
    rest = tokens[2:-1]
    if (";", "") in rest:
        raise JaasInvalid("expected one login module, and no ; but at its end")
    if len(rest) % 3:
        raise JaasInvalid('expected key="value" behind the flag')
    options: dict[str, str] = {}
    for at in range(0, len(rest), 3):
        (name_kind, name), (equals, _), (value_kind, value) = rest[at : at + 3]
        if name_kind != "word" or equals != "=" or value_kind not in ("word", "text"):
            raise JaasInvalid('expected key="value" behind the flag')
        if name in options:
            raise JaasInvalid("an option stands there twice")
        options[name] = value
    return JaasEntry(module, options)


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at, end = _after_blanks(text, 0), len(text)
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise JaasInvalid("a quote is not closed")
        quote, quoted, word, equals, semicolon = match.groups()
        if quote is not None:
            found.append(("text", _ESCAPE.sub(_unescaped, quoted)))
        elif word is not None:
            found.append(("word", word))
        else:
            found.append((equals or semicolon, ""))
        at = _after_blanks(text, match.end())
    return found


def _after_blanks(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    assert match is not None, "nothing fits, too"
    if text.startswith("/*", match.end()):
        raise JaasInvalid("a comment is not closed")
    return match.end()


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)

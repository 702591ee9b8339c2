"""`ssl.principal.mapping.rules`: what a certificate's subject is called in access rules.

Rules are tried in their order, each against the whole subject; where none fits the subject is nobody that may come.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oncelog.lazy_dataclass import dataclass

_RULE = re.compile(r"\s*(DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_GROUP = re.compile(r"\$(\d)")


class RulesInvalid(ValueError):
    """Rules that cannot be read; the message is one line for the person who wrote them."""


class NoRuleFits(ValueError):
    """A subject that no rule is about."""


@dataclass(frozen=True, slots=True)
class MappingRule:
    """`pattern` None: the subject as it is."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""


def mapping_rules(text: str) -> list[MappingRule]:
    """The rules of `RULE:pattern/replacement/[LU],...,DEFAULT`. Raises RulesInvalid."""
    rules: list[MappingRule] = []
    at, text = 0, text.strip() or "DEFAULT"
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise RulesInvalid(f"from {text[at : at + 40]!r} on: expected RULE:pattern/replacement/[LU] or DEFAULT")
        whole, pattern, replacement, case = match.groups()
        rules.append(MappingRule() if whole == "DEFAULT" else _rule(pattern, replacement, case))
        at = match.end()
    return rules


def _rule(pattern: str, replacement: str, case: str) -> MappingRule:
    try:
        compiled = re.compile(pattern, re.ASCII)  # as in Java: \w, \d and (?i) know no other letters
    except re.error as error:
        raise RulesInvalid(f"{pattern[:40]!r} is no pattern: {error}") from None
    groups = {int(number) for number in _GROUP.findall(replacement)}
    if groups and max(groups) > compiled.groups:
        raise RulesInvalid(f"{replacement[:40]!r}: the pattern has {compiled.groups} groups")
    return MappingRule(compiled, replacement, case)


def principal_name(subject: str, rules: Sequence[MappingRule]) -> str:
    """What a subject is called. Raises NoRuleFits."""
    for rule in rules:
        if rule.pattern is None:
            return subject
        match = rule.pattern.fullmatch(subject)
        if match is not None:
            values = (match[0], *match.groups(default=""))
            pieces = _GROUP.split(rule.replacement)  # texts, with the numbers of groups between them
            name = "".join(values[int(piece)] if at % 2 else piece for at, piece in enumerate(pieces))
            return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
    raise NoRuleFits("no rule of ssl.principal.mapping.rules fits the certificate's subject")

"""Worlds of access rules, drawn from a seed, and questions about them; small alphabets, so that rules meet."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.core.access.authorizer import Authorizer, Identity, super_users_of
from oncelog.core.metadata.acl import CLUSTER_NAME, WILDCARD, AclBinding
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType

NAMES = ("a", "ab", "abc", "b", "ba", "A", "é", "éa", "a.b", "a-b_c", "0", CLUSTER_NAME, "hardcode")
PATTERNS = ("*", *NAMES)  # a prefix of "*" is about names that begin with it
ASKED = ("*", "*a", "abcd", "éab", *NAMES)
PRINCIPALS = ("User:a", "User:b", "User:ab", "User:A", "User:é", "User:CN=a,O=b", "User:ANONYMOUS", "Group:a")
IPV6 = "0:0:0:0:0:0:0:1"
HOSTS = ("127.0.0.1", "10.0.0.1", "10.0.0.10", IPV6)
TYPES = [each for each in ResourceType if each > ResourceType.ANY]
OPERATIONS = [each for each in Operation if each > Operation.ANY]
ASKED_OPERATIONS = [each for each in OPERATIONS if each != Operation.ALL]
RULES_MAX = 40

Question = tuple[int, str | None, str, str, int]


@dataclass(frozen=True)
class World:
    """Rules, who need none, and what is asked. A question without a name is about any resource of its type."""

    allows_without_acl: bool
    super_users: str
    rules: tuple[AclBinding, ...]
    questions: tuple[Question, ...]

    def lines(self) -> list[str]:
        """For `Decisions.java`."""
        yes = "true" if self.allows_without_acl else "false"
        found = [f"W\t{yes}\t{self.super_users}"]
        for rule in self.rules:
            kinds = f"{int(rule.resource_type)}\t{int(rule.pattern_type)}"
            who = f"{rule.principal}\t{rule.host}"
            found.append(f"R\t{kinds}\t{rule.resource_name}\t{who}\t{int(rule.operation)}\t{int(rule.permission_type)}")
        for kind, name, principal, host, operation in self.questions:
            what = f"T\t{kind}" if name is None else f"Q\t{kind}\t{name}"
            found.append(f"{what}\t{principal}\t{host}\t{operation}")
        return [*found, "E"]

    def answers(self) -> str:
        """What our authorizer decides, as 0 and 1."""
        authorizer = self._authorizer(self.rules)
        return "".join("01"[_answer(authorizer, question)] for question in self.questions)

    def answers_without_stars(self) -> str:
        """As Apache Kafka forgets a rule about "*" where a name begins with a star (docs/differences-from-kafka.md)."""
        whole = self._authorizer(self.rules)
        fewer = self._authorizer(tuple(rule for rule in self.rules if not _is_about_all(rule)))
        return "".join("01"[_answer(fewer if _is_starred(each[1]) else whole, each)] for each in self.questions)

    def _authorizer(self, rules: tuple[AclBinding, ...]) -> Authorizer:
        acls: Mapping[bytes, AclBinding] = {b"%d" % number: rule for number, rule in enumerate(rules)}
        return Authorizer(
            acls, super_users=super_users_of(self.super_users), allows_without_acl=self.allows_without_acl
        )


def _answer(authorizer: Authorizer, question: Question) -> bool:
    kind, name, principal, host, operation = question
    who = Identity(principal, "::1" if host == IPV6 else host)  # as sockets of Python tell it
    return (
        authorizer.allows_some(who, operation, kind) if name is None else authorizer.allows(who, operation, kind, name)
    )


def _is_about_all(rule: AclBinding) -> bool:
    return rule.resource_name == WILDCARD and rule.pattern_type == PatternType.LITERAL


def _is_starred(name: str | None) -> bool:
    return name is not None and name.startswith(WILDCARD) and name != WILDCARD


def drawn(seed: int, question_count: int) -> World:
    """The world of a seed."""
    source = random.Random(seed)
    types = source.sample(TYPES, source.choice((1, 2, len(TYPES))))
    principals = source.sample(PRINCIPALS, source.choice((1, 3, len(PRINCIPALS))))
    operations = source.sample(OPERATIONS, source.choice((2, 4, len(OPERATIONS))))
    denies = source.choice((0.0, 0.2, 0.5, 0.9))
    rules = dict.fromkeys(  # Apache Kafka holds each once
        AclBinding(
            source.choice(types),
            source.choice(PATTERNS),
            source.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            source.choice(("User:*", *principals)),
            source.choice(("*", *HOSTS)),
            source.choice(operations),
            Permission.DENY if source.random() < denies else Permission.ALLOW,
        )
        for _ in range(source.choice((0, 1, 2, 5, 12, RULES_MAX)))
    )
    questions = tuple(
        (
            int(source.choice(types if source.random() < 0.9 else TYPES)),
            None if source.random() < 0.2 else source.choice(ASKED),
            source.choice(principals if source.random() < 0.9 else PRINCIPALS),
            source.choice(HOSTS),
            int(source.choice(ASKED_OPERATIONS)),
        )
        for _ in range(question_count)
    )
    return World(
        allows_without_acl=source.random() < 0.5,
        super_users=";".join(source.sample(PRINCIPALS, source.choice((0, 0, 1, 2)))),
        rules=tuple(rules),
        questions=questions,
    )

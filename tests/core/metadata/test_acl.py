"""Rules and filters."""

from __future__ import annotations

import pytest

from oncelog.core.metadata.acl import AclBinding, AclFilter
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType

Op, P, R, T = Operation, PatternType, ResourceType, Permission
LITERAL = AclBinding(R.TOPIC, "orders", P.LITERAL, "User:a", "*", Op.READ, T.ALLOW)
PREFIXED = LITERAL._replace(resource_name="ord", pattern_type=P.PREFIXED)
EVERYTHING = LITERAL._replace(resource_name="*")
ANY = AclFilter(R.ANY, None, P.ANY, None, None, Op.ANY, T.ANY)


@pytest.mark.parametrize("acl", [LITERAL, PREFIXED, EVERYTHING])
def test_what_a_rule_covers(acl):
    assert acl.covers(R.TOPIC, "orders")
    assert not acl.covers(R.GROUP, "orders")
    assert acl.covers(R.TOPIC, "invoices") is (acl is EVERYTHING)
    assert acl.covers(R.TOPIC, "orders2") is (acl is not LITERAL)


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (P.ANY, None, [LITERAL, PREFIXED, EVERYTHING]),
        (P.ANY, "orders", [LITERAL]),
        (P.MATCH, "orders", [LITERAL, PREFIXED, EVERYTHING]),
        (P.MATCH, "order", [PREFIXED, EVERYTHING]),
        (P.LITERAL, None, [LITERAL, EVERYTHING]),
        (P.LITERAL, "*", [EVERYTHING]),
        (P.PREFIXED, "ord", [PREFIXED]),
        (P.PREFIXED, "orders", []),
    ],
)
def test_filters_by_pattern(pattern, name, found):
    wanted = ANY._replace(pattern_type=pattern, resource_name=name)
    assert [acl for acl in (LITERAL, PREFIXED, EVERYTHING) if wanted.matches(acl)] == found


@pytest.mark.parametrize(
    ("change", "matches"),
    [
        ({}, True),
        ({"resource_type": R.GROUP}, False),
        ({"principal": "User:a"}, True),
        ({"principal": "User:*"}, False),
        ({"host": "1.2.3.4"}, False),
        ({"operation": Op.READ}, True),
        ({"operation": Op.ALL}, False),
        ({"permission_type": T.DENY}, False),
    ],
)
def test_filters_by_everything_else(change, matches):
    assert ANY._replace(**change).matches(LITERAL) is matches


@pytest.mark.parametrize(
    "change", [{"resource_type": 0}, {"pattern_type": 5}, {"operation": 16}, {"permission_type": 4}]
)
def test_numbers_that_nobody_knows(change):
    assert not ANY.is_unknown
    assert ANY._replace(**change).is_unknown

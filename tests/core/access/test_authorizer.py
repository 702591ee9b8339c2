"""The authorizer's decisions: its rules one by one, then against a straightforward reading of Kafka's rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.access.authorizer import Authorizer, Identity, super_users_of
from oncelog.core.metadata.acl import AclBinding
from oncelog.wire.access_rules import Operation, PatternType, Permission, ResourceType

Op, P, R = Operation, PatternType, ResourceType
ALICE = Identity("User:alice", "10.0.0.1")
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def rule(operation=Op.READ, permission=ALLOW, name="t", pattern=P.LITERAL, who="User:alice", host="*", kind=R.TOPIC):
    return AclBinding(kind, name, pattern, who, host, operation, permission)


def authorizer(*rules, **options):
    return Authorizer({bytes([index]): each for index, each in enumerate(rules)}, **options)


@pytest.mark.parametrize(
    ("rules", "operation", "allowed"),
    [
        ([], Op.READ, False),
        ([rule()], Op.READ, True),
        ([rule()], Op.WRITE, False),
        ([rule(who="User:bob")], Op.READ, False),
        ([rule(who="User:*")], Op.READ, True),
        ([rule(host="10.0.0.1")], Op.READ, True),
        ([rule(host="10.0.0.2")], Op.READ, False),
        ([rule(Op.ALL)], Op.ALTER, True),
        ([rule(name="*")], Op.READ, True),
        ([rule(pattern=P.PREFIXED)], Op.READ, True),
        ([rule(kind=R.GROUP)], Op.READ, False),
        ([rule(), rule(permission=DENY)], Op.READ, False),
        ([rule(), rule(permission=DENY, name="*")], Op.READ, False),
        ([rule(), rule(permission=DENY, who="User:*", host="10.0.0.1")], Op.READ, False),
        ([rule(), rule(Op.ALL, DENY)], Op.READ, False),
        ([rule(), rule(Op.WRITE, DENY)], Op.READ, True),
    ],
)
def test_decisions(rules, operation, allowed):
    assert authorizer(*rules).allows(ALICE, operation, R.TOPIC, "t") is allowed


@pytest.mark.parametrize("operation", [Op.READ, Op.WRITE, Op.DELETE, Op.ALTER])
def test_rights_imply_describing_and_denials_do_not(operation):
    assert authorizer(rule(operation)).allows(ALICE, Op.DESCRIBE, R.TOPIC, "t")
    assert authorizer(rule(Op.DESCRIBE), rule(operation, DENY)).allows(ALICE, Op.DESCRIBE, R.TOPIC, "t")
    assert authorizer(rule(Op.ALTER_CONFIGS)).allows(ALICE, Op.DESCRIBE_CONFIGS, R.TOPIC, "t")
    assert not authorizer(rule(operation)).allows(ALICE, Op.DESCRIBE_CONFIGS, R.TOPIC, "t")


def test_super_users_and_resources_without_a_rule():
    assert authorizer(rule(Op.ALL, DENY), super_users=["User:alice"]).allows(ALICE, Op.READ, R.TOPIC, "t")
    open_to_all = authorizer(rule(who="User:bob"), allows_without_acl=True)
    assert open_to_all.allows(ALICE, Op.READ, R.TOPIC, "other")
    assert not open_to_all.allows(ALICE, Op.READ, R.TOPIC, "t"), "a rule for somebody else closes it"


@pytest.mark.parametrize(
    ("rules", "some"),
    [
        ([], False),
        ([rule(Op.WRITE)], True),
        ([rule(Op.READ)], False),
        ([rule(Op.WRITE), rule(Op.WRITE, DENY, name="*")], False),
        ([rule(Op.WRITE), rule(Op.WRITE, DENY)], False),
        ([rule(Op.WRITE), rule(Op.ALL, DENY, pattern=P.PREFIXED)], False),
        ([rule(Op.WRITE, pattern=P.PREFIXED), rule(Op.WRITE, DENY)], True),
        ([rule(Op.WRITE, name="*"), rule(Op.WRITE, DENY, pattern=P.PREFIXED)], True),
        ([rule(Op.WRITE, name="tt", pattern=P.PREFIXED), rule(Op.WRITE, DENY, pattern=P.PREFIXED)], False),
    ],
)
def test_a_right_to_some_topic(rules, some):
    assert authorizer(*rules).allows_some(ALICE, Op.WRITE, R.TOPIC) is some
    assert authorizer(*rules, super_users=["User:alice"]).allows_some(ALICE, Op.WRITE, R.TOPIC)


def test_operations_as_bits():
    assert authorizer(rule(Op.READ)).operations(ALICE, R.TOPIC, "t") == 1 << Op.READ | 1 << Op.DESCRIBE
    assert authorizer(super_users=["User:alice"]).operations(ALICE, R.TOPIC, "t") == 3576  # as without an authorizer
    assert authorizer(super_users=["User:alice"]).operations(ALICE, R.CLUSTER, "kafka-cluster") == 8096


def test_super_users_are_written_as_kafka_writes_them():
    assert super_users_of("User:a; User:b;;") == {"User:a", "User:b"}
    with pytest.raises(ValueError, match="type:name"):
        super_users_of("alice")


def test_decisions_are_remembered_until_a_rule_changes():
    rules, version = {b"1": rule()}, [0]
    decides = Authorizer(rules, acls_version=lambda: version[0])
    assert decides.allows(ALICE, Op.READ, R.TOPIC, "t")
    del rules[b"1"]
    assert decides.allows(ALICE, Op.READ, R.TOPIC, "t"), "as decided before"
    version[0] += 1
    assert not decides.allows(ALICE, Op.READ, R.TOPIC, "t")


def by_the_book(rules, who, operation, name, otherwise):
    """Kafka's rules, in the words of its documentation."""
    about = [
        each
        for each in rules
        if (
            name.startswith(each.resource_name)
            if each.pattern_type == P.PREFIXED
            else each.resource_name in (name, "*")
        )
    ]
    mine = [each for each in about if each.principal in (who.principal, "User:*") and each.host in (who.host, "*")]
    implied = {Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}, Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS}}
    if any(each.permission_type == DENY and each.operation in (operation, Op.ALL) for each in mine):
        return False
    granting = {operation, Op.ALL} | implied.get(operation, set())
    if any(each.permission_type == ALLOW and each.operation in granting for each in mine):
        return True
    return otherwise and not about


rules = st.builds(
    rule,
    st.sampled_from([Op.ALL, Op.READ, Op.WRITE, Op.DESCRIBE, Op.ALTER_CONFIGS, Op.DESCRIBE_CONFIGS]),
    st.sampled_from([ALLOW, DENY]),
    st.sampled_from(["*", "a", "ab", "b"]),
    st.sampled_from([P.LITERAL, P.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
)


@given(
    st.lists(rules, max_size=6),
    st.sampled_from([Op.READ, Op.WRITE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS]),
    st.sampled_from(["a", "ab", "b"]),
    st.booleans(),
)
def test_as_the_book_says(chosen, operation, name, otherwise):
    decided = authorizer(*chosen, allows_without_acl=otherwise).allows(ALICE, operation, R.TOPIC, name)
    assert decided is by_the_book(chosen, ALICE, operation, name, otherwise)


@pytest.mark.parametrize("named", ["::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "0:0::0:1"])
def test_an_ipv6_address_is_one_however_it_is_spelled(named):
    who = Identity("User:alice", "::1")
    assert authorizer(rule(host=named)).allows(who, Op.READ, R.TOPIC, "t")
    assert authorizer(rule(host=named)).allows_some(who, Op.READ, R.TOPIC)
    assert not authorizer(rule(), rule(host=named, permission=DENY)).allows(who, Op.READ, R.TOPIC, "t")
    for another in ("::2", "10.0.0.1", "x:y", ""):
        assert not authorizer(rule(host=named)).allows(Identity("User:alice", another), Op.READ, R.TOPIC, "t")

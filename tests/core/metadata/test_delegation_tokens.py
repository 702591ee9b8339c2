"""Delegation tokens as decisions, at literal times: the answers were asked of Apache Kafka 4.3."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.metadata.cluster import ClusterMetadata, snapshot_records
from oncelog.core.metadata.delegation_tokens import (
    RENEWERS_MAX,
    SWEPT_AT_ONCE,
    TokenTerms,
    create_token,
    described_tokens,
    expire_token,
    expired_tokens,
    mac_of,
    renew_token,
)
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.cluster_metadata import record_from_value, record_to_value
from oncelog.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from oncelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

E = ErrorCode
NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
SECRET = b"topsecret"
TERMS = TokenTerms(SECRET, 7 * DAY_MS, DAY_MS)
OFF = TokenTerms(b"", 7 * DAY_MS, DAY_MS)
LONG_MAX = 2**63 - 1


class World:
    """Metadata with its tokens, and whoever asks."""

    def __init__(self, terms=TERMS):
        self.terms = terms
        self.metadata = ClusterMetadata()
        self.now_ms = NOW_MS
        self.count = 0

    @property
    def tokens(self):
        return self.metadata.delegation_tokens

    def _apply(self, records):
        for record in records:
            self.metadata.apply(record_from_value(record_to_value(record)))

    def create(self, principal, owner="", renewers=(), lifetime_ms=-1, version=3, owner_type="User"):
        self.count += 1
        kinds = [each if isinstance(each, tuple) else ("User", each) for each in renewers]
        request = CreateDelegationTokenRequest(
            owner_principal_type=owner_type if owner else "",
            owner_principal_name=owner,
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in kinds],
            max_lifetime_ms=lifetime_ms,
        )
        records, answer, _ = create_token(
            self.tokens,
            self.terms,
            request,
            requester=f"User:{principal}",
            token_id=f"t{self.count}",
            now_ms=self.now_ms,
            version=version,
        )
        self._apply(records)
        return answer

    def renew(self, principal, mac, period_ms=-1):
        request = RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period_ms)
        records, answer = renew_token(
            self.tokens, self.terms, request, principal=f"User:{principal}", now_ms=self.now_ms
        )
        self._apply(records)
        return answer.error_code, answer.expiry_timestamp_ms - (NOW_MS if not answer.error_code else 0)

    def expire(self, principal, mac, period_ms=-1):
        request = ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period_ms)
        records, answer = expire_token(
            self.tokens, self.terms, request, principal=f"User:{principal}", now_ms=self.now_ms
        )
        self._apply(records)
        return answer.error_code, answer.expiry_timestamp_ms - (NOW_MS if not answer.error_code else 0)

    def describe(self, principal, *owners, may=False, version=3):
        """`owners`: none at all asks for all; (None,) for nobody's."""
        named = None
        if owners:
            names = [name for name in owners if name]
            named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in names]
        request = DescribeDelegationTokenRequest(owners=named)
        found = described_tokens(
            self.tokens,
            self.terms,
            request,
            principal=f"User:{principal}",
            may_describe=lambda _token: may,
            version=version,
        )
        return [each.token_id for each in found]


@pytest.mark.parametrize(
    ("lifetime_ms", "expiry_ms", "max_ms"),
    [
        (-1, DAY_MS, 7 * DAY_MS),
        (0, DAY_MS, 7 * DAY_MS),
        (5_000, 5_000, 5_000),
        (2 * DAY_MS, DAY_MS, 2 * DAY_MS),
        (8 * DAY_MS, DAY_MS, 7 * DAY_MS),
        (LONG_MAX, DAY_MS, 7 * DAY_MS),
        (-LONG_MAX, DAY_MS, 7 * DAY_MS),
    ],
)
def test_times_are_cut_and_never_refused(lifetime_ms, expiry_ms, max_ms):
    answer = World().create("alice", lifetime_ms=lifetime_ms)
    assert answer.error_code == E.NONE
    assert answer.issue_timestamp_ms == NOW_MS
    assert (answer.expiry_timestamp_ms - NOW_MS, answer.max_timestamp_ms - NOW_MS) == (expiry_ms, max_ms)


def test_who_is_named_in_which_version():
    world = World()
    answer = world.create("admin", owner="bob")
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "admin")
    answer = world.create("alice", version=2)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "")
    assert bytes(answer.hmac) == hmac.new(SECRET, b"t2", hashlib.sha512).digest()
    assert answer.token_id == "t2"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"renewers": [("Group", "x")]}, E.INVALID_PRINCIPAL_TYPE),
        ({"renewers": ["bob", ("", "x")]}, E.INVALID_PRINCIPAL_TYPE),
        ({"owner": "g", "owner_type": "Group"}, E.INVALID_PRINCIPAL_TYPE),
        ({"owner": "bob", "owner_type": ""}, E.INVALID_PRINCIPAL_TYPE),
        ({"renewers": [f"r{n}" for n in range(RENEWERS_MAX + 1)]}, E.INVALID_REQUEST),
    ],
)
def test_tokens_that_are_refused(changes, code):
    world = World()
    answer = world.create("alice", **changes)
    assert (answer.error_code, answer.token_id, bytes(answer.hmac)) == (code, "", b"")
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (-1, -1, -1)
    assert not world.tokens


def test_without_a_secret_key_there_are_none():
    world = World(OFF)
    assert world.create("alice").error_code == E.DELEGATION_TOKEN_AUTH_DISABLED
    assert world.create("alice", renewers=[("Group", "x")]).error_code == E.INVALID_PRINCIPAL_TYPE, "looked at before"
    assert world.renew("alice", b"x") == (E.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    assert world.expire("alice", b"x") == (E.DELEGATION_TOKEN_AUTH_DISABLED, 0)


def test_there_is_a_limit():
    world = World(TokenTerms(SECRET, DAY_MS, DAY_MS, count_max=1))
    assert world.create("alice").error_code == E.NONE
    assert world.create("alice").error_code == E.POLICY_VIOLATION
    assert world.expire("alice", mac_of(SECRET, "t1"))[0] == E.NONE
    assert world.create("alice").error_code == E.NONE


def test_renewal():
    world = World()
    mac = bytes(world.create("admin", owner="alice", renewers=["bob"]).hmac)
    for period_ms, expiry_ms in ((-1, DAY_MS), (0, DAY_MS), (1_000, 1_000), (LONG_MAX, DAY_MS)):
        assert world.renew("alice", mac, period_ms) == (E.NONE, expiry_ms)
    assert world.renew("bob", mac, 7_000) == (E.NONE, 7_000)
    assert world.renew("admin", mac) == (E.DELEGATION_TOKEN_OWNER_MISMATCH, 0), "who had it made may not, super or not"
    assert world.renew("alice", b"other") == (E.DELEGATION_TOKEN_NOT_FOUND, 0)
    assert world.renew("alice", b"") == (E.DELEGATION_TOKEN_NOT_FOUND, 0)
    world.renew("alice", mac)
    world.now_ms = NOW_MS + DAY_MS
    for day in range(1, 7):
        world.now_ms = NOW_MS + day * DAY_MS
        assert world.renew("alice", mac) == (E.NONE, min(day + 1, 7) * DAY_MS)
    world.now_ms = NOW_MS + 6 * DAY_MS + 1
    assert world.renew("alice", mac) == (E.NONE, 7 * DAY_MS), "never beyond its end"
    world.now_ms = NOW_MS + 7 * DAY_MS + 1
    assert world.renew("alice", mac) == (E.DELEGATION_TOKEN_EXPIRED, 0)
    assert world.renew("carl", mac) == (E.DELEGATION_TOKEN_EXPIRED, 0), "looked at before"


def test_expiry():
    world = World()
    mac = bytes(world.create("alice", renewers=["bob"]).hmac)
    assert world.expire("carl", mac) == (E.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert world.expire("alice", b"x") == (E.DELEGATION_TOKEN_NOT_FOUND, 0)
    assert world.expire("bob", mac, LONG_MAX) == (E.NONE, 7 * DAY_MS), "so it can be prolonged, as in Kafka"
    assert world.expire("alice", mac, 5_000) == (E.NONE, 5_000)
    assert world.expire("alice", mac, 0) == (E.NONE, 0)
    world.now_ms += 1
    assert world.expire("alice", mac, 5_000) == (E.DELEGATION_TOKEN_EXPIRED, 0)
    assert world.expire("alice", mac, -1) == (E.NONE, 1), "what has expired can be taken away"
    assert world.expire("alice", mac, -1) == (E.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_who_sees_what():
    world = World()
    world.create("alice", renewers=["bob"])
    world.create("admin", owner="bob", renewers=["carl"])
    world.create("admin")
    assert world.describe("alice") == ["t1"]
    assert world.describe("bob") == ["t1", "t2"]
    assert world.describe("bob", "bob") == ["t1", "t2"], "a renewer is asked for as an owner is"
    assert world.describe("bob", "admin") == ["t2"], "and who had it made"
    assert world.describe("bob", "alice", "admin") == ["t1", "t2"]
    assert world.describe("alice", "bob") == ["t1"]
    assert world.describe("alice", "carl") == []
    assert world.describe("alice", None) == []
    assert world.describe("stranger") == []
    assert world.describe("stranger", may=True) == ["t1", "t2", "t3"]
    assert world.describe("stranger", "admin", may=True) == ["t2", "t3"]


def test_what_is_seen():
    world = World()
    answer = world.create("admin", owner="bob", renewers=["carl", "carl"])
    for version in (1, 3):
        (seen,) = described_tokens(
            world.tokens,
            TERMS,
            DescribeDelegationTokenRequest(owners=None),
            principal="User:bob",
            may_describe=lambda _token: False,
            version=version,
        )
        assert (seen.principal_name, seen.hmac) == ("bob", answer.hmac)
        assert seen.token_requester_principal_name == ("admin" if version == 3 else "")
        assert [each.principal_name for each in seen.renewers] == ["carl"]
        assert (seen.issue_timestamp, seen.expiry_timestamp) == (NOW_MS, NOW_MS + DAY_MS)


def test_expired_ones_are_swept_some_at_a_time():
    world = World()
    for _ in range(SWEPT_AT_ONCE + 5):
        world.create("alice", lifetime_ms=1_000)
    world.create("alice")
    assert expired_tokens(world.tokens, NOW_MS + 1_000) == []
    for count in (SWEPT_AT_ONCE, 5, 0):
        records = expired_tokens(world.tokens, NOW_MS + 1_001)
        assert len(records) == count
        world._apply(records)
    assert len(world.tokens) == 1


def test_nothing_that_proves_a_token_is_stored():
    world = World()
    answer = world.create("alice")
    (record,) = snapshot_records(world.metadata)
    assert bytes(answer.hmac) not in record_to_value(record)
    assert SECRET not in record_to_value(record)
    again = ClusterMetadata()
    again.apply(record)
    assert again.delegation_tokens == world.tokens


TIMES = st.sampled_from([-LONG_MAX, -1, 0, 1, 5_000, DAY_MS, 8 * DAY_MS, LONG_MAX])


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from("cre"), st.sampled_from(["alice", "bob", "carl"]), TIMES, TIMES), max_size=20)
)
def test_no_token_holds_longer_than_it_may(steps):
    world = World()
    for kind, who, period_ms, passed_ms in steps:
        if kind == "c":
            world.create(who, renewers=["bob"], lifetime_ms=period_ms)
        for token_id in tuple(world.tokens):
            if kind == "r":
                world.renew(who, mac_of(SECRET, token_id), period_ms)
            if kind == "e":
                world.expire(who, mac_of(SECRET, token_id), period_ms)
        for token in world.tokens.values():
            assert token.expiry_timestamp_ms <= token.max_timestamp_ms <= token.issue_timestamp_ms + 7 * DAY_MS
        world.now_ms += max(min(passed_ms, DAY_MS), 0)

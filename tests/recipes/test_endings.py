"""What is said of an error at a dual writer's start."""

from __future__ import annotations

import pytest

from oncelog.client.rights import Rights
from oncelog.errors import ErrorCode, InvalidTxnState, TransactionalIdAuthorization, UnsupportedVersion
from oncelog.recipes.endings import explained

CODE = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
SAID = "initialise transactional id 'a; b'"


def test_who_is_not_logged_in_lacks_no_right() -> None:
    """The way out was an ACL, on a broker without an authorizer."""
    error = explained(TransactionalIdAuthorization(SAID + Rights("write", "ANONYMOUS").way_out(CODE, "a; b")))
    assert isinstance(error, TransactionalIdAuthorization)
    assert str(error).endswith(f"transaction.two.phase.commit.enable=true; it said: {SAID}")


@pytest.mark.parametrize(("user", "who"), [("bob smith", "User:bob smith"), ("", "its user")])
def test_who_is_logged_in_may_lack_either(user: str, who: str) -> None:
    error = explained(TransactionalIdAuthorization(SAID + Rights("write", user).way_out(CODE, "t")))
    ending = f"it said: {SAID}; or, where it is so already, {who} needs the right to write transactional id 't'"
    assert f"transaction.two.phase.commit.enable=true; {ending}" in str(error)
    assert "then): oncelog acls add" in str(error)


def test_others_are_told_as_they_are() -> None:
    assert str(explained(UnsupportedVersion("too old"))).endswith("it said: too old")
    other = InvalidTxnState("x")
    assert explained(other) is other

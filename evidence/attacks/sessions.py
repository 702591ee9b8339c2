"""Sessions (KIP-368): going on as somebody else, beyond the end, or with what was taken away."""

from __future__ import annotations

import asyncio
import time

from evidence.attacks.attack import attack
from evidence.attacks.before_authentication import with_admin
from evidence.attacks.peer import CLOSED, Peer, handshake, plain, said, token
from evidence.attacks.target import NEVER, SESSION_MS, Target
from evidence.world.security import USERS
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.metadata import MetadataRequest

METADATA = (MetadataRequest(topics=[]), 12)
ALICE = plain("alice", USERS["alice"])
REFUSED = f"58, {CLOSED}"


async def beyond(seconds: float = SESSION_MS / 1000 + 0.1) -> None:
    """Past a session's end."""
    await asyncio.sleep(seconds)


@attack(REFUSED, "another user")
async def on_as_somebody_else(target: Target) -> str:
    """Begins Alice's session again as the administrator, with his right password."""
    peer = await target.come_in(listener="SHORT")
    return await peer.converse(handshake(), plain("admin", USERS["admin"]))


@attack(f"0, {CLOSED}", "another mechanism")
async def on_by_another_mechanism(target: Target) -> str:
    """Begins a session of PLAIN again by SCRAM."""
    return await (await target.come_in(listener="SHORT")).converse(handshake("SCRAM-SHA-256"))


@attack(REFUSED, "wrong password")
async def on_with_a_wrong_password(target: Target) -> str:
    """Fails in the middle of a session, and would go on as it was."""
    return await (await target.come_in(listener="SHORT")).converse(handshake(), plain("alice", "guess"))


@attack(CLOSED, "ended|request came")
async def a_request_while_it_begins_again(target: Target) -> str:
    """Names a mechanism in a living session, then asks for topics instead of proving anything."""
    peer = await target.come_in(listener="SHORT")
    await peer.ask(*handshake())
    answer = await peer.ask(*METADATA)
    return CLOSED if answer is None or await peer.rest() == CLOSED else "served"


@attack(f"34, {CLOSED}", "in the middle")
async def another_handshake_while_it_begins_again(target: Target) -> str:
    """Names a mechanism twice in a living session."""
    return await (await target.come_in(listener="SHORT")).converse(handshake(), handshake())


@attack(CLOSED, "ended")
async def beyond_its_end(target: Target) -> str:
    """Asks for topics after the session's end, without logging in again."""
    peer = await target.come_in(listener="SHORT")
    await beyond()
    return await peer.converse(METADATA)


@attack(CLOSED, "ended")
async def an_old_client_beyond_its_end(target: Target) -> str:
    """Logs in by SaslAuthenticate v0, which is told of no end, and stays."""
    peer = await target.connect("SHORT")
    await peer.ask(*handshake())
    assert (await peer.ask(ALICE[0], 0)).error_code == 0
    await beyond()
    return await peer.converse(METADATA)


@attack("ended within two seconds", "ended")
async def silent_beyond_its_end(target: Target) -> str:
    """Says nothing at all, so that nobody looks whether the session has ended."""
    peer = await target.come_in(listener="SHORT")
    begun_s = time.monotonic()
    await peer.is_closed()
    taken_s = time.monotonic() - begun_s
    return "ended within two seconds" if taken_s < 6 else "lives on for seconds"


@attack("34, served")
async def twice_in_a_second(target: Target) -> str:
    """Begins its session again twice within a second, to keep the broker busy."""
    peer = await target.come_in(listener="SHORT")
    return await peer.converse(handshake(), ALICE, handshake())


@attack("34, served")
async def another_login_without_an_end(target: Target) -> str:
    """Authenticates as the administrator on a connection of Alice's whose session has no end: it stays Alice's."""
    peer = await target.come_in()
    await peer.ask(*plain("admin", USERS["admin"]))
    answer = await peer.ask(CreateTopicsRequest(topics=[topic()], timeout_ms=1_000), 5)
    assert said(answer) == "29", "it became the administrator"
    return await peer.converse(handshake(), token(b"\0admin\0" + USERS["admin"].encode()))


@attack(f"behind it nothing was done, {CLOSED}", "wrong password")
async def a_request_behind_a_failed_one(target: Target) -> str:
    """The administrator's session begins again with a wrong password, a CreateTopics right behind it."""
    peer = await target.come_in("admin", "SHORT")
    peer.post(*handshake())
    peer.post(*plain("admin", "guess"))
    peer.post(CreateTopicsRequest(topics=[topic()]), 5)
    is_closed = await peer.is_closed()
    async with with_admin(target) as admin:
        has_made = NEVER in await admin.list_topics()
    return f"behind it {'it was made' if has_made else 'nothing was done'}, {CLOSED if is_closed else 'open'}"


@attack(CLOSED, "another mechanism")
async def raw_tokens_in_a_session(target: Target) -> str:
    """Begins a session again by SaslHandshake v0, after which tokens come without requests."""
    peer = await target.come_in(listener="SHORT")
    answer = await peer.ask(*handshake(version=0))
    return CLOSED if answer is None or await peer.rest() == CLOSED else "served"


@attack("put out within seconds", "credentials deleted")
async def a_deleted_user_stays(target: Target) -> str:
    """Has a connection open while an administrator deletes its credentials."""
    return await goes_on(target, None)


@attack("put out within seconds", "the password was changed")
async def who_knows_the_old_password_stays(target: Target) -> str:
    """Has a connection open while an administrator changes the password that it knows."""
    return await goes_on(target, "leavers-new-secret")


async def goes_on(target: Target, password: str | None) -> str:
    """Whether it is still served after the password has become another, or none."""
    async with with_admin(target) as admin:
        await admin.alter_user_scram_credential("leaver", "SCRAM-SHA-256", "leavers-secret")
        peer = await logged_in(target)
        await admin.alter_user_scram_credential("leaver", "SCRAM-SHA-256", password)
    begun_s = time.monotonic()
    while time.monotonic() - begun_s < 15:
        if not await peer.is_served():
            return "put out within seconds"
        await asyncio.sleep(0.05)
    return "served on"


async def logged_in(target: Target) -> Peer:
    """As the one who will leave; Apache Kafka knows new credentials a moment later."""
    for _ in range(50):
        peer = await target.connect()
        answer = await peer.log_in("leaver", "leavers-secret", "SCRAM-SHA-256")
        if answer is not None and not answer.error_code:
            return peer
        await asyncio.sleep(0.1)
    raise AssertionError("it does not come in")


def topic() -> CreatableTopic:
    """One that must not come to be."""
    return CreatableTopic(name=NEVER, num_partitions=1, replication_factor=1)

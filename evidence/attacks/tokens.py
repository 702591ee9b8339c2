"""Delegation tokens (KIP-48): ids without secrets, tokens of others, tokens for others, tokens from tokens."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from typing import Any

from evidence.attacks.attack import attack
from evidence.attacks.peer import CLOSED, Peer, said
from evidence.attacks.target import SECRET_KEY, Target
from evidence.world.security import SCRAM_PASSWORD, SCRAM_USER
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from oncelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

REFUSED = f"58, {CLOSED}"
DAY_MS = 86_400_000
S256 = "SCRAM-SHA-256"


async def made(target: Target, user: str = "alice") -> Any:
    """A token of a user's own."""
    answer = await (await target.come_in(user)).ask(CreateDelegationTokenRequest(max_lifetime_ms=-1))
    assert answer.error_code == 0, answer
    target.secrets |= {b64encode(bytes(answer.hmac)).decode(), bytes(answer.hmac).hex()}
    return answer


async def by(target: Target, token_id: str, password: str, *, is_token: bool = True) -> str:
    """What a login by a token is told."""
    peer = await target.connect()
    answer = await peer.log_in(token_id, password, S256, is_token=is_token)
    return f"{said(answer)}, {await peer.rest()}"


async def come_by(target: Target) -> Peer:
    """A connection of somebody who came by a right token; Apache Kafka knows a new one within some seconds."""
    token = await made(target)
    for _ in range(50):
        peer = await target.connect()
        answer = await peer.log_in(token.token_id, b64encode(bytes(token.hmac)).decode(), S256, is_token=True)
        if answer is not None and not answer.error_code:
            return peer
        await asyncio.sleep(0.1)
    raise AssertionError("the token does not come in")


async def of_a_known_token(peer: Peer, asked: Any) -> Any:
    """The answer about a token that was just made, once the broker knows it: Apache Kafka's learns of it later."""
    for _ in range(50):
        answer = await peer.ask(asked)
        if answer is None or answer.error_code != ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
            return answer
        await asyncio.sleep(0.1)
    return answer


@attack(REFUSED, "wrong password")
async def a_token_id_as_password(target: Target) -> str:
    """Knows the id, which is no secret."""
    token = await made(target)
    ends = {await by(target, token.token_id, each) for each in (token.token_id, "")}
    return " or ".join(sorted(ends))


@attack(REFUSED, "wrong password")
async def a_mac_that_was_changed(target: Target) -> str:
    """The MAC with a bit turned, cut to half, in hex."""
    token = await made(target)
    mac = bytes(token.hmac)
    forms = (b64encode(bytes([mac[0] ^ 1]) + mac[1:]).decode(), b64encode(mac[:32]).decode(), mac.hex())
    return " or ".join(sorted({await by(target, token.token_id, each) for each in forms}))


@attack(REFUSED, "unknown user|wrong password")
async def a_mac_under_another_name(target: Target) -> str:
    """A right MAC under another id, and under the owner's own name."""
    token = await made(target)
    word = b64encode(bytes(token.hmac)).decode()
    return " or ".join(sorted({await by(target, each, word) for each in (token.token_id[::-1], "alice")}))


@attack(REFUSED, "unknown user|wrong password")
async def a_token_as_a_password(target: Target) -> str:
    """A right id and MAC without saying that it is a token, which would hide what it is."""
    token = await made(target)
    return await by(target, token.token_id, b64encode(bytes(token.hmac)).decode(), is_token=False)


@attack(REFUSED, "unknown user|wrong password")
async def a_password_as_a_token(target: Target) -> str:
    """Sam's name and password with `tokenauth`."""
    return await by(target, SCRAM_USER, SCRAM_PASSWORD)


@attack(REFUSED, "unknown user|wrong password")
async def a_token_by_plain(target: Target) -> str:
    """A right id and MAC by PLAIN."""
    token = await made(target)
    peer = await target.connect()
    answer = await peer.log_in(token.token_id, b64encode(bytes(token.hmac)).decode())
    return f"{said(answer)}, {await peer.rest()}"


@attack(REFUSED, "wrong password")
async def the_clusters_secret_as_password(target: Target) -> str:
    """Uses `delegation.token.secret.key` itself."""
    return await by(target, (await made(target)).token_id, SECRET_KEY)


@attack("64, 64, 64, 64")
async def tokens_from_a_token(target: Target) -> str:
    """Who came by a token makes, renews, ends and lists tokens: one that was stolen would live for ever."""
    peer = await come_by(target)
    return await all_four(peer)


@attack("64, 64, 64, 64")
async def tokens_for_nobody(target: Target) -> str:
    """Who came without a name does the same."""
    return await all_four(await target.connect("TLS"))


async def all_four(peer: Peer) -> str:
    """What each of the four requests is told."""
    requests = (
        CreateDelegationTokenRequest(),
        RenewDelegationTokenRequest(hmac=b"x"),
        ExpireDelegationTokenRequest(hmac=b"x"),
        DescribeDelegationTokenRequest(owners=None),
    )
    return ", ".join([said(await peer.ask(each)) for each in requests])


@attack("65", "")
async def a_token_for_the_administrator(target: Target) -> str:
    """Alice asks for a token that logs in as `admin`."""
    peer = await target.come_in()
    asked = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="admin", max_lifetime_ms=-1)
    return said(await peer.ask(asked))


@attack("67")
async def a_token_for_a_group(target: Target) -> str:
    """The administrator makes a token whose renewer is no user (`Group:all`)."""
    peer = await target.come_in("admin")
    asked = CreateDelegationTokenRequest(renewers=[CreatableRenewers(principal_type="Group", principal_name="all")])
    return said(await peer.ask(asked))


@attack("63, 63")
async def anothers_token(target: Target) -> str:
    """Alice renews and ends the administrator's token, whose MAC she has."""
    mac = bytes((await made(target, "admin")).hmac)
    peer = await target.come_in()
    ended = said(await of_a_known_token(peer, ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=-1)))
    return f"{said(await peer.ask(RenewDelegationTokenRequest(hmac=mac, renew_period_ms=DAY_MS)))}, {ended}"


@attack("62, 62, 62")
async def guessed_macs(target: Target) -> str:
    """Ends tokens by zeros, by a MAC that is cut, by nothing."""
    mac = bytes((await made(target)).hmac)
    peer = await target.come_in()
    ends = [said(await peer.ask(ExpireDelegationTokenRequest(hmac=each))) for each in (bytes(64), mac[:-1], b"")]
    return ", ".join(ends)


@attack("0 tokens, error 0")
async def others_tokens_listed(target: Target) -> str:
    """Alice lists the administrator's tokens, MACs included."""
    await made(target, "admin")
    peer = await target.come_in()
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="admin")
    answer = await peer.ask(DescribeDelegationTokenRequest(owners=[owner]))
    return f"{len(answer.tokens)} tokens, error {answer.error_code}"


@attack("cut to seven days")
async def a_token_for_ever(target: Target) -> str:
    """Asks for 2^63 - 1 ms of life, and renews it by as much."""
    peer = await target.come_in()
    answer = await peer.ask(CreateDelegationTokenRequest(max_lifetime_ms=2**63 - 1))
    target.secrets.add(b64encode(bytes(answer.hmac)).decode())
    asked = RenewDelegationTokenRequest(hmac=bytes(answer.hmac), renew_period_ms=2**63 - 1)
    renewed = await of_a_known_token(peer, asked)
    ends_ms = max(answer.max_timestamp_ms, renewed.expiry_timestamp_ms)
    is_cut = ends_ms - time.time() * 1000 <= 7 * DAY_MS and renewed.error_code == 0
    return "cut to seven days" if is_cut else f"until {ends_ms}, {renewed.error_code}"


@attack(REFUSED, "unknown user|wrong password")
async def a_token_that_was_ended(target: Target) -> str:
    """Logs in by a token that its owner has just ended."""
    token = await made(target)
    owner = await target.come_in()
    await owner.ask(ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=-1))
    return await by(target, token.token_id, b64encode(bytes(token.hmac)).decode())

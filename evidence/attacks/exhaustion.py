"""Exhaustion: many who never finish, slow ones, large ones, guessers. Against a broker with small bounds, so that it is short.

`make exhaustion` does the same by the thousand, against the bounds as they come.
"""

from __future__ import annotations

import asyncio
import struct
import time

from evidence.attacks.attack import NOT_ASKED_OURS, NOT_ASKED_SLOW, attack
from evidence.attacks.before_authentication import header
from evidence.attacks.peer import CLOSED, Peer, handshake, plain, token
from evidence.attacks.target import Target
from evidence.world.identity_provider import message, signed
from oncelog.wire.api import ApiKey

TIMEOUT_MS, PER_ADDRESS, HELD_BYTES = 400, 10, 2_000_000
BOUNDS = {
    "oncelog_authentication_timeout_ms": TIMEOUT_MS,
    "oncelog_max_unauthenticated_connections_per_ip": PER_ADDRESS,
    "oncelog_max_unauthenticated_bytes": HELD_BYTES,
}
IN_TIME = "ended in time"


def strangers(target: Target) -> int:
    """How many are there whom nobody knows."""
    assert target.broker is not None
    return len(target.broker.server.strangers._held_bytes)


async def cut(peer: Peer, begun_s: float) -> str:
    """Whether it ends in about the time that it has."""
    if not await peer.is_closed():
        return "open"
    return IN_TIME if time.monotonic() - begun_s < 10 * TIMEOUT_MS / 1000 else "late"


async def dripping(peer: Peer, data: bytes) -> str:
    """A byte every twentieth of a second: something always comes."""
    begun_s = time.monotonic()

    async def drip() -> None:
        for each in data:
            peer.send(bytes([each]))
            await asyncio.sleep(0.05)

    dripped = asyncio.ensure_future(drip())
    try:
        return await cut(peer, begun_s)
    finally:
        dripped.cancel()


@attack(IN_TIME, "in time", not_asked=NOT_ASKED_SLOW)
async def a_silent_connection(target: Target) -> str:
    """Connects and says nothing."""
    return await cut(await target.connect(), time.monotonic())


@attack(IN_TIME, "tls failed", not_asked=NOT_ASKED_SLOW)
async def a_silent_tls_handshake(target: Target) -> str:
    """Connects with TLS and says nothing."""
    return await cut(await target.raw("TLS"), time.monotonic())


@attack(IN_TIME, "in time", not_asked="not asked: a byte a second was not cut in 53 s (measured once)")
async def a_byte_now_and_then(target: Target) -> str:
    """Sends a login byte by byte (Slowloris)."""
    return await dripping(await target.connect(), header(ApiKey.API_VERSIONS, 0, bytes(100)))


@attack(IN_TIME, "tls failed", not_asked="not asked: a byte a second was not cut in 75 s (measured once)")
async def a_byte_of_tls_now_and_then(target: Target) -> str:
    """Sends its TLS hello byte by byte."""
    return await dripping(await target.raw("TLS"), bytes.fromhex("160301020001 0001fc0303") + bytes(500))


@attack(IN_TIME, "in time", not_asked=NOT_ASKED_SLOW)
async def half_a_login(target: Target) -> str:
    """Asks for a salt and never proves anything."""
    begun_s = time.monotonic()
    peer = await target.connect()
    await peer.ask(*handshake("SCRAM-SHA-256"))
    await peer.ask(*token(b"n,,n=sam,r=abc"))
    return await cut(peer, begun_s)


@attack(
    f"{PER_ADDRESS} stay, the oldest made room",
    not_asked=NOT_ASKED_OURS + " (`max.connections.per.ip` counts users too)",
)
async def many_connections_of_an_address(target: Target) -> str:
    """Thirty silent connections from one address."""
    peers = [await target.connect() for _ in range(3 * PER_ADDRESS)]
    while strangers(target) > PER_ADDRESS:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)
    count = strangers(target)
    is_closed = await peers[0].is_closed()
    for each in peers:
        each.close()
    return f"{count} stay, {'the oldest made room' if is_closed else 'the oldest is there'}"


@attack(
    "nothing was taken", not_asked="not asked: it takes the memory at once, +44 MiB for 100 x 500 kB (measured once)"
)
async def announced_frames(target: Target) -> str:
    """Announces half a megabyte on each connection, and sends two bytes of it."""
    assert target.broker is not None
    peers = [await target.connect() for _ in range(PER_ADDRESS)]
    for each in peers:
        each.send(struct.pack(">i", 500_000) + b"ab")
    await asyncio.sleep(0.05)
    held_bytes = target.broker.server.strangers._total_bytes
    for each in peers:
        each.close()
    return "nothing was taken" if held_bytes < 1_000 else f"{held_bytes} bytes"


@attack("bounded in all", not_asked=NOT_ASKED_OURS)
async def half_sent_frames(target: Target) -> str:
    """Sends all but the last byte of half a megabyte on each of ten connections."""
    assert target.broker is not None
    peers = [await target.connect() for _ in range(PER_ADDRESS)]
    most = hits = looks = 0
    for each in peers:
        each.send(struct.pack(">i", 500_000) + bytes(499_999))
    while looks < 20 or (not hits and looks < 1_000):  # a busy machine takes its time to receive five megabytes
        await asyncio.sleep(0.01)
        most = max(most, target.broker.server.strangers._total_bytes)
        hits = target.broker.metrics.limit_hits("oncelog.max.unauthenticated.bytes")
        looks += 1
    for each in peers:
        each.close()
    return "bounded in all" if most <= HELD_BYTES + 500_000 and hits else f"{most} bytes, {hits} hits"


@attack("later and later, up to five seconds")
async def a_guesser(target: Target) -> str:
    """Guesses passwords as fast as it is told that they are wrong, each on a connection of its own."""
    times = []
    for _ in range(32):
        begun_s = time.monotonic()
        peer = await target.connect()
        await peer.ask(*handshake())
        peer.post(*plain("alice", "guess"))
        await peer.frame()
        times.append(time.monotonic() - begun_s)
        if times[-1] > 0.25:
            break
    return "later and later, up to five seconds" if times[-1] > 0.25 else "as fast as ever"


@attack("asked at most once", not_asked=NOT_ASKED_OURS)
async def unknown_keys(target: Target) -> str:
    """Tokens under ten unknown keys: each could have the provider asked."""
    assert target.broker is not None
    before = target.broker.metrics.count("oauthbearer_key_sets")
    for number in range(10):
        peer = await target.connect()
        await peer.ask(*handshake("OAUTHBEARER"))
        made = signed(header={"kid": f"unknown-{number}"})
        target.secrets.add(made)
        await peer.ask(*token(message(made)))
        peer.close()
    asked = target.broker.metrics.count("oauthbearer_key_sets") - before
    return "asked at most once" if asked <= 1 else f"asked {asked} times"


@attack(CLOSED)
async def never_reads_its_answers(target: Target) -> str:
    """Asks for versions twenty thousand times in a row and reads nothing."""
    peer = await target.connect()
    try:
        for _ in range(20):
            peer.send(header(ApiKey.API_VERSIONS, 0) * 1_000)
            await asyncio.sleep(0)
    except OSError:
        return CLOSED
    return CLOSED if await peer.is_closed() else "open"

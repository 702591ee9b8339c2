"""`make reload`: certificates exchanged again and again while clients come, ask and stay; no request fails, no old ticket holds.

After each exchange a ticket from before it is offered again (TLS 1.2, where it comes with the handshake, and 1.3): it must not
resume, and a new connection must see the new certificate.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from evidence.attacks.peer import Peer
from evidence.attacks.target import Files, Target, ours

RELOADS = 100
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
SOURCE = "127.0.0.1"


@dataclass
class Figures:
    """What was seen."""

    reloads: int = 0
    requests: int = 0
    connections: int = 0
    failures: int = 0
    tickets: int = 0
    resumed: int = 0  # of a ticket from before an exchange
    old_certificates: int = 0  # shown after one
    seconds: float = 0.0

    def faults(self) -> list[str]:
        """What should not be."""
        named = {
            "failures": self.failures,
            "old tickets resumed": self.resumed,
            "old certificates": self.old_certificates,
        }
        return [f"{count} {name}" for name, count in named.items() if count]


def offered(address: tuple[str, int], ca: str, version: ssl.TLSVersion, before: _Ticket | None) -> _Ticket:
    """A handshake that offers a ticket, and what it got: blocking, of a worker thread."""
    context = before.context if before is not None else ssl.create_default_context(cafile=ca)
    context.minimum_version = context.maximum_version = version
    raw = socket.create_connection(address, 20)
    session = before.session if before is not None else None
    with context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as secured:
        secured.sendall(
            bytes.fromhex("0000000a0012000000000001ffff")
        )  # ApiVersions: tickets of TLS 1.3 come with what is read
        secured.recv(4)
        certificate = secured.getpeercert(binary_form=True) or b""
        return _Ticket(context, secured.session, bool(secured.session_reused), certificate)


@dataclass(frozen=True)
class _Ticket:
    context: ssl.SSLContext
    session: ssl.SSLSession | None
    is_resumed: bool
    certificate: bytes


class _Clients:
    """Healthy ones: one that stays, and some that come anew for each request."""

    def __init__(self, target: Target, figures: Figures) -> None:
        self._target, self._figures = target, figures
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._tasks = [asyncio.ensure_future(each()) for each in (self._stay, self._come, self._come)]

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _connected(self) -> Peer:
        self._figures.connections += 1
        return await Peer.connect(self._target.addresses["TLS"], SOURCE, self._target.files.context())

    async def _ask(self, peer: Peer) -> None:
        self._figures.requests += 1
        self._figures.failures += not await peer.is_served()

    async def _stay(self) -> None:
        peer = await self._connected()
        while not self._is_over:
            await self._ask(peer)
            await asyncio.sleep(0)
        peer.close()

    async def _come(self) -> None:
        while not self._is_over:
            try:
                peer = await self._connected()
                await self._ask(peer)
                peer.close()
            except OSError:
                self._figures.failures += 1


async def run(count: int, directory: pathlib.Path) -> Figures:
    """Exchange the certificate so often."""
    files, figures = Files(directory), Figures()
    loop = asyncio.get_running_loop()
    store = pathlib.Path(files.broker)
    begun_s = time.monotonic()
    async with ours(files, oncelog_max_unauthenticated_connections_per_ip=500) as target:
        assert target.broker is not None
        handshakes = target.broker.server._secured._tls
        async with _Clients(target, figures):
            for number in range(count):
                address = target.addresses["TLS"]
                version = VERSIONS[number % 2]
                first = await loop.run_in_executor(None, offered, address, files.ca, version, None)
                again = await loop.run_in_executor(None, offered, address, files.ca, version, first)
                assert again.is_resumed, "a ticket holds while nothing is exchanged, or this shows nothing"
                signed = files.authority.sign(f"broker-{number}", ["localhost", "127.0.0.1"])
                new = store.with_suffix(".new")
                new.write_text(signed.key + signed.chain)
                new.chmod(0o600)
                new.replace(store)
                for each in handshakes:
                    each.reload()
                figures.reloads += 1
                figures.tickets += 1
                after = await loop.run_in_executor(None, offered, address, files.ca, version, again)
                figures.resumed += after.is_resumed
                figures.old_certificates += after.certificate == first.certificate
        counted = target.broker.metrics.count("tls_reloads")
        assert counted == count * len(handshakes), f"the broker counted {counted} of {count * len(handshakes)}"
    figures.seconds = time.monotonic() - begun_s
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make reload")
    parser.add_argument("--reloads", type=int, default=RELOADS)
    count: int = parser.parse_args(arguments).reloads
    with tempfile.TemporaryDirectory(prefix="oncelog-reload-") as directory:
        found = asyncio.run(run(count, pathlib.Path(directory)))
    faults = found.faults()
    print(
        f"reload: {found.reloads} exchanges of certificates under {found.requests} requests"
        f" and {found.connections} connections"
        f" in {found.seconds:.0f} s: {found.failures} failed;"
        f" {found.tickets} tickets from before offered: {found.resumed} resumed"
        + (f", FAILED: {', '.join(faults)}" if faults else "")
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""`make exhaustion`: crowds before a broker's door, and what a user who has come in waits meanwhile.

A broker of its own process, with the bounds as they come (500 connections that nobody knows, 50 of an address). A bystander
writes one record after the other, synced, and is timed: first alone, then beside each crowd, which is another process: 1,000
connections that never log in (half of them silent in TLS), 1,000 that send a byte a second, 1,000 wrong passwords a second.
All share the machine; the crowd gives way to the others, and must still do all it says (`made it` below).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from evidence.attacks.peer import Peer, handshake, plain
from evidence.world.broker import Client
from evidence.world.ports import free_port
from evidence.world.security import JAAS, USERS
from oncelog.host.certificate_authority import Authority

COUNT = 1_000
ADDRESSES = 40  # that a crowd comes from
PAUSE_S = 0.002  # of the bystander between two records
RATIO_MAX = 3.0
MEMORY_MIB_MAX = 96.0  # 32 MiB of unauthenticated bytes, 500 connections, and TLS beside
CROWDS = {
    "silent": "1,000 connections that never log in",
    "slow": "1,000 connections of a byte a second",
    "guessing": "1,000 wrong passwords a second",
}


@dataclass(frozen=True, slots=True)
class Waits:
    """What the bystander waited, in ms, and the broker's memory, in MiB."""

    p50_ms: float
    p99_ms: float
    count: int
    memory_mib: float


@contextlib.asynccontextmanager
async def broker(directory: pathlib.Path) -> AsyncIterator[tuple[int, dict[str, tuple[str, int]]]]:
    """`oncelog serve` with SASL and SASL over TLS: its process id and addresses."""
    store = Authority().sign("broker", ["127.0.0.1"]).write(directory, "broker")
    addresses = {name: ("127.0.0.1", free_port()) for name in ("SASL", "SASLTLS")}
    properties = directory / "server.properties"
    properties.write_text(
        f"listeners={','.join(f'{name}://{host}:{port}' for name, (host, port) in addresses.items())}\n"
        "listener.security.protocol.map=SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL\n"
        f"sasl.enabled.mechanisms=PLAIN\nssl.keystore.location={store}\n"
        f"listener.name.sasl.plain.sasl.jaas.config={JAAS};\nlistener.name.sasltls.plain.sasl.jaas.config={JAAS};\n"
    )
    properties.chmod(0o600)
    arguments = ("-m", "oncelog", "serve", "--config", str(properties), "--data-dir", str(directory / "data"))
    log = (directory / "broker.log").open("w")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        words = (await process.stdout.readline()).decode().split()
        assert words[:1] == ["ready"], f"it did not start: {(directory / 'broker.log').read_text()[-800:]}"
        yield process.pid, addresses
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
        log.close()


def resident_mib(process_id: int) -> float:
    """Memory that a process has now."""
    for line in pathlib.Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


async def waits(peer: Peer, process_id: int, seconds: float) -> Waits:
    """Write for so long."""
    asked = Client.produce_request(None, "bystander", "x" * 100)  # type: ignore[arg-type]
    taken: list[float] = []
    memory_mib = resident_mib(process_id)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        begun_s = time.perf_counter()
        answer = await peer.ask(asked, 12)
        taken.append((time.perf_counter() - begun_s) * 1000)
        assert answer is not None, "the bystander was closed"
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        if len(taken) % 50 == 0:
            memory_mib = max(memory_mib, resident_mib(process_id))
        await asyncio.sleep(PAUSE_S)
    taken.sort()
    return Waits(taken[len(taken) // 2], taken[len(taken) * 99 // 100], len(taken), memory_mib)


# -- the crowds, each in a process of its own


def source(number: int) -> str:
    """The address of one of a crowd."""
    return f"127.0.9.{number % ADDRESSES + 1}"


class Crowd:
    """What it has done so far."""

    def __init__(self, addresses: dict[str, tuple[str, int]]) -> None:
        self._addresses = addresses
        self.connections = self.closed = self.failures_told = 0

    async def _connect(self, number: int, listener: str = "SASL") -> Peer | None:
        try:
            peer = await Peer.connect(self._addresses[listener], source(number))
        except OSError:
            return None
        self.connections += 1
        return peer

    async def silent(self, number: int) -> None:
        """Comes, says nothing, comes again when it is put out."""
        while True:
            peer = await self._connect(number, "SASLTLS" if number % 2 else "SASL")
            if peer is not None:
                await peer.read(1)
                peer.close()
                self.closed += 1
            await asyncio.sleep(1)

    async def slow(self, number: int) -> None:
        """A byte a second of a request that would be long."""
        while True:
            peer = await self._connect(number)
            while peer is not None:
                peer.send(b"\0")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        if await peer.read(1) is None:
                            peer.close()
                            self.closed += 1
                            peer = None
            await asyncio.sleep(1)

    async def guess(self, number: int) -> None:
        """One wrong password, and the answer to it."""
        peer = await self._connect(number)
        if peer is not None:
            peer.post(*handshake())
            peer.post(*plain("alice", f"guess-{number}"))
            await peer.frame()
            if await peer.frame() is not None:
                self.failures_told += 1
            peer.close()
            self.closed += 1

    async def run(self, kind: str, seconds: float) -> None:
        """All of it, for so long."""
        until_s = time.monotonic() + seconds
        if kind != "guessing":
            do = {"silent": self.silent, "slow": self.slow}[kind]
            tasks = {asyncio.ensure_future(do(number)) for number in range(COUNT)}
            await asyncio.sleep(seconds)
        else:
            tasks, number = set(), 0
            begun_s = time.monotonic()
            while time.monotonic() < until_s:
                while number < (time.monotonic() - begun_s) * COUNT:
                    tasks.add(task := asyncio.ensure_future(self.guess(number)))
                    task.add_done_callback(tasks.discard)
                    number += 1
                await asyncio.sleep(0.005)
        for each in list(tasks):
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def crowd_main(kind: str, seconds: float, addresses: str) -> int:
    """The other process."""
    import uvloop

    os.nice(19)  # a crowd has its own machines: what this one takes of the bystander's is not the broker's doing
    crowd = Crowd({name: tuple(place) for name, place in json.loads(addresses).items()})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(crowd.run(kind, seconds))
    print(json.dumps({"connections": crowd.connections, "closed": crowd.closed, "told": crowd.failures_told}))
    return 0


# -- the whole


async def beside(kind: str, peer: Peer, process_id: int, addresses: dict[str, tuple[str, int]], seconds: float):  # type: ignore[no-untyped-def]
    """What the bystander waits beside a crowd, and what the crowd did. The first second, while it gathers, is timed too."""
    command = [sys.executable, "-m", "evidence.attacks.crowds", "--crowd", kind, "--seconds", str(seconds + 2)]
    process = await asyncio.create_subprocess_exec(
        *command, "--addresses", json.dumps(addresses), stdout=subprocess.PIPE
    )
    await asyncio.sleep(1)  # until it is there
    found = await waits(peer, process_id, seconds)
    told, _ = await process.communicate()
    return found, json.loads(told)


async def measured(seconds: float) -> int:
    """Print what was seen; 1 where a bound is broken."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="oncelog-exhaustion-") as directory:
        async with broker(pathlib.Path(directory)) as (process_id, addresses):
            peer = await Peer.connect(addresses["SASL"], "127.0.0.1")
            assert (await peer.log_in("alice", USERS["alice"])).error_code == 0
            from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

            topic = CreatableTopic(name="bystander", num_partitions=1, replication_factor=1)
            await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
            await waits(peer, process_id, 2)  # warm
            print(f"exhaustion: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before; {seconds:g} s each")
            for kind, what in CROWDS.items():
                calm = await waits(peer, process_id, seconds)
                found, told = await beside(kind, peer, process_id, addresses, seconds)
                ratio = found.p99_ms / calm.p99_ms
                grown_mib = found.memory_mib - calm.memory_mib
                print(
                    f"exhaustion: {what}: p50 {calm.p50_ms:.2f} -> {found.p50_ms:.2f} ms,"
                    f" p99 {calm.p99_ms:.2f} -> {found.p99_ms:.2f} ms"
                    f" ({ratio:.1f}x), memory {calm.memory_mib:.0f} -> {found.memory_mib:.0f} MiB;"
                    f" it made {told['connections']} connections, {told['told']} of its passwords were answered",
                    flush=True,
                )
                if ratio > RATIO_MAX:
                    faults.append(f"{kind}: p99 {ratio:.1f}x")
                if grown_mib > MEMORY_MIB_MAX:
                    faults.append(f"{kind}: {grown_mib:.0f} MiB more")
            peer.close()
    print(f"exhaustion: {len(CROWDS)} crowds" + (f", FAILED: {'; '.join(faults)}" if faults else ", each bound holds"))
    return 1 if faults else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make exhaustion")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each measurement")
    parser.add_argument("--crowd", default="", choices=("", *CROWDS), help="be a crowd")
    parser.add_argument("--addresses", default="")
    asked = parser.parse_args(arguments)
    if asked.crowd:
        return crowd_main(asked.crowd, asked.seconds, asked.addresses)
    return asyncio.run(measured(asked.seconds))


if __name__ == "__main__":
    sys.exit(main())

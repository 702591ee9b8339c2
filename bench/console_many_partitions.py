"""What the console costs on a cluster of 10,000 topics with 4 partitions each: its memory, and the time of each page.

    python -m bench.console_many_partitions [TOPICS]

The console is a process of its own (`VmHWM` is its peak), asked over HTTP; the broker is another.
"""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import sys
import time
from pathlib import Path

from oncelog import Admin
from oncelog.client.admin.topics import NewTopic
from oncelog.testing import TestBroker

PARTITIONS = 4
AT_ONCE = 500
ROUNDS = 5
BEING_READ = 202
AGAIN_S = 0.5
PAGES = (
    "topics",
    "topics?contains=9999",
    "topics?topic=t-00042",
    "records?topic=t-00042",
    "history",
    "overview",
    "lanes",
)


async def create(servers: str, count: int) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        for first in range(0, count, AT_ONCE):
            names = range(first, min(count, first + AT_ONCE))
            await admin.create_topics([NewTopic(f"t-{n:05}", PARTITIONS, 1, {}) for n in names])


def peak_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def asked(port: int, page: str) -> tuple[int, float, int]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    begin = time.perf_counter()
    connection.request("GET", f"/api/v1/{page}")
    answer = connection.getresponse()
    size = len(answer.read())
    return answer.status, time.perf_counter() - begin, size


def main(count: int) -> None:
    with TestBroker({"max.incremental.fetch.session.cache.slots": "10"}) as broker:
        begin = time.perf_counter()
        asyncio.run(create(broker.bootstrap_servers, count))
        print(f"{count * PARTITIONS} partitions made in {time.perf_counter() - begin:.0f} s", flush=True)
        command = [
            sys.executable,
            "-m",
            "oncelog",
            "-b",
            broker.bootstrap_servers,
            "console",
            "--listen",
            "127.0.0.1:0",
        ]
        console = subprocess.Popen([*command, "--i-know-this-is-open"], stdout=subprocess.PIPE, text=True)
        try:
            assert console.stdout is not None
            port = int(console.stdout.readline().strip().rstrip("/").rpartition(":")[2])
            for page in PAGES:
                times = []
                begin = time.perf_counter()
                status, first, size = asked(port, page)
                while status == BEING_READ:
                    time.sleep(AGAIN_S)
                    status, _, size = asked(port, page)
                whole = time.perf_counter() - begin
                for _ in range(ROUNDS):
                    status, seconds, size = asked(port, page)
                    times.append(seconds)
                told = f"first answer {first:.2f} s, all of it {whole:.2f} s, then {min(times):.2f} s"
                print(f"{page}: {status}, {told}, {size} bytes; peak {peak_mib(console.pid):.0f} MiB", flush=True)
        finally:
            console.terminate()
            console.wait(20)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

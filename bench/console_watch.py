"""What watching costs a broker: `python -m bench.console_watch [--seconds 20] [--groups 400]`.

A broker, a topic of 20 partitions with a writer that commits ten times a second; its CPU time while nobody watches, then while
one page does: Lanes (the console's stream of events); with `--groups` the page Overview, where so many groups have positions of
all partitions. Prints both as shares of a core, and the difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

from oncelog import Admin, Producer, TopicPartition

PARTITIONS = 20
POLLER = """import sys, time, urllib.request
while True:
    request = urllib.request.Request(sys.argv[1], headers={"cookie": sys.argv[2]})
    print(len(urllib.request.urlopen(request).read()), flush=True)
    time.sleep(5)
"""
READER = """import sys, urllib.request
for line in urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={"cookie": sys.argv[2]})):
    if line.startswith(b"data"):
        print(len(line), flush=True)
"""


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def write(servers: str, until: asyncio.Event) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id="writer") as producer:
        number = 0
        while not until.is_set():
            producer.begin_transaction()
            await producer.send("watched", b"x" * 200, partition=number % PARTITIONS)
            await producer.commit_transaction()
            number += 1
            await asyncio.sleep(0.1)


def page(link: str, *, is_overview: bool) -> subprocess.Popen[bytes]:
    """What a page asks for, read by a process of its own."""
    url, token = link.split("#token=")
    headers = {"content-type": "application/json", "x-oncelog-console": "1"}
    request = urllib.request.Request(f"{url}api/v1/session", json.dumps({"token": token}).encode(), headers)
    cookie = urllib.request.urlopen(request).headers["set-cookie"].split(";")[0]
    path = "overview" if is_overview else "events?topic=watched&window_ms=75000"
    reader = POLLER if is_overview else READER
    return subprocess.Popen([sys.executable, "-c", reader, f"{url}api/v1/{path}", cookie], stdout=subprocess.PIPE)


def started(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A process of `oncelog`, and the address that its first line says."""
    command = [sys.executable, "-m", "oncelog", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1]


async def main(seconds: int, group_count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        broker, servers = started("serve", "--data-dir", directory, "--listen", "127.0.0.1:0")
        console, link = started("-b", servers, "console", "--listen", "127.0.0.1:0")
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.create_topics([("watched", PARTITIONS)])
            positions = {TopicPartition("watched", number): 0 for number in range(PARTITIONS)}
            for number in range(group_count):
                await admin.alter_consumer_group_offsets(f"group-{number:05}", positions)
        until = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(write(servers, until))
            await asyncio.sleep(3)
            alone, _ = await share(seconds, broker.pid, console.pid)
            watcher = await asyncio.to_thread(page, link, is_overview=group_count > 0)
            await asyncio.sleep(3)
            watched, own = await share(seconds, broker.pid, console.pid)
            until.set()
        for process in (watcher, console, broker):
            process.terminate()
            process.wait()
        assert watcher.stdout is not None
        sizes = [int(each) for each in watcher.stdout.read().split()]
        print(f"{len(sizes)} answers, {sum(sizes) // max(1, len(sizes))} bytes each")
        print(
            f"broker alone {alone:.1%} of a core, watched {watched:.1%}: {watched - alone:+.1%}; the console itself {own:.1%}"
        )


async def share(seconds: int, *pids: int) -> tuple[float, ...]:
    before, begin = [cpu_seconds(each) for each in pids], time.monotonic()
    await asyncio.sleep(seconds)
    length = time.monotonic() - begin
    return tuple((cpu_seconds(pid) - was) / length for pid, was in zip(pids, before, strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--groups", type=int, default=0)
    given = parser.parse_args()
    asyncio.run(main(given.seconds, given.groups))

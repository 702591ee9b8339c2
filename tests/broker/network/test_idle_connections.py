"""2,000 idle connections to an `oncelog serve` of its own: what each costs, and that the end does not wait for them."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys

import pytest

from oncelog.wire.api import ApiKey
from oncelog.wire.frame import FrameReader, encode_request
from oncelog.wire.messages.api_versions import ApiVersionsRequest

CONNECTIONS = 2_000
BYTES_MAX = 40 * 1024
HANG_S = 600


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def greeted(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=HANG_S)
    request = ApiVersionsRequest(client_software_name="idle", client_software_version="1")
    connection.sendall(b"".join(encode_request(ApiKey.API_VERSIONS, 3, 1, "idle", request)))
    reader = FrameReader()
    while not reader.receive(connection.recv(65536)):
        pass
    return connection


@pytest.mark.slow
def test_an_idle_connection_costs_less_than_40_kb(tmp_path):
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < CONNECTIONS + 200:
        pytest.skip(f"{CONNECTIONS} connections need more than {limit} file descriptors (ulimit -n)")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    command = [
        sys.executable,
        "-m",
        "oncelog",
        "serve",
        "--data-dir",
        str(tmp_path / "data"),
        "--listen",
        "127.0.0.1:0",
    ]
    connections: list[socket.socket] = []
    errors = tmp_path / "errors"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as server,
    ):
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().decode().split()[1].rpartition(":")[2])
            connections += [greeted(port) for _ in range(50)]  # what is imported and made once
            base = resident_bytes(server.pid)
            connections += [greeted(port) for _ in range(CONNECTIONS - 50)]
            each_bytes = (resident_bytes(server.pid) - base) / (CONNECTIONS - 50)
            print(f"{each_bytes / 1024:.1f} KB per idle connection")
            assert each_bytes <= BYTES_MAX
            server.terminate()
            assert server.wait(HANG_S) == 0
            assert "are cut" not in errors.read_text(), "the end waited for them until its timeout"
        finally:
            server.kill()
            for connection in connections:
                connection.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

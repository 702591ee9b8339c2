"""`oncelog serve` as a child process on a fixed port: started, killed, and asked how soon it takes a record again."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
import time

from evidence.world.ports import free_port
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch

START_TIMEOUT_S = 120.0  # for a hang
PRODUCE_VERSION = 9


class BrokerFailed(AssertionError):
    """The broker did not come (back)."""


class BrokerProcess:
    """The broker child. `module` is what `python -m` runs: the real one, or one with a planted defect.

    `config` are "key=value" texts.
    """

    def __init__(
        self, folder: pathlib.Path, module: tuple[str, ...] = ("oncelog",), config: tuple[str, ...] = ()
    ) -> None:
        self._config = ("transaction.two.phase.commit.enable=true", "log.segment.bytes=1048576", *config)
        self.data = folder / "data"
        self._log = folder / "broker.log"
        self._module = module
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.config: dict[str, str] = {}
        self.process: subprocess.Popen[bytes]
        self.launched_at = 0.0

    def launch(self) -> None:
        """Start without waiting."""
        command = [
            *(sys.executable, "-m", *self._module, "serve"),
            *("--data-dir", str(self.data), "--listen", self.bootstrap),
            *(argument for pair in self._config for argument in ("-c", pair)),
            *(part for key, value in self.config.items() for part in ("-c", f"{key}={value}")),
        ]
        with self._log.open("ab") as log:
            self.launched_at = time.monotonic()
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)

    def wait_ready(self) -> float:
        """Seconds from launch to the line that says it is ready. Raises BrokerFailed."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith(b"ready "):
            raise BrokerFailed(f"the broker did not start: {self.last_words()}")
        return time.monotonic() - self.launched_at

    def first_produce(self, topic: str, value: int) -> tuple[float, int]:
        """Seconds from launch to an acknowledged record, and its offset. Raises BrokerFailed."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                error_code, offset = produce_once(self.port, topic, value)
            except OSError:
                time.sleep(0.005)
                continue
            if error_code is ErrorCode.NONE:
                return time.monotonic() - self.launched_at, offset
            raise BrokerFailed(f"a record was refused with {error_code.name}: {self.last_words()}")
        raise BrokerFailed(f"no record taken in {START_TIMEOUT_S} s: {self.last_words()}")

    def waited_s(self) -> float:
        """Seconds in which the broker could run and had no processor: what the machine's other load costs it."""
        try:
            text = pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text(encoding="ascii")
        except OSError:
            return 0.0
        return int(text.split()[1]) / 1e9

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.terminate()
        try:
            status = self.process.wait(START_TIMEOUT_S)
        finally:
            self.kill()
        return status

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").strip().splitlines()[-12:])


def produce_once(port: int, topic: str, value: int) -> tuple[ErrorCode, int]:
    """One record over a connection of its own, without any client's back-off. Raises OSError."""
    batch = build_batch([(time.time_ns() // 1_000_000, None, b"%d" % value, ())])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    with socket.create_connection(("127.0.0.1", port), timeout=START_TIMEOUT_S) as connection:
        connection.sendall(b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "probe", request)))
        reader = FrameReader()
        while True:
            received = connection.recv(65536)
            if not received:
                raise ConnectionResetError("closed by the broker")
            for frame in reader.receive(received):
                _, reply = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, frame)
                answer = reply.responses[0].partition_responses[0]
                return ErrorCode(answer.error_code), answer.base_offset

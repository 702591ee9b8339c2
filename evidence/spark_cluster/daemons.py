"""Master and workers of a standalone cluster: processes that are killed and started again."""

from __future__ import annotations

import os
import pathlib
import subprocess
import time
from typing import Self

import pyspark

SPARK_HOME = pathlib.Path(pyspark.__file__).parent
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
START_S = 600  # on a machine that has much else to do


class Daemon:
    """A process of Spark's; `with` starts and stops it."""

    def __init__(self, log: pathlib.Path, ready: str, *command: str, home: pathlib.Path = SPARK_HOME) -> None:
        self._log, self._ready, self._command, self.home = log, ready, command, home
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def process_id(self) -> int:
        """Of its present life."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> str:
        """Once its log has a line with `ready`; gives that line."""
        surroundings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        surroundings["SPARK_DAEMON_JAVA_OPTS"] = SMALL_JVM
        surroundings["SPARK_HOME"] = str(self.home)
        surroundings.pop("PYTHONPATH", None)
        with self._log.open("w") as output:
            self._process = subprocess.Popen(
                [self.home / "bin" / "spark-class", *self._command], stdout=output, stderr=output, env=surroundings
            )
        ends = time.monotonic() + START_S
        while not (found := [line for line in self._log.read_text().splitlines() if self._ready in line]):
            if self._process.poll() is not None or time.monotonic() > ends:
                self.stop()
                raise SystemExit(f"spark-cluster: {self._command[0]} did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.2)
        return found[0]

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL where that takes too long."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()


def home_without_zip(folder: pathlib.Path) -> pathlib.Path:
    """A SPARK_HOME whose Python processes take pyspark from site-packages: from `pyspark.zip`, which has no compiled files, each
    starts with three times the work, and Spark gives it ten seconds."""
    home = folder / "spark"
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(SPARK_HOME / name)
    return home


HERE = ("--host", "127.0.0.1", "--webui-port", "0")
DEPLOY = "org.apache.spark.deploy"


def master(folder: pathlib.Path) -> Daemon:
    """Its first line ends with its address (`address_in`)."""
    command = (f"{DEPLOY}.master.Master", *HERE, "--port", "0")
    return Daemon(folder / "master.log", "Starting Spark master at", *command)


def address_in(line: str) -> str:
    """The master's address."""
    return line.rpartition(" at ")[2].strip()


def worker(
    folder: pathlib.Path,
    work: pathlib.Path,
    master_address: str,
    host: str = "127.0.0.1",
    home: pathlib.Path = SPARK_HOME,
) -> Daemon:
    """A worker; Spark speculates only where workers have different hosts, and all of 127.0.0.0/8 is this machine."""
    size = ("--cores", "2", "--memory", "1g", "--work-dir", str(work))
    command = (f"{DEPLOY}.worker.Worker", "--host", host, "--webui-port", "0", *size, master_address)
    return Daemon(folder / f"worker-{host}.log", "Successfully registered", *command, home=home)

"""The clients' programs: what each needs, how it is made ready (downloads go to build/compat), and how it is started."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from evidence.differential.brokers import kafka_launcher

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path("build/compat").absolute()
PREPARE_S = 600


class Missing(Exception):
    """The client cannot be had here; the reason says what is missing."""


@dataclass(frozen=True)
class Program:
    """A client ready to run: `[*command, BOOTSTRAP, PREFIX]`."""

    command: list[str]
    version: str


def run(command: list[str], directory: pathlib.Path, **environment: str) -> str:
    """A step of preparation; what it printed. Raises Missing with the end of what it said."""
    done = subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, timeout=PREPARE_S
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise Missing(f"`{' '.join(command[:3])}` failed: {' / '.join(said[-3:])}")
    return done.stdout


def needs(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            raise Missing(f"no {tool} here")


def _python(module: str, distribution: str) -> Program:
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise Missing(f"{distribution} is not installed") from None
    if module == "confluent_kafka":
        import confluent_kafka

        version += f" (librdkafka {confluent_kafka.libversion()[0]})"
    return Program([sys.executable, "-m", f"evidence.compat.clients.with_{module}"], version)


def _kafkajs() -> Program:
    needs("node", "npm")
    directory = BUILD / "kafkajs"
    directory.mkdir(parents=True, exist_ok=True)
    for file in (HERE / "kafkajs").iterdir():
        if file.is_file():
            shutil.copy(file, directory)
    lock = (HERE / "kafkajs" / "package-lock.json").read_text()
    installed = directory / ".installed"
    if not installed.exists() or installed.read_text() != lock:
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)
        installed.write_text(lock)
    version = json.loads(lock)["packages"]["node_modules/kafkajs"]["version"]
    return Program(["node", str(directory / "program.js")], version)


def _go(client: str, module: str) -> Program:
    needs("go")
    (BUILD / "go").mkdir(parents=True, exist_ok=True)
    binary = BUILD / "go" / "program"
    flags = {"GOFLAGS": "-modcacherw -mod=readonly -buildvcs=false", "GOMODCACHE": str(BUILD / "go" / "modules")}
    run(["go", "build", "-o", str(binary), "."], HERE / "go", **flags)
    version = run(["go", "list", "-m", "-f", "{{.Version}}", module], HERE / "go", **flags).strip().removeprefix("v")
    return Program([str(binary), client], version)


def _java() -> Program:
    needs("java", "javac")
    if kafka_launcher() is None:
        raise Missing("Apache Kafka's jars need Java 17 and mvn")
    classes = BUILD / "java"
    classes.mkdir(parents=True, exist_ok=True)
    path = f"{kafka_jars()}/*"
    run(["javac", "-cp", path, "-d", str(classes), "Program.java"], HERE / "java")
    version = next(kafka_jars().glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")
    return Program(["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{classes}:{path}", "Program"], version)


def kafka_jars() -> pathlib.Path:
    """Where the launcher keeps Apache Kafka's jars."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return cache / "oracle-apache-kafka" / os.environ.get("KAFKA_VERSION", "4.3.0")


PROGRAMS: dict[str, Callable[[], Program]] = {
    "confluent-kafka": lambda: _python("confluent_kafka", "confluent-kafka"),
    "kafka-python": lambda: _python("kafka_python", "kafka-python"),
    "aiokafka": lambda: _python("aiokafka", "aiokafka"),
    "kafkajs": _kafkajs,
    "Java kafka-clients": _java,
    "franz-go": lambda: _go("franz-go", "github.com/twmb/franz-go"),
    "sarama": lambda: _go("sarama", "github.com/IBM/sarama"),
    "oncelog": lambda: _python("oncelog", "oncelog"),
}

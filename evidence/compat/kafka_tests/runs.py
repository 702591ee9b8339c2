"""Which of Kafka's tests are run, and how: jars by Maven, our few classes by javac, the tests by JUnit."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from evidence.compat.clients.programs import BUILD, Missing, needs, run

HERE = pathlib.Path(__file__).parent
VERSION = "4.3.0"
SHARE_CONSUMER = "org.apache.kafka:kafka_2.13:4.0.0:jar:test"  # the last release whose ShareConsumerTest Maven has
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8")
LOGGING = """<Configuration status="off"><Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="[%d] %p %m (%c)%n%throwable"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="err"/></Root></Loggers></Configuration>
"""  # noqa: E501
NOT_TOLD = re.compile(r"\(String\)| without a persister$|persister=org\.apache\.kafka\.server\.share\.persister\.")
RUN_S = 3600
TOOLS = "org.apache.kafka.tools"
# Methods whose consumers say `accept`, `release` or `reject` of each record; 4.0 found that out by itself.
EXPLICIT = (
    "testExplicitAcknowledgeSuccess", "testExplicitAcknowledgeCommitSuccess", "testExplicitAcknowledgementCommitAsync",
    "testImplicitModeNotTriggeredByPollWhenNoAcksToSend", "testExplicitAcknowledgementCommitAsyncPartialBatch",
    "testExplicitAcknowledgeReleasePollAccept", "testExplicitAcknowledgeReleaseAccept",
    "testExplicitAcknowledgeReleaseClose", "testExplicitAcknowledgeThrowsNotInBatch",
)  # fmt: skip


@dataclass(frozen=True)
class Suite:
    """Test classes that run in one JVM."""

    about: str
    classes: tuple[str, ...]
    methods: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    mode: str = ""


SUITES = {
    "share-consumer": Suite("share", ("kafka.test.api.ShareConsumerTest",), but=EXPLICIT, mode="implicit"),
    "share-consumer-explicit": Suite("share", ("kafka.test.api.ShareConsumerTest",), EXPLICIT, mode="explicit"),
    "share-requests": Suite(
        "share",
        (
            "kafka.server.ShareFetchAcknowledgeRequestTest",
            "kafka.server.ShareGroupHeartbeatRequestTest",
            "kafka.server.ShareGroupDescribeRequestTest",
        ),
    ),
    "streams-requests": Suite(
        "streams", ("kafka.server.StreamsGroupHeartbeatRequestTest", "kafka.server.StreamsGroupDescribeRequestTest")
    ),
    "streams-tools": Suite(
        "streams",
        tuple(
            f"{TOOLS}.streams.{name}"
            for name in (
                "ListStreamsGroupTest",
                "DescribeStreamsGroupTest",
                "DeleteStreamsGroupTest",
                "DeleteStreamsGroupOffsetTest",
                "ResetStreamsGroupOffsetTest",
            )
        ),
    ),
}


@dataclass(frozen=True)
class Result:
    """Of one test, or one invocation of it."""

    status: str
    seconds: float
    test: str
    reason: str


class KafkasTests:
    """Jars and classes, in build/compat/kafka-tests."""

    def __init__(self) -> None:
        """Raises Missing where Java, Maven or a jar cannot be had."""
        needs("java", "javac", "mvn")
        self._directory = BUILD / "kafka-tests"
        self._jars, self._older = self._directory / "jars", self._directory / "jars-4.0"
        self._fetch()
        for name, path in (
            ("harness", f"{self._jars}/*"),
            ("share_consumer", f"{self._classes('harness')}:{self._jars}/*"),
            ("apache", f"{self._jars}/*"),
        ):
            sources = [str(each) for each in sorted((HERE / "java" / name).rglob("*.java"))]
            run(["javac", "-cp", path, "-d", str(self._classes(name)), *sources], HERE)
        services = pathlib.Path("META-INF", "services")
        shutil.copytree(HERE / "java" / "harness" / services, self._classes("harness") / services, dirs_exist_ok=True)
        (self._directory / "log4j2.xml").write_text(LOGGING)

    def _fetch(self) -> None:
        pom = (HERE / "pom.xml").read_text()
        fetched = self._directory / ".fetched"
        if fetched.exists() and fetched.read_text() == pom + SHARE_CONSUMER:
            return
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        shutil.copy(HERE / "pom.xml", self._directory)
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={self._jars}"]
        run(copy, self._directory)
        older = ["mvn", "-q", "-B", COPY, f"-Dartifact={SHARE_CONSUMER}", f"-DoutputDirectory={self._older}"]
        run(older, self._directory)
        fetched.write_text(pom + SHARE_CONSUMER)

    def _classes(self, name: str) -> pathlib.Path:
        return self._directory / "classes" / name

    def results(self, name: str, against: str) -> pathlib.Path:
        """A line for each test of the last run of a suite."""
        return self._directory / f"{name}-{against}.tsv"

    def log(self, name: str) -> pathlib.Path:
        return self._directory / f"{name}.log"

    def apache_command(self) -> list[str]:
        """Apache Kafka by its own test kit, none of our classes in the place of its own."""
        return ["java", *OPTIONS, self._logging(), "-cp", f"{self._classes('apache')}:{self._jars}/*", "ApacheClusters"]

    def _logging(self) -> str:
        return f"-Dlog4j2.configurationFile={self._directory / 'log4j2.xml'}"

    def run(self, name: str, port: int, against: str, methods: tuple[str, ...] = ()) -> Iterator[Result]:
        """Run a suite whose tests ask for brokers at `port`; only what `methods` names, if it names any."""
        suite = SUITES[name]
        wanted = suite.methods
        if suite.but:
            wanted = tuple(f"-{each}" for each in suite.but)
        results = self.results(name, against)
        path = f"{self._classes('harness')}:{self._jars}/*"
        if suite.mode:
            older = next(self._older.glob("*.jar"))
            path = f"{self._classes('harness')}:{self._classes('share_consumer')}:{older}:{self._jars}/*"
        told = (f"-Doncelog.clusters={port}", f"-Doncelog.acknowledgement.mode={suite.mode}", self._logging())
        filters = (",".join(wanted), ",".join(methods))
        command = [
            "java",
            *OPTIONS,
            *told,
            "-cp",
            path,
            "oncelog.kafkatests.RunTests",
            str(results),
            *filters,
            *suite.classes,
        ]
        with self.log(f"{name}-{against}").open("wb") as log:
            ended = subprocess.run(command, stdout=log, stderr=log, timeout=RUN_S, env=os.environ, check=False)
        if ended.returncode or not results.exists():
            raise Missing(f"the JVM of {name} ended with {ended.returncode}: see {self.log(f'{name}-{against}')}")
        yield from read(results.read_text())


def read(text: str) -> Iterator[Result]:
    """The lines that `RunTests` writes."""
    for line in text.splitlines():
        status, took_ms, test_class, method, invocation, reason = line.split("\t")
        name = f"{test_class.rpartition('.')[2]}.{method}" if method else test_class.rpartition(".")[2]
        which = NOT_TOLD.sub("", invocation.removeprefix(method)).strip(" .()") if method else ""
        yield Result(status, int(took_ms) / 1000, f"{name} {which}".strip(), reason)

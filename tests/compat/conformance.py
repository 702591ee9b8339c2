"""`make conformance`: other people's clients and tools with oncelog, our clients with Apache Kafka, and Kafka's answers anew.

What cannot be had (Java, the jars) is left out, with its reason.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.differential.brokers import ApacheKafkaNode, kafka_launcher

CLIENTS = [f"tests/compat/test_{name}.py" for name in ("our_clients", "confluent_kafka", "kafka_python", "aiokafka")]
TOOLS = [
    "tests/compat/test_apache_reads_our_files.py",
    "tests/compat/test_cleans_as_apache.py",
    "tests/compat/test_apache_tools.py",
    "tests/compat/test_apache_tools_compared.py",
]


def pytest(*arguments: str, **environment: str) -> bool:
    """One pytest run, its closing line printed as ever; True when all passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-ra", *arguments]
    return subprocess.run(command, env=os.environ | environment).returncode == 0


@contextlib.contextmanager
def apache_kafka(launcher: str):
    """Where a fresh Apache Kafka listens."""
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-conformance-") as directory,
        ApacheKafkaNode(pathlib.Path(directory), launcher) as node,
    ):
        yield "{}:{}".format(*node.address)


def main() -> int:
    launcher = kafka_launcher()
    results = {"the recorded conversations": pytest("tests/differential")}
    if launcher is None:
        print("conformance: no Apache Kafka here (needs Java 17 and mvn): its tools and its own answers are left out")
        results["clients"] = pytest(*CLIENTS)
    else:
        with apache_kafka(launcher) as bootstrap_servers:
            results["clients, ours against Apache Kafka too"] = pytest(
                *CLIENTS, ONCELOG_KAFKA_BOOTSTRAP=bootstrap_servers
            )
        results["Apache Kafka's tools"] = pytest("-n", "2", "--dist", "loadfile", *TOOLS, ONCELOG_CONFORMANCE="1")
        again = subprocess.run([sys.executable, "-m", "tests.differential.record"])
        results["Apache Kafka's answers, anew"] = again.returncode == 0
    failed = [name for name, passed in results.items() if not passed]
    print(
        f"conformance: {len(results) - len(failed)} of {len(results)} parts passed"
        + "".join(f", FAILED {f}" for f in failed)
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

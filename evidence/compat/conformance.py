"""`make conformance`: other people's clients and tools with oncelog, our clients with Apache Kafka, and Kafka's answers anew.

What cannot be had (Java, the jars, node, go) is left out, with its reason, and counted as not run.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

from evidence.compat.servers import NOT_ALL_RUN
from evidence.differential.brokers import ApacheKafkaNode, kafka_launcher

CLIENTS = [
    f"evidence/compat/test_{name}.py"
    for name in ("our_clients", "injected_errors", "confluent_kafka", "kafka_python", "aiokafka")
]
TOOLS = [
    "evidence/compat/test_apache_reads_our_files.py",
    "evidence/compat/test_cleans_as_apache.py",
    "evidence/compat/test_apache_tools.py",
    "evidence/compat/test_apache_tools_compared.py",
]
LOGINS = [f"evidence/compat/test_{name}.py" for name in ("security", "oauthbearer", "delegation_tokens")]


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


def module(name: str, *arguments: str) -> bool | None:
    """`python -m name`: True when all of it passed, None when something of it could not be had."""
    status = subprocess.run([sys.executable, "-m", name, *arguments]).returncode
    return None if status == NOT_ALL_RUN else status == 0


def main() -> int:
    launcher = kafka_launcher()
    results: dict[str, bool | None] = {"the recorded conversations": pytest("evidence/differential")}
    if launcher is None:
        print("conformance: no Apache Kafka here (needs Java 17 and mvn): its tools and its own answers are left out")
        results["our clients"] = pytest(*CLIENTS)
        needing_it = (
            "decisions of Apache Kafka's authorizer",
            (
                "our clients against Apache Kafka",
                "Apache Kafka's tools",
                "logins and tokens, with Apache Kafka too",
            ),
        )
        results |= dict.fromkeys((*needing_it, "its answers, anew"))
    else:
        with apache_kafka(launcher) as bootstrap_servers:
            results["our clients, against Apache Kafka too"] = pytest(
                *CLIENTS, "tests/test_protocol_page.py", ONCELOG_KAFKA_BOOTSTRAP=bootstrap_servers
            )
        results["Apache Kafka's tools"] = pytest("-n", "2", "--dist", "loadfile", *TOOLS, ONCELOG_CONFORMANCE="1")
        results["logins and tokens, with Apache Kafka too"] = pytest(*LOGINS, ONCELOG_CONFORMANCE="1")
        results["decisions of Apache Kafka's authorizer"] = module("evidence.authorizer")
        results["attacks on Apache Kafka, anew"] = module("evidence.attacks.record", "--check")
        results["Apache Kafka's answers, anew"] = module("evidence.differential.record")
        results["both brokers, at random"] = module("evidence.differential.record", "--random", "50")
    results["attacks"] = pytest("evidence/attacks")
    results["other people's clients"] = module("evidence.compat.clients")
    results["other people's clients and tools, by every secured way"] = module("evidence.compat.clients.security")
    results["drills with SIGKILL"] = module("evidence.compat.drills")
    failed = [name for name, passed in results.items() if passed is False]
    left_out = [name for name, passed in results.items() if passed is None]
    print(
        f"conformance: {len(results) - len(failed) - len(left_out)} of {len(results)} parts passed"
        + "".join(f", NOT (ALL) RUN {name}" for name in left_out)
        + "".join(f", FAILED {name}" for name in failed)
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

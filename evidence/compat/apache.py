"""Runs Apache Kafka's own command-line tools (org.apache.kafka.tools.*) and gives what they print."""

from __future__ import annotations

import subprocess

from evidence.differential.brokers import kafka_launcher

TIMEOUT_S = 90
NOISE = (
    "SLF4J",
    "StatusLogger",
    "WARN No log4j",
    # how the console consumer says that nothing came any more
    "terminating consumer process",
    "org.apache.kafka.common.errors.TimeoutException",
)


class ApacheTools:
    """Each call is a Java process of its own: about a second."""

    def __init__(self, launcher, bootstrap_servers=None):
        self._launcher = launcher
        self._bootstrap = ["--bootstrap-server", bootstrap_servers] if bootstrap_servers else []

    def __call__(self, tool, *arguments, text="", status=0):
        """The lines of stdout of a tool of `org.apache.kafka.tools`; it must exit with `status`."""
        name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
        before, after = ([], self._bootstrap) if tool == "ClusterTool" else (self._bootstrap, [])
        command = [self._launcher, "tool", name, *before, *map(str, arguments), *after]
        run = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
        lines = [line for line in run.stdout.splitlines() if not any(word in line for word in NOISE)]
        assert run.returncode == status, "\n".join([" ".join(command), *lines[-20:], run.stderr[-2000:]])
        return lines


def find_launcher():
    """The launcher; skips the tests, with the reason, where there is none."""
    import pytest

    launcher = kafka_launcher()
    if launcher is None:
        pytest.skip("Apache Kafka's tools need Java 17 and mvn")
    return launcher

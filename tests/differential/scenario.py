"""The scenarios by name, and how one is run. One that restarts the broker yields before it: topic, partitions."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

from tests.differential.brokers import Node
from tests.differential.conversation import Conversation

Scenario = Callable[[Conversation], Iterator[tuple[str, int]] | None]
SCENARIOS: dict[str, tuple[str, Scenario]] = {}
RESTART = "restart"
RESTART_TIMEOUT_MS = 600_000
MODULES = (
    "administration",
    "defects",
    "groups",
    "identities",
    "malformed",
    "operators",
    "producing",
    "reading",
    "restarts",
    "transactions",
)


def scenario(tag: str) -> Callable[[Scenario], Scenario]:
    """Register under the function's name; `tag` says what kind of broker it needs."""

    def register(function: Scenario) -> Scenario:
        SCENARIOS[function.__name__] = (tag, function)
        return function

    return register


def all_scenarios() -> dict[str, tuple[str, Scenario]]:
    """All of them, loaded."""
    for module in MODULES:
        importlib.import_module(f"tests.differential.conversations_{module}")
    return SCENARIOS


def transcript(node: Node, name: str) -> list[str]:
    """Have one conversation with a broker; its lines."""
    tag, function = all_scenarios()[name]
    options = {"transaction_timeout_ms": RESTART_TIMEOUT_MS} if tag == RESTART else {}
    conversation = Conversation(*node.address, **options)
    try:
        steps = function(conversation)
        for topic, partitions in steps or ():
            node.stop()
            node.start()
            conversation.lines.append("# restart")
            conversation.address = node.address
            conversation.reconnect()
            conversation.wait_after_restart(topic, partitions)
    finally:
        conversation.close()
    return conversation.lines


def warm_up(node: Node) -> None:
    """Let the broker make its internal topics, as the recorded one had them all along."""
    conversation = Conversation(*node.address)
    try:
        conversation.find_group("g")
        conversation.call("FindCoordinator", 4, key_type=1, coordinator_keys=[conversation.name("t")])
        conversation.init("t")
    finally:
        conversation.close()


def as_file(title: str, found: dict[str, list[str]]) -> str:
    """What `sections` reads."""
    lines = [f"# {title}"]
    for name, said in sorted(found.items()):
        lines += ["", f"## {name}", *said]
    return "\n".join([*lines, ""])


def sections(text: str) -> dict[str, list[str]]:
    """A file of `## name` sections by name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("## "):
            lines = found.setdefault(line[3:], [])
        elif line:
            lines.append(line)
    return found

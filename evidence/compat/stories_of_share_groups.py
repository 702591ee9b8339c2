"""Share groups (KIP-932) with Apache Kafka's tools: the console share consumer, and everything that kafka-share-groups does."""

from __future__ import annotations

from evidence.compat.stories_of_tools import CONFIGS, Story, story

SHARE_GROUPS = "consumer.group.ShareGroupCommand"
SHARE_CONSUMER = "consumer.ConsoleShareConsumer"


@story
def share_groups_are_read_described_reset_and_deleted(tell: Story) -> None:
    tell.create("shared")
    reset = ("--add-config", "share.auto.offset.reset=earliest")
    tell.say(CONFIGS, "--alter", "--group", "sharers", *reset)
    tell.produce("shared", *(f"value {n}" for n in range(8)))
    read = ("--topic", "shared", "--group", "sharers", "--timeout-ms", 30_000)
    tell.say(SHARE_CONSUMER, *read, "--max-messages", 5)
    tell.say(SHARE_CONSUMER, *read, "--max-messages", 3)
    tell.say(SHARE_GROUPS, "--list", "--state", only="sharers|GROUP")
    for what in ((), ("--verbose",), ("--members",), ("--state",)):
        tell.say(SHARE_GROUPS, "--describe", "--group", "sharers", *what)
    one = ("--group", "sharers", "--topic", "shared")
    tell.say(SHARE_GROUPS, "--reset-offsets", *one, "--to-earliest", "--dry-run")
    tell.say(SHARE_GROUPS, "--reset-offsets", *one, "--to-earliest", "--execute")
    tell.say(SHARE_GROUPS, "--describe", "--group", "sharers")
    tell.say(SHARE_GROUPS, "--reset-offsets", *one, "--to-latest", "--execute")
    tell.say(SHARE_GROUPS, "--describe", "--group", "sharers")
    tell.say(SHARE_GROUPS, "--delete-offsets", *one)
    tell.say(SHARE_GROUPS, "--delete-offsets", *one)
    tell.say(SHARE_GROUPS, "--describe", "--group", "nobody")
    tell.say(SHARE_GROUPS, "--delete", "--group", "sharers")
    tell.say(SHARE_GROUPS, "--delete", "--group", "sharers")


@story
def a_rejected_record_comes_no_more(tell: Story) -> None:
    tell.create("rejected")
    tell.do(CONFIGS, "--alter", "--group", "rejecters", "--add-config", "share.auto.offset.reset=earliest")
    tell.produce("rejected", "a", "b")
    read = ("--topic", "rejected", "--group", "rejecters")
    tell.say(SHARE_CONSUMER, *read, "--timeout-ms", 30_000, "--max-messages", 2, "--release")
    tell.say(SHARE_CONSUMER, *read, "--timeout-ms", 30_000, "--max-messages", 2, "--reject")
    tell.produce("rejected", "c")
    tell.say(SHARE_CONSUMER, *read, "--timeout-ms", 30_000, "--max-messages", 1)
    tell.say(SHARE_GROUPS, "--describe", "--group", "rejecters", only="LAG|rejecters")


SHARE_STORIES = {"share_groups_are_read_described_reset_and_deleted", "a_rejected_record_comes_no_more"}

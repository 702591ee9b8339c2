"""What can be a topic's name: Kafka's rule, for brokers and for clients that want to know before they ask one."""

from __future__ import annotations

NAME_LENGTH_MAX = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_fault(name: str) -> str | None:
    """Why `name` cannot be a topic's name, or None. A name becomes a directory's name, so the rule is strict."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name[:40]}...' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None

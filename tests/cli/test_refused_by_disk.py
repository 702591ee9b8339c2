"""What is said where a disk is full, or a right is missing."""

from __future__ import annotations

import errno
import os

import pytest

from oncelog.cli.command import Settings, hint_for
from oncelog.cli.refused_by_disk import way_out
from oncelog.errors import StorageError


def refused(number: int) -> StorageError:
    error = StorageError(f"cannot write DIR/meta.properties: {os.strerror(number)}")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "make room on that disk, not in this directory"),
        (errno.EDQUOT, "make room on that disk"),
        (errno.EACCES, "`chown -R USER DATA_DIR`"),
        (errno.EPERM, "`chmod -R u+rwX DATA_DIR`"),
    ],
)
def test_the_way_out_and_what_to_do_then(number: int, says: str) -> None:
    assert says in way_out(refused(number), "go on")
    assert way_out(refused(number), "go on").endswith(" go on")
    assert hint_for(refused(number), Settings()) == way_out(refused(number), "run the same again")


def test_nothing_is_invented() -> None:
    assert way_out(refused(errno.EIO), "go on") == ""
    assert way_out(StorageError("locked: another server uses this directory"), "go on") == ""
    assert hint_for(StorageError("damaged"), Settings()) == ""

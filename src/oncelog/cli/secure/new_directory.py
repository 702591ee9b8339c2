"""A directory that is there whole, or not at all: made under another name beside its place, renamed when all is durable.

Who is killed in the midst leaves `.NAME.new`, which nobody else can look into; the next one removes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from oncelog.cli.output import Failed
from oncelog.cli.secure.home import make_directory, sync_directory
from oncelog.errors import StorageError
from oncelog.host.files import RealFiles

LOCK = ".lock"


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Where to make it. It becomes `target` where the body ends well, and is removed otherwise. Raises Failed."""
    path = target.with_name(f".{target.name}.new")
    with ExitStack() as alone:
        _be_alone_in(path, target, alone)
        try:
            yield path
            _sync_all(path)
            (path / LOCK).unlink()
            try:
                os.rename(path, target)  # over an empty directory, too
            except OSError as error:
                raise Failed(f"{target} cannot be made: {error.strerror}") from error
            sync_directory(target.parent)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise


def _be_alone_in(path: Path, target: Path, alone: ExitStack) -> None:
    """An empty directory of our own; what a killed process left there goes."""
    if not target.parent.is_dir():
        raise Failed(f"there is no directory {target.parent}", f"mkdir -p {target.parent}")
    try:
        if path.exists():
            left = RealFiles().lock(str(path / LOCK))
            shutil.rmtree(path)
            left.close()
        make_directory(path)
        alone.callback(RealFiles().lock(str(path / LOCK)).close)
    except (StorageError, OSError) as error:
        if isinstance(error, FileExistsError) or "is locked" in str(error):
            raise Failed(f"another process makes {target} at this moment") from error
        raise Failed(f"{target} cannot be made: {getattr(error, 'strerror', None) or error}") from error


def _sync_all(path: Path) -> None:
    for directory, _, names in os.walk(path, topdown=False):
        for name in names:
            descriptor = os.open(os.path.join(directory, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(Path(directory))

"""Files that were given up: removed when they are due, one that the disk refuses again later, and no other because of it."""

from __future__ import annotations

import logging

from evidence.world.broker import run, until

from oncelog.broker.partitions import deleted_files
from oncelog.broker.partitions.deleted_files import DeletedFiles
from oncelog.host.files import RealFiles
from oncelog.host.tasks import Tasks
from oncelog.host.worker import ThreadWorker


class World:
    def __init__(self, tmp_path):
        self.path = tmp_path
        self.deleted = DeletedFiles(RealFiles(), ThreadWorker())
        self.tasks = Tasks()
        self.tasks.start(self.deleted.run())

    def files(self, *names):
        for name in names:
            (self.path / name).write_bytes(b"x")
        return [str(self.path / name) for name in names]

    def refused(self, name):
        """A directory: the system refuses to unlink it as a file."""
        (self.path / name).mkdir()
        return str(self.path / name)

    def left(self):
        return sorted(each.name for each in self.path.iterdir())


def test_files_and_directories_go_when_they_are_due(tmp_path):
    async def work():
        world = World(tmp_path)
        world.deleted.add(world.files("later"), 60_000)
        world.deleted.add(world.files("a", "b"), 0)
        (tmp_path / "t-0-delete").mkdir()
        world.files("t-0-delete/log")
        world.deleted.add_directories([str(tmp_path / "t-0-delete")])
        await until(lambda: world.left() == ["later"])
        assert len(world.deleted) == 1
        await world.tasks.close()

    run(work())


def test_one_that_the_disk_refuses_keeps_no_other(tmp_path, caplog):
    async def work():
        world = World(tmp_path)
        refused = world.refused("refused")
        world.deleted.add([refused, *world.files("a", "b")], 0)
        await until(lambda: world.left() == ["refused"])
        await until(lambda: len(world.deleted) == 1)
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert (refused in caplog.text, "again" in caplog.text) == (True, True)
        await world.tasks.close()

    run(work())


def test_what_was_refused_is_tried_again_and_said_once(tmp_path, caplog, monkeypatch):
    async def work():
        monkeypatch.setattr(deleted_files, "REMOVE_AGAIN_S", 0.001)
        world, tried = World(tmp_path), []
        remove = RealFiles.remove

        def counted(files, path):
            tried.append(path)
            remove(files, path)

        monkeypatch.setattr(RealFiles, "remove", counted)
        refused, other = world.refused("refused"), world.refused("other")
        world.deleted.add([refused, other], 0)
        await until(lambda: tried.count(refused) >= 3)
        (tmp_path / "refused").rmdir()
        world.files("refused")
        await until(lambda: world.left() == ["other"])
        assert [record.levelno for record in caplog.records] == [logging.ERROR], "of both, once"
        (tmp_path / "other").rmdir()
        world.files("other")
        await until(lambda: world.left() == [] and len(world.deleted) == 0)
        await until(lambda: "could be removed now" in caplog.text)
        world.deleted.add([world.refused("once more")], 0)
        await until(lambda: len([each for each in caplog.records if each.levelno == logging.ERROR]) == 2)
        await world.tasks.close()

    run(work())

"""What lies on the disk, twice: as every process sees it, and as a power cut would leave it at the least.

A file's bytes are durable after a sync of it that began behind their write and went well; a name after such a sync of its
directory. After a failed sync a file's bytes never become durable: the pages count as saved and are not. A directory's
names that had changed are forgotten until they change again.
"""

from __future__ import annotations

import errno
import itertools
import os
import pathlib
from collections.abc import Iterator

from evidence.syscalls.recorder import BEGIN, Call

_ids = itertools.count()


class Node:
    """A file, or a directory with `names`. What is `durable` stands behind each."""

    def __init__(self, *, is_directory: bool) -> None:
        self.id = next(_ids)
        self.is_directory = is_directory
        self.data = bytearray()
        self.durable_data = b""
        self.names: dict[str, Node] = {}
        self.durable_names: dict[str, Node] = {}
        self.version = self.durable_version = 0
        self.is_lost = False  # a sync failed: no later one brings its bytes back
        self.lost_names: set[str] = set()  # what a failed sync has forgotten of a directory, until each changes again

    @property
    def is_durable(self) -> bool:
        """All its bytes (or names) would survive."""
        if self.is_directory:
            return self.names == self.durable_names
        return bytes(self.data) == self.durable_data

    def changed(self, *names: str) -> None:
        """Other bytes; or in a directory, other names."""
        self.version += 1
        self.lost_names.difference_update(names)

    def state(self) -> tuple[int, bytes | dict[str, Node]]:
        """For `made_durable`."""
        return self.version, dict(self.names) if self.is_directory else bytes(self.data)

    def lose(self) -> None:
        """A sync failed: what waited for it counts as saved and is not."""
        if self.is_directory:
            names, durable = self.names, self.durable_names
            self.lost_names |= {
                name for name in names.keys() | durable.keys() if names.get(name) is not durable.get(name)
            }
        else:
            self.is_lost = True

    def made_durable(self, state: tuple[int, bytes | dict[str, Node]]) -> None:
        version, content = state
        if self.is_lost or version < self.durable_version:
            return
        self.durable_version = version
        if isinstance(content, dict):
            before, now = self.durable_names, dict(content)
            for name in self.lost_names:
                now.pop(name, None)
                if name in before:
                    now[name] = before[name]
            self.durable_names = now
        else:
            self.durable_data = content


class World:
    """The directory `root`, from empty on. `apply` takes the calls of one process after the other."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = Node(is_directory=True)
        self._prefix = f"{root}/"
        self._descriptors: dict[tuple[int, int], tuple[str, Node]] = {}
        self._syncing: dict[int, tuple[int, bytes | dict[str, Node]]] = {}

    # finding

    def find(self, path: str, *, durable: bool = False) -> Node | None:
        """What has this path below the root, "" for the root itself."""
        node = self.root
        for part in filter(None, path.split("/")):
            found = (node.durable_names if durable else node.names).get(part)
            if found is None:
                return None
            node = found
        return node

    def durable_bytes(self, path: str) -> bytes | None:
        """What a power cut would leave of a file."""
        node = self.find(path, durable=True)
        return None if node is None or node.is_directory else node.durable_data

    def files(self, path: str = "", *, durable: bool = False) -> Iterator[tuple[str, Node]]:
        """All files below a directory, by path."""
        top = self.find(path, durable=durable)
        if top is None:
            return
        for name, node in sorted((top.durable_names if durable else top.names).items()):
            where = f"{path}/{name}" if path else name
            if node.is_directory:
                yield from self.files(where, durable=durable)
            else:
                yield where, node

    def paths(self, call: Call) -> tuple[str, str]:
        """The paths of a call below the root; of a descriptor, the one it was opened with."""
        if call.path:
            second = self._below(call.process, call.descriptor2, call.path2) if call.path2 else ""
            return self._below(call.process, call.descriptor, call.path), second
        return self._descriptors.get((call.process, call.descriptor), ("", self.root))[0], ""

    def node_of(self, call: Call) -> Node | None:
        """What its descriptor is open on."""
        found = self._descriptors.get((call.process, call.descriptor))
        return found[1] if found is not None else None

    def _below(self, process: int, descriptor: int, path: str) -> str:
        if path.startswith("/"):
            return os.path.normpath(path + "/").removeprefix(self._prefix.rstrip("/")).strip("/")
        return f"{self._descriptors[process, descriptor][0]}/{path}"

    def _parent(self, path: str) -> tuple[Node, str]:
        parent, _, name = path.rpartition("/")
        node = self.find(parent)
        assert node is not None, f"{path}: its directory was never seen to be made"
        return node, name

    # changing

    def apply(self, call: Call) -> None:
        """Take over what a call has done."""
        if call.phase == BEGIN and call.name == "sync":
            node = self.node_of(call)
            assert node is not None, call
            self._syncing[call.thread] = node.state()
        elif call.phase == BEGIN and call.name == "close":
            self._descriptors.pop((call.process, call.descriptor), None)
        elif call.phase != BEGIN and call.name not in ("accept", "send", "receive"):
            if call.name == "sync":
                self._synced(call)
            elif call.result >= 0:
                getattr(self, f"_{call.name}")(call)

    def _open(self, call: Call) -> None:
        path, _ = self.paths(call)
        node = self.find(path)
        if node is None:
            assert call.offset & os.O_CREAT, f"{call}: opened, and never seen to be made"
            parent, name = self._parent(path)
            node = parent.names[name] = Node(is_directory=False)
            parent.changed(name)
        elif call.offset & os.O_TRUNC:
            node.data.clear()
            node.changed()
        self._descriptors[call.process, call.result] = path, node

    def _write(self, call: Call) -> None:
        node = self.node_of(call)
        assert node is not None, call
        position = (
            len(node.data) if call.offset < 0 else call.offset
        )  # files are written from their start, or appended to
        node.data.extend(b"\0" * (position - len(node.data)))
        node.data[position : position + len(call.data)] = call.data
        node.changed()

    def _ftruncate(self, call: Call) -> None:
        node = self.node_of(call)
        assert node is not None, call
        del node.data[call.offset :]
        node.data.extend(b"\0" * (call.offset - len(node.data)))
        node.changed()

    def _rename(self, call: Call) -> None:
        self.rename(*self.paths(call))

    def rename(self, old: str, new: str) -> None:
        """A file or directory gets another name."""
        (parent, name), (new_parent, new_name) = self._parent(old), self._parent(new)
        new_parent.names[new_name] = parent.names.pop(name)
        parent.changed(name)
        new_parent.changed(new_name)
        for key, (path, node) in self._descriptors.items():
            if path == old or path.startswith(f"{old}/"):
                self._descriptors[key] = new + path.removeprefix(old), node

    def _unlink(self, call: Call) -> None:
        parent, name = self._parent(self.paths(call)[0])
        parent.names.pop(name)
        parent.changed(name)

    def _mkdir(self, call: Call) -> None:
        parent, name = self._parent(self.paths(call)[0])
        parent.names[name] = Node(is_directory=True)
        parent.changed(name)

    def _link(self, call: Call) -> None:
        raise AssertionError(f"{call}: nobody here makes links")

    def _synced(self, call: Call) -> None:
        node, state = self.node_of(call), self._syncing.pop(call.thread)
        if node is None:
            return  # closed meanwhile
        if call.result == 0:
            node.made_durable(state)
        elif call.result == -errno.EIO:
            node.lose()

    # the disk itself

    def differences(self) -> list[str]:
        """Where the disk is not what the calls made of it: then a call was not seen."""
        seen = {path: bytes(node.data) for path, node in self.files()}
        real = {}
        for folder, _, names in os.walk(self._prefix):
            for name in names:
                path = pathlib.Path(folder, name)
                real[str(path).removeprefix(self._prefix)] = path.read_bytes()
        return sorted(path for path in seen.keys() | real.keys() if seen.get(path) != real.get(path))

    def ended(self) -> None:
        """A process is gone."""
        self._descriptors.clear()
        self._syncing.clear()

    def make_durable(self, path: str) -> None:
        """A file with its name, as if it had been synced alone."""
        node = self.find(path)
        parent, name = self._parent(path)
        assert node is not None
        node.made_durable(node.state())
        parent.durable_names = {**parent.durable_names, name: node}

    def make_names_durable(self, path: str) -> None:
        """As a sync of the directory."""
        node = self.find(path)
        assert node is not None
        node.made_durable(node.state())

    def adopt(self) -> None:
        """What somebody did to the files who is not recorded; none of it is synced, but by the look of it a file that was only
        renamed, as the last call of a process that was killed, stays what it was."""
        self._adopt(self.root, pathlib.Path(self._prefix))

    def _adopt(self, node: Node, directory: pathlib.Path) -> None:
        there = {path.name: path for path in directory.iterdir()}
        gone = [node.names.pop(name) for name in node.names.keys() - there.keys()]
        if gone:
            node.changed()
        for name, path in there.items():
            child = node.names.get(name)
            if child is None:
                child = node.names[name] = Node(is_directory=path.is_dir())
                node.changed()
            if path.is_dir():
                self._adopt(child, path)
            elif (data := path.read_bytes()) != bytes(child.data):
                renamed = next((each for each in gone if not each.is_directory and bytes(each.data) == data), None)
                if renamed is not None:
                    node.names[name] = renamed
                    node.changed()
                else:
                    child.data[:] = data
                    child.changed()

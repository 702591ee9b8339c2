"""The parts of the smoke test; as a whole it runs in test_distribution.py, with the wheel of this tree."""

from __future__ import annotations

import pathlib
import sys
import zipfile

import pytest
from tools import smoke

LOCK = """\
click==8.5.1 \\
    --hash=sha256:aa
    # via -r requirements/dev.in
markdown-it-py==4.3.0 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via rich
rich==15.0.0 \\
    --hash=sha256:dd
"""


def test_of_a_lock_only_what_is_named_is_taken_with_its_hashes() -> None:
    taken = smoke.locked({"rich", "markdown-it-py"}, LOCK)
    assert [line for line in taken.splitlines() if "#" not in line] == LOCK.splitlines()[3:6] + LOCK.splitlines()[7:]


def test_what_is_not_locked_is_not_installed() -> None:
    with pytest.raises(KeyError, match="kafka"):
        smoke.locked({"kafka"}, LOCK)


def test_dependencies_are_those_of_the_runtime_and_theirs() -> None:
    found = smoke.dependencies("oncelog")
    assert {"click", "cramjam", "markdown-it-py", "mdurl"} <= found
    assert not found & {"pyspark", "pytest", "pyarrow"}, "extras"
    assert smoke.locked(found, (smoke.ROOT / "requirements/dev.txt").read_text()).count("==") == len(found)


def test_this_python_is_found() -> None:
    name = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert smoke.pythons()[name] == pathlib.Path(sys.executable)
    assert not smoke.is_python(pathlib.Path(sys.executable), "2.7")


def test_a_wheel_names_its_python(tmp_path: pathlib.Path) -> None:
    for tag, name in (("py3-none-any", None), ("cp312-cp312-linux_x86_64", "3.12")):
        wheel = tmp_path / f"oncelog-1.0.0-{tag}.whl"
        zipfile.ZipFile(wheel, "w").close()
        assert smoke.python_of(wheel) == name
    with pytest.raises(ValueError, match="no wheel of oncelog"):
        smoke.python_of(tmp_path / "oncelog-1.0.0.tar.gz")


def test_a_package_from_elsewhere_is_told(tmp_path: pathlib.Path) -> None:
    inside = tmp_path / "lib" / "oncelog"
    where = {"package": str(inside), "modules": {"wire/varint": str(inside / "wire/varint.py")}}
    smoke.check_location(where, tmp_path, pure=True)
    with pytest.raises(smoke.SmokeFailed, match="outside the environment"):
        smoke.check_location({**where, "package": str(smoke.ROOT / "src/oncelog")}, tmp_path, pure=True)
    with pytest.raises(smoke.SmokeFailed, match="not compiled: wire/varint"):
        smoke.check_location(where, tmp_path, pure=False)


def test_another_output_or_exit_status_is_told(tmp_path: pathlib.Path) -> None:
    with pytest.raises(smoke.SmokeFailed, match=r"'0\.2\.0' was expected"):
        smoke.expect("oncelog --version", "oncelog 0.1.0\n", "0.2.0")
    with pytest.raises(smoke.SmokeFailed, match="exit status 3: no way"):
        smoke.started(
            str(tmp_path), {}, sys.executable, "-c", "import sys; print('no way', file=sys.stderr); sys.exit(3)"
        )


def test_a_broker_that_does_not_serve_is_told(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "oncelog"
    program.write_text("#!/bin/sh\necho 'error: no room' >&2\nexit 2\n")
    program.chmod(0o700)
    with pytest.raises(smoke.SmokeFailed, match="exit status 2: error: no room"):
        smoke.serve(str(tmp_path), {"PATH": "/bin:/usr/bin"}, program)

"""What is released: the sdist and the pure wheel of this tree are built and looked into; faults are told by name."""

from __future__ import annotations

import io
import json
import pathlib
import signal
import subprocess
import sys
import tarfile
import zipfile

import pytest
from tools import distribution, smoke

from tests.releasing.packaging_files import containerfile

NAMED = f"oncelog-{distribution.version()}"
GOOD = [*distribution.IN_EACH_WHEEL, f"{NAMED}.dist-info/METADATA"]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return distribution.build_sdist(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def pure_wheel(sdist: pathlib.Path) -> pathlib.Path:
    return distribution.build_wheel(sdist, sdist.parent, pure=True)


def test_the_sdist_holds_docs_examples_and_tests(sdist: pathlib.Path) -> None:
    assert list(distribution.sdist_faults(sdist)) == []
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {path.as_posix() for path in distribution.source_files()} - {".gitignore"}
    assert {name for name in wanted if not name.startswith((".ci/", ".github/"))} - names == set()


def test_a_pure_wheel_comes_from_the_sdist(pure_wheel: pathlib.Path) -> None:
    assert pure_wheel.name == f"{NAMED}-py3-none-any.whl"
    assert list(distribution.wheel_faults(pure_wheel)) == []
    with zipfile.ZipFile(pure_wheel) as archive:
        metadata = archive.read(f"{NAMED}.dist-info/METADATA").decode()
        modules = {name for name in archive.namelist() if name.endswith(".py")}
    assert f"\nVersion: {distribution.version()}\n" in metadata
    sources = {path.as_posix().removeprefix("src/") for path in distribution.source_files() if path.parts[0] == "src"}
    assert modules == {name for name in sources if name.endswith(".py")}


@pytest.fixture(scope="module")
def python(pure_wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The interpreter of an empty environment with the pure wheel.

    Dependencies are copied out of this environment, those that it names and no others; `make release` downloads them.
    """
    inside = smoke.make_environment(pathlib.Path(sys.executable), tmp_path_factory.mktemp("empty") / "environment")
    smoke.install_copies(inside, pure_wheel, smoke.dependencies("oncelog"))
    return inside


def test_the_pure_wheel_works_in_an_empty_environment(python: pathlib.Path) -> None:
    smoke.smoke(python, pure=True)


def test_the_containers_commands_run_in_an_empty_environment(python: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Start, health check, stop signal: as the container file has them, with another directory and port."""
    file = containerfile()
    properties = (distribution.ROOT / "packaging/server.properties").read_text()
    own = properties.replace("/var/lib/oncelog", str(tmp_path / "data")).replace(":9092", ":0")
    (tmp_path / "server.properties").write_text(own)
    command = [*json.loads(file["ENTRYPOINT"]), *json.loads(file["CMD"])]
    assert command[-1] == "/etc/oncelog/server.properties"
    environment = {"PATH": str(python.parent), "HOME": "/nonexistent"}
    broker = subprocess.Popen(
        [python.parent / command[0], *command[1:-1], tmp_path / "server.properties"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
    )
    try:
        assert broker.stdout is not None
        address = broker.stdout.readline().decode().split()[1]
        _, _, words = file["HEALTHCHECK"].partition("CMD ")
        health = [str(python.parent / json.loads(words)[0]), *json.loads(words)[1:]]
        health[health.index("--timeout") + 1] = "60s"  # a busy machine decides nothing
        asked = {**environment, "ONCELOG_BOOTSTRAP_SERVERS": address}
        assert subprocess.run(health, env=asked, capture_output=True).returncode == 0
        broker.send_signal(signal.Signals[file["STOPSIGNAL"]])
        assert broker.wait(60) == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists(), "stopped cleanly"
        health[health.index("--timeout") + 1] = "100ms"
        assert subprocess.run(health, env=asked, capture_output=True).returncode == 1
    finally:
        broker.kill()
        broker.communicate()


def test_the_version_stands_in_one_place() -> None:
    files = [name for name in distribution.source_files() if name.parts[0] == "src" or name.name == "pyproject.toml"]
    holders = [
        name.as_posix()
        for name in files
        if name.suffix in (".py", ".toml") and f'"{distribution.version()}"' in (distribution.ROOT / name).read_text()
    ]
    assert holders == ["src/oncelog/version.py"]


def a_wheel(folder: pathlib.Path, tag: str, names: list[str], size_bytes: int = 0) -> pathlib.Path:
    wheel = folder / f"{NAMED}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
        if size_bytes:
            archive.writestr("oncelog/ballast.py", bytes(size_bytes))
    return wheel


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("tests/test_x.py", "tests/test_x.py, outside the package"),
        ("oncelog/host/native_sync.c", "sources of compiled modules"),
        ("oncelog/wire/varint.pxd", "sources of compiled modules"),
        ("oncelog/wire/varint.cpython-311-x86_64-linux-gnu.so", "is called pure"),
    ],
)
def test_what_does_not_belong_into_a_wheel_is_told(tmp_path: pathlib.Path, extra: str, told: str) -> None:
    assert list(distribution.wheel_faults(a_wheel(tmp_path, "py3-none-any", GOOD))) == []
    (fault,) = distribution.wheel_faults(a_wheel(tmp_path, "py3-none-any", [*GOOD, extra]))
    assert told in fault


@pytest.mark.parametrize("missing", distribution.IN_EACH_WHEEL)
def test_what_is_missing_in_a_wheel_is_told(tmp_path: pathlib.Path, missing: str) -> None:
    wheel = a_wheel(tmp_path, "py3-none-any", [name for name in GOOD if name != missing])
    assert list(distribution.wheel_faults(wheel)) == [f"{wheel.name} has no {missing}"]


def test_a_platform_wheel_without_its_compiled_modules_is_told(tmp_path: pathlib.Path) -> None:
    compiled = [f"{name}.cpython-311-x86_64-linux-gnu.so" for name in distribution.compiled_modules()]
    wheel = a_wheel(tmp_path, "cp311-cp311-linux_x86_64", [*GOOD, *compiled])
    assert list(distribution.wheel_faults(wheel)) == []
    wheel = a_wheel(tmp_path, "cp311-cp311-linux_x86_64", [*GOOD, *compiled[1:]])
    (fault,) = distribution.wheel_faults(wheel)
    assert "no compiled oncelog/wire/varint: was there a compiler?" in fault


def test_a_wheel_that_is_too_large_is_told(tmp_path: pathlib.Path) -> None:
    wheel = a_wheel(tmp_path, "py3-none-any", GOOD, size_bytes=distribution.PURE_WHEEL_BYTES_MAX)
    (fault,) = distribution.wheel_faults(wheel)
    assert f"more than {distribution.PURE_WHEEL_BYTES_MAX}" in fault


def test_faults_of_an_sdist_are_told(tmp_path: pathlib.Path) -> None:
    sdist = tmp_path / f"{NAMED}.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        for name in (*distribution.IN_EACH_SDIST[1:], "src/oncelog/wire/varint.so"):
            archive.addfile(tarfile.TarInfo(f"{NAMED}/{name}"), io.BytesIO())
    assert list(distribution.sdist_faults(sdist)) == [
        f"{sdist.name} has no {distribution.IN_EACH_SDIST[0]}",
        f"{sdist.name} has src/oncelog/wire/varint.so",
    ]


def test_a_failed_build_says_what_failed(tmp_path: pathlib.Path) -> None:
    with pytest.raises(distribution.BuildFailed, match="pip wheel"):
        distribution.build_wheel(
            a_wheel(tmp_path, "py3-none-any", GOOD).rename(tmp_path / "x.tar.gz"), tmp_path, pure=True
        )

"""Which tests a mutant is shown to, and whose lines the map's lines are."""

from __future__ import annotations

import json
import pathlib

from coverage import CoverageData

from evidence.mutants import cover as covers
from evidence.mutants.choosing import Chooser
from evidence.mutants.operators import Mutation

SOURCE = "src/oncelog/core/limit.py"
BEFORE = "LIMIT = 10\n\n\ndef is_within(size):\n    return size <= LIMIT\n"
NOW = "LIMIT = 10\nOTHER = 1\nMORE = 2\n\n\ndef is_within(size):\n    return size <= LIMIT\n"


def tree(root: pathlib.Path, text: str, **tests: str) -> pathlib.Path:
    for file, content in {SOURCE: text, **{f"tests/core/{name}.py": text for name, text in tests.items()}}.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(content)
    return root


def ran(cover: covers.CoverMap, root: pathlib.Path, name: str, lines: list[int], imported: list[int]) -> None:
    """The map takes in one test file of one test, which ran these lines."""
    file = f"tests/core/{name}.py"
    data_file = root / "data"
    data = CoverageData(str(data_file))
    for context, found in ((f"{file}::test", lines), ("", imported)):
        data.set_context(context)
        data.add_lines({str(root / SOURCE): found})
    data.write()
    pathlib.Path(f"{data_file}.json").write_text(json.dumps({f"{file}::test": {"seconds": 0.1, "passed": True}}))
    cover.add(root, [file], covers.WITHOUT_JVM, data_file)
    data.erase()


def mutation(line: int) -> Mutation:
    return Mutation(SOURCE, "", line, line, "LIMIT = 10", "constant", "10", "11", "", 0)


def names(cover: covers.Cover, line: int) -> set[str]:
    return {test.file for test in cover.tests(line, line)}


def test_each_tests_lines_are_those_of_the_text_that_it_has_run(tmp_path: pathlib.Path) -> None:
    """Of a test file that was run again after the source had changed, the lines were taken for those of before."""
    root, cover = tree(tmp_path, BEFORE), covers.CoverMap(tmp_path / "build" / "cover.sqlite")
    ran(cover, root, "test_early", [5], [1, 4])
    tree(root, NOW)
    ran(cover, root, "test_late", [7], [1, 2, 3, 6])
    found = cover.of(SOURCE, NOW)
    assert names(found, 7) == {"tests/core/test_early.py", "tests/core/test_late.py"}
    assert found.imported == {1, 2, 3, 6}
    assert found.unknown == set()


def test_a_map_of_an_older_format_is_made_anew(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cover.sqlite"
    cover = covers.CoverMap(path)
    cover.database.execute("insert into files values ('tests/test_a.py', '', '')")
    cover.database.execute("pragma user_version = 1")
    cover.database.commit()
    cover.close()
    assert not covers.CoverMap(path).is_made()


def test_who_looks_at_what_a_module_holds_is_asked_though_it_runs_none_of_its_lines(tmp_path: pathlib.Path) -> None:
    looks, other = "from oncelog.core.limit import LIMIT\n", "import json\n"
    root = tree(tmp_path, BEFORE, test_looks=looks, test_other=other)
    cover = covers.CoverMap(tmp_path / "build" / "cover.sqlite")
    ran(cover, root, "test_looks", [], [1, 4])
    ran(cover, root, "test_other", [], [])
    chooser = Chooser(cover, root)
    assert {test.file for test in chooser.tests(mutation(1))} == {"tests/core/test_looks.py"}
    assert chooser.tests(mutation(5)) == set(), "a line that nothing runs is not covered"

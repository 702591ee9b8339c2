"""The sample: shares, and that it does not depend on where a line stands."""

from __future__ import annotations

from collections import Counter

from evidence.mutants import tree as trees
from evidence.mutants.attributes import Attributes
from evidence.mutants.drawing import DANGEROUS, SAMPLE, SHARES, TOP, all_mutations, drawn, package_of
from evidence.mutants.operators import Mutation, mutations


def source(count: int, name: str = "f") -> str:
    return "".join(
        f"def {name}{number}(a):\n    a.call_{number}()\n    return a < {number}\n\n" for number in range(count)
    )


def of(file: str, text: str) -> list[Mutation]:
    return mutations(f"src/oncelog/{file}", text, Attributes([text]))


def test_the_sample_of_the_tree_is_shared_out_by_danger() -> None:
    sample = drawn(all_mutations(trees.ROOT), seed=1, count=SAMPLE)
    counts = Counter(package_of(each.file) for each in sample)
    assert counts == {package: shares for package, shares in SHARES.items() if shares}
    assert sum(counts[package] for package in DANGEROUS) > 0.7 * len(sample) >= 0.7 * 300
    assert len({(each.file, each.function, each.line, each.first_line) for each in sample}) == len(sample)


def test_every_package_has_its_share() -> None:
    packages = {path.name for path in (trees.ROOT / "src" / "oncelog").iterdir() if (path / "__init__.py").exists()}
    assert packages | {TOP} == set(SHARES)


def test_the_same_seed_draws_the_same_and_another_one_another() -> None:
    candidates = of("core/a.py", source(100))
    names = [[each.name for each in drawn(candidates, seed, 50)] for seed in (1, 1, 2)]
    assert names[0] == names[1] != names[2]


def test_neither_a_move_nor_a_line_elsewhere_changes_the_draw() -> None:
    before = drawn(of("core/a.py", source(100)), 1, 50)
    moved = drawn(of("core/leader/b.py", "x = y\n\n" + source(100)), 1, 50)
    assert [each.name for each in before] == [each.name for each in moved]


def test_one_mistake_of_a_statement_and_not_always_of_the_kind_of_which_there_are_most() -> None:
    kinds = Counter(each.operator for each in drawn(of("core/a.py", source(200)), 1, 300))
    assert kinds["boundary"] > 0
    assert kinds["dropped call"] > 0
    assert kinds["constant"] < sum(kinds.values()) / 2


def test_package_of() -> None:
    files = ("src/oncelog/core/leader/partition.py", "src/oncelog/sync.py", "src/oncelog/wire/api.py")
    assert [package_of(file) for file in files] == ["core", TOP, "wire"]

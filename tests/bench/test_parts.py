"""Parts and rows of the bench: each part is there, no two rows have one name."""

from __future__ import annotations

import importlib.util

from bench.parts import PARTS, ROWS


def test_every_part_has_its_function():
    for name, where in PARTS.items():
        module, _, function = where.partition(":")
        spec = importlib.util.find_spec(module)
        assert spec is not None, name
        assert spec.origin is not None
        with open(spec.origin) as file:
            assert f"def {function}(" in file.read(), name


def test_no_two_rows_of_a_part_have_one_name():
    assert set(ROWS) <= set(PARTS)
    for keys in ROWS.values():
        assert len(set(keys)) == len(keys)

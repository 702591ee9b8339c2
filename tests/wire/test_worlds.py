"""That the two worlds of the other tests are what they say."""

from oncelog.hot_paths import HOT_MODULES, compiled
from tests.wire.worlds import INSTALLED, PLAIN


def test_the_plain_modules_are_source_files_and_use_one_another():
    assert PLAIN.record_codec.__file__.endswith(".py")
    assert PLAIN.arrow_codec.__file__.endswith(".py")
    assert PLAIN.newest_values.__file__.endswith(".py")
    assert PLAIN.record_codec.read_varint is PLAIN.varint.read_varint
    assert PLAIN.record_batch.parse_records is PLAIN.record_codec.parse_records
    assert PLAIN.batch_checks.RecordBatch is PLAIN.record_batch.RecordBatch


def test_compiled_says_what_is_compiled():
    said = compiled()
    assert set(said) == {name.rpartition("/")[2] for name in HOT_MODULES}
    for name, is_compiled in said.items():
        assert is_compiled == (not getattr(INSTALLED, name).__file__.endswith(".py"))
    assert len(set(said.values())) == 1, "all hot modules are compiled, or none"

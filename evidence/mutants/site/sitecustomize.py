"""Every Python process of a run in the copied tree starts here (PYTHONPATH): also the brokers that a test starts.

While the map of lines is made, what such a process runs is counted for the test that started it.
"""

import os

_RECORD, _TEST = os.environ.get("ONCELOG_MUTANTS_RECORD"), os.environ.get("ONCELOG_MUTANTS_TEST")

if _RECORD and _TEST:
    import coverage

    _tree = os.environ["ONCELOG_MUTANTS_TREE"]
    _measure = coverage.Coverage(
        data_file=_RECORD,
        data_suffix=True,
        source=[os.path.join(_tree, "src", "oncelog")],
        config_file=False,
        context=_TEST,
        auto_data=True,
        messages=False,
    )
    _measure.set_option("run:sigterm", True)
    _measure.set_option("run:patch", ["_exit"])
    _measure._warn = lambda *arguments, **named: None  # a process that runs none of our lines is no news
    _measure.start()

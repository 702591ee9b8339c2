"""An optional library that is not there: what it is for, and how to get it."""

from __future__ import annotations


class MissingLibrary(ImportError):
    """An adapter's library is not installed; the text names the extra that brings it."""


def missing(library: str, extra: str, error: ImportError) -> ImportError:
    """The error to raise; one about another module that is missing stays as it is."""
    if error.name is not None and error.name.split(".")[0] != library.split(".")[0]:
        return error
    return MissingLibrary(
        f"oncelog.recipes: {library} is not installed; get it with: pip install 'oncelog[{extra}]'", name=error.name
    )

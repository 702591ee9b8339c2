"""What a user did wrong reaches the user as one line, not as the frames of two languages.

Spark hands an error of a Python process over with its traceback, unless SPARK_HIDE_TRACEBACK is set there. It is set here, at the
moment a told error leaves a method that Spark called: the process ends with it, so nobody else's traceback is hidden. Bugs keep
theirs, and so do errors outside of Spark's own processes.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from pyspark.errors import PySparkException

from oncelog.errors import OncelogError
from oncelog.spark.backend import DecisionsOutOfReach, LostTransaction, TransactionEnded
from oncelog.spark.committer import CommitRefused
from oncelog.spark.planning import DataLoss
from oncelog.spark.process import acknowledge_at_once, in_a_process_of_sparks, keep_what_is_loaded

logger = logging.getLogger("oncelog.spark")
TOLD = (OncelogError, DataLoss, CommitRefused, DecisionsOutOfReach, LostTransaction, TransactionEnded)
HIDE = "SPARK_HIDE_TRACEBACK"
F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """An error that tells a user what to do leaves this block without its traceback, in a process of Spark's."""
    try:
        yield
    except TOLD:
        logger.debug("told without its traceback", exc_info=True)
        if in_a_process_of_sparks():
            os.environ[HIDE] = "1"
        raise


@contextlib.contextmanager
def told_first() -> Iterator[None]:
    """For what Spark calls in the user's own process (foreachBatch of a classic session): py4j hands the text of the whole
    traceback to Java, with the error behind the last frame. The cause of an error is the beginning of that text: here the error
    itself, which has no frames."""
    try:
        yield
    except (*TOLD, PySparkException) as error:
        if in_a_process_of_sparks():  # of a Connect session
            raise
        # PySparkException: of a task, with what it told.
        raise error from (copy.copy(error) if isinstance(error, TOLD) else PySparkException(str(error)))


def plainly(method: F) -> F:
    """Around each method that Spark calls: `told_plainly` (around each step of a generator), and what makes workers quick."""
    if inspect.isgeneratorfunction(method):

        @functools.wraps(method)
        def steps(*arguments: Any, **more: Any) -> Iterator[Any]:
            acknowledge_at_once()
            with told_plainly():
                yield from method(*arguments, **more)
            keep_what_is_loaded()

        return cast("F", steps)

    @functools.wraps(method)
    def called(*arguments: Any, **more: Any) -> Any:
        acknowledge_at_once()
        with told_plainly():
            answer = method(*arguments, **more)
        keep_what_is_loaded()
        return answer

    return cast("F", called)

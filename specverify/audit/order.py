"""Shards in the order of the plan, whichever worker was faster and whichever run sampled them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing

import msgspec

from specverify.audit.executors import Executor
from specverify.audit.ledger import Done, Record
from specverify.audit.tally import Tally
from specverify.audit.wire import Task

__all__ = ["Finished", "in_order"]


class Finished(msgspec.Struct, frozen=True):
    """A shard that counts.

    Attributes:
        task: What was asked.
        tally: What was counted.
        arrived: Seconds of sampling, earlier runs included, after which it was finished.
    """

    task: Task
    tally: Tally
    arrived: float


def in_order(
    executor: Executor, tasks: Sequence[Task], record: Record, clock: Callable[[], float]
) -> Generator[Finished, None, None]:
    """Give finished shards in the order of their tasks.

    Whoever stops reading after some shard has seen the same ones with any number of workers.
    Shards on record are not run again; new ones go on record when they are finished, be it early.
    One that ended in an error does not: taking the audit up again tries it again.

    Args:
        executor: Runs what is not on record.
        tasks: The shards; whoever reads may append more, which are begun before those that wait.
        record: Where finished ones are kept.
        clock: Seconds of sampling so far.
    """
    missing, seen = deque[Task](), 0
    early: dict[Task, Finished] = {}
    with closing(executor.run(missing)) as arriving:
        for task in tasks:  # a list that grows meanwhile is read to its new end
            more = [one for one in tasks[seen:] if record.find(one) is None]
            missing.extendleft(reversed(more))
            seen = len(tasks)
            known = record.find(task)
            if known is not None:
                yield Finished(task, Tally.decode(known.tally), known.arrived)
                continue
            while task not in early:
                finished = Finished(*next(arriving), clock())
                early[finished.task] = finished
                if finished.tally.error is None:
                    record.append(_done(finished))
            yield early.pop(task)


def _done(finished: Finished) -> Done:
    task = finished.task
    return Done(
        scenario=task.scenario,
        shard=task.shard,
        n=task.n,
        tally=finished.tally.encode(),
        arrived=finished.arrived,
    )

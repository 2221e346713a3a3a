"""A continuous log that is larger than one machine: some of the persons in each part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from privrl.continuous.log import ContinuousLog
from privrl.continuous.schema import ContinuousSchema
from privrl.data.logs.partitions import OnCluster

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, repr=False)
class PartitionedContinuousLog(OnCluster):
    """A log whose parts are on a Dask cluster; `read_continuous_log` makes one.

    Attributes
    ----------
    schema : ContinuousSchema
        The public facts.
    client : distributed.Client
        Of the cluster.
    parts : tuple of distributed.Future
        Each of a `ContinuousLog`: all that is there of some of the persons.
    """

    schema: ContinuousSchema
    client: Any
    parts: tuple[Any, ...] = ()

    @property
    def unit(self) -> str:
        """What a person is here, and statements name as the privacy unit."""
        return self.schema.person

    def __repr__(self) -> str:  # of nothing private
        return f"PartitionedContinuousLog(schema={self.schema!r})"


AnyLog = ContinuousLog | PartitionedContinuousLog


def of_each_part(log: AnyLog, function: Callable[[ContinuousLog], Result]) -> list[Result]:
    """Return the results of a function, which is sent to wherever parts of a log are."""
    if isinstance(log, ContinuousLog):
        return [function(log)]
    made = [log.submit(function, part) for part in log.parts]
    return [log.result(each) for each in made]

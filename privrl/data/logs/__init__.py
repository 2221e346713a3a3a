"""Logs of what persons went through: public schemas, readers."""

from privrl.data.logs.episodes import from_buffer, from_minari
from privrl.data.logs.log import CUT, Log, LogSpace
from privrl.data.logs.partitions import PartitionedLog, read_partitions
from privrl.data.logs.schema import LogSchema
from privrl.data.logs.sources import read_log

__all__ = [
    "CUT",
    "Log",
    "LogSchema",
    "LogSpace",
    "PartitionedLog",
    "from_buffer",
    "from_minari",
    "read_log",
    "read_partitions",
]

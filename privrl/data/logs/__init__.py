"""Logs of what persons went through: public schemas, readers."""

from privrl.data.logs.episodes import from_minari
from privrl.data.logs.log import Log
from privrl.data.logs.partitions import read_partitions
from privrl.data.logs.schema import LogSchema
from privrl.data.logs.sources import read_log

__all__ = ["Log", "LogSchema", "from_minari", "read_log", "read_partitions"]

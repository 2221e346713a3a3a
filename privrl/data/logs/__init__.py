"""Logs of what persons went through: public schemas, readers."""

from privrl.data.logs.episodes import from_buffer, from_minari
from privrl.data.logs.log import CUT, Log
from privrl.data.logs.reading import read_log
from privrl.data.logs.schema import LogSchema

__all__ = ["CUT", "Log", "LogSchema", "from_buffer", "from_minari", "read_log"]

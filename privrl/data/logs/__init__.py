"""Logs of what persons went through: public schemas, readers."""

from privrl.data.logs.log import CUT, Log

__all__ = ["CUT", "Log"]

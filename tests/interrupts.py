"""An exception at any line of the library, as Ctrl-C or a lack of memory raise it."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from privrl.samplers import base as samplers

REFUSED = (ValueError, OSError)  # of which LedgerError is one


def free_what_no_signal_holds() -> None:
    """A tracer strikes between a body and the end of its `with`, where no signal does."""
    while samplers._drawing._is_owned():  # type: ignore[attr-defined] # of RLock
        samplers._drawing.release()


class Interrupter:
    """Raise an exception at the n-th line that a call runs in the library, but for planning.

    Planning comes after a release, and is made of nothing else. If ``each`` is false, a line counts
    when it is first run.
    """

    def __init__(
        self,
        at: int | None,
        error: type[BaseException] = KeyboardInterrupt,
        *,
        each: bool = True,
    ) -> None:
        self.at, self.error, self.seen = at, error, 0
        self._known: set[tuple[str, int]] | None = None if each else set()

    def __call__(self, call: Callable[[], Any]) -> BaseException | None:
        """Make the call, and return what was raised, if that was this exception or a refusal."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        raised: BaseException | None = None
        try:
            call()
        except (self.error, *REFUSED) as error:
            raised = error
        finally:
            sys.settrace(before)
        free_what_no_signal_holds()
        try:
            return raised
        finally:
            # Its traceback refers to this frame: a connection to the ledger would stay open, and
            # locked, until the collector of garbage finds that circle.
            del raised

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        module = frame.f_globals.get("__name__", "")
        wanted = module.startswith("privrl.") and not module.startswith("privrl.envs")
        return self._step if wanted else None

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and (self._known is None or place not in self._known):
            if self._known is not None:
                self._known.add(place)
            self.seen += 1
            if self.seen == self.at:
                raise self.error
        return self._step

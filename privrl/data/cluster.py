"""Work on a Dask cluster: what is private stays there, and what comes back was asked for."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


class OnCluster:
    """What has its parts on a cluster.

    Attributes
    ----------
    client : distributed.Client
        Of the cluster.
    """

    client: Any

    def submit(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return what a function makes, on the cluster, of parts and of what was made of them.

        It is kept there for as long as it is held here, and made again where a worker dies: the
        function must be pure.
        """
        return self.client.submit(function, *given, pure=False)

    def result(self, made: Any) -> Any:
        """Return what was made, here.

        Raises
        ------
        ChildProcessError
            If workers died of it again and again.
        """
        try:
            return made.result()
        except import_module("distributed").KilledWorker as error:
            raise ChildProcessError(
                "workers died again and again of one part of the data. Memory is the usual reason; "
                "write more and smaller files, or take fewer workers to a machine."
            ) from error

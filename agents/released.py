"""What agents state of released models that they learn in, beside their own cost.

An environment that plays a released model, and its tables, are the release of somebody's records.
What is learned there is made of it, so statements name its cost, under ``environments``. It is not
added: the records are others than the agent's steps.
"""

import copy
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from gymnasium.vector import VectorEnv

from privrl.envs.tabular import released_in
from privrl.files.chosen import MayBeChosen, caveats_of, mark_as
from privrl.files.sharing import SECRET
from privrl.files.states import settings_digest, settings_of

Stated = tuple[dict[str, Any] | None, ...]
"""The cost of each model; None for a fit without privacy."""

_KEPT: Final = ("unit", "relation", "epsilon", "delta", "order", "randomness", "caveats")


def learns_in(agent: Any, env: object) -> None:
    """Have an agent state from now on what the released models of an environment cost."""
    for model in {id(each): each for each in _models_in(env)}.values():
        new = [each for each in _stated(model) if each not in agent._environments]
        agent._environments = (*agent._environments, *new)
        mark_as(model, agent)


def with_environments(guarantee: dict[str, Any], models: Stated) -> dict[str, Any] | None:
    """Return a guarantee that covers released models as well; None if one was not private."""
    stated = [copy.deepcopy(each) for each in models if each is not None]
    if len(stated) < len(models):
        return None
    if not stated:
        return guarantee
    every = (guarantee, *stated)
    kinds = (each.get("randomness") for each in every)
    return guarantee | {
        "randomness": next((kind for kind in kinds if kind != SECRET), SECRET),
        "caveats": list(dict.fromkeys(said for each in every for said in each.get("caveats", ()))),
        "environments": stated,
    }


def _models_in(env: object) -> Iterator[MayBeChosen]:
    """Return the released models behind an environment, or behind each of a vector."""
    bare: Any = getattr(env, "unwrapped", env)
    if isinstance(bare, VectorEnv):
        for each in getattr(bare, "envs", ()):
            yield from _models_in(each)
        if not hasattr(bare, "envs"):  # those that live in other processes are made once more
            for make in getattr(bare, "env_fns", ()):
                with closing(make()) as each:
                    yield from _models_in(each)
    yield from released_in(bare)


def _stated(model: Any) -> Stated:
    """Return what a model states of its cost, with a digest that tells it from others."""
    if model.statement is None:
        return (None,)
    parts = {name: part for name, part in settings_of(model).items() if not name.startswith("_")}
    own = {name: model.statement[name] for name in _KEPT if name in model.statement}
    own["caveats"] = list(dict.fromkeys((*own["caveats"], *caveats_of(model))))
    said = {"id": settings_digest(parts)} | own
    return (said, *copy.deepcopy(model.statement.get("environments", ())))

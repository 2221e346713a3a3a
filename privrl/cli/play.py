"""privrl play."""

import math
from dataclasses import asdict
from typing import Annotated

import typer

from privrl.cli.answers import AsJson, answering
from privrl.cli.playing import (
    DEFAULT_OUT,
    Env,
    EnvArgs,
    Saved,
    Seed,
    open_saved,
    print_shares,
)
from privrl.cli.terminal import app, friendly

_SURE = 1.96  # standard errors: 95 %


@app.command("play")
def play_command(
    saved: Saved = DEFAULT_OUT,
    env: Env = None,
    env_arg: EnvArgs = None,
    episodes: Annotated[int, typer.Option(help="How many episodes to play.")] = 1000,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Play a policy that was saved, and tell its reward.

    It is asked as Policy.load(...).predict(observation, step) asks it. That costs no privacy of
    those it was learned from.

    Example: privrl play results/train --episodes 100
    """
    with friendly(), answering(as_json) as answer:
        import numpy as np

        from privrl.envs.worth import worth
        from privrl.experiments.training.playing import play_policy
        from privrl.numerics.checks import check_count

        check_count("episodes", episodes)
        if seed is not None:
            check_count("seed", seed, least=0)
        policy, made = open_saved(saved, env, env_arg)
        try:
            earned = play_policy(policy, made, episodes, np.random.default_rng(seed))
            value = worth(made, policy.actions)
        finally:
            made.close()
        error = _SURE * earned.std(ddof=1) / math.sqrt(episodes) if episodes > 1 else math.inf
        name = f"policy.json, {episodes} episodes played"
        rows = [(f"{name} (± {error:.2g})" if episodes > 1 else name, float(earned.mean()))]
        if value is not None:
            rows = [
                ("the best there is", value.optimum),
                ("policy.json, expected", value.policy),
                *rows,
                ("random actions", value.random),
            ]
        title = policy.env if made.spec is None else made.spec.id
        print_shares(
            f"Reward of one episode of {title}, the sum over its {policy.horizon} steps or fewer",
            rows,
            value,
        )
        answer |= {
            "env": title,
            "episodes": episodes,
            "reward": float(earned.mean()),
            "half_width": error if episodes > 1 else None,  # of 95 % confidence
            "worth": None if value is None else asdict(value),
        }

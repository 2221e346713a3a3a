"""privrl play and privrl watch: saved policies, and tables of rewards."""

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl.cli import numeric, outputs
from privrl.cli.answers import command, named
from privrl.cli.outputs import Force
from privrl.cli.terminal import OUT, print_files
from privrl.files.shown import shown

if TYPE_CHECKING:
    import gymnasium as gym

    from privrl.envs.worth import Worth
    from privrl.experiments.training import TrainSpec
    from privrl.experiments.training.playing import Playable

DEFAULT_OUT: Final = Path("results/train")
"""The folder that privrl train writes to by default."""

Saved = Annotated[
    Path,
    typer.Argument(
        help="The folder that privrl train wrote, or a policy.json; where states are numbers, the "
        "folder of privrl fit-policy, or of fit-model: a plan is played there."
    ),
]
Env = Annotated[
    str | None,
    typer.Option(
        "--env",
        help="Environment id, or the folder of a model whose states are numbers; by default that "
        "of the training.",
    ),
]
EnvArgs = Annotated[
    list[str] | None,
    typer.Option("--env-arg", help="Argument of the environment, name=value; repeatable."),
]
_SURE = 1.96  # standard errors: 95 %
Seed = Annotated[int | None, "Seed of the environment, for repeatable episodes."]


@contextmanager
def _opened(
    saved: Path, env: str | None, env_args: list[str] | None, seed: int | None, *render: str
) -> Iterator["tuple[Playable, gym.Env[Any, Any]]"]:
    """Have a saved policy and its environment, which is closed in the end."""
    from privrl.numerics.checks import check_count

    if seed is not None:
        check_count("seed", seed, least=0)
    policy, made = _saved(saved, env, env_args, *render)
    try:
        yield policy, made
    finally:
        made.close()


def _saved(
    saved: Path, env: str | None, env_args: list[str] | None, *render: str
) -> "tuple[Playable, gym.Env[Any, Any]]":
    from privrl.agents import Policy
    from privrl.continuous import ContinuousPolicy
    from privrl.experiments.names import check_no_module, make_env, plain_env

    trained = (saved / "train.json").exists()
    if not trained and (numbers := numeric.saved_policy(saved)) is not None:
        plan, model = numbers
        name, *own = numeric.env_of(env, model)
        with _made(name, *render):
            made = plain_env(name, (*own, *(env_args or ()), *render))
        return plan, made
    spec = None
    if saved.is_dir():
        spec = _spec_of(saved)
        saved /= "policy.json"
    if not saved.exists():
        raise ValueError(
            f"saved must be a folder that privrl train wrote, got {str(saved)!r}, which does not "
            "exist; train first, or name the folder."
        )
    policy = (
        ContinuousPolicy.load(saved.parent) if numeric.is_numeric(saved) else Policy.load(saved)
    )
    name = env or (spec.env if spec else getattr(policy, "env", "")) or ""
    if not name:
        raise ValueError("env must be given: the policy does not name its environment.")
    if not env:
        check_no_module(name, "the saved policy")
    here = spec if spec is not None and spec.env == name else None
    args = env_args or (here.env_args if here else ())
    as_trained: dict[str, Any] = {}
    if here:
        as_trained = {"bins": here.bins, "horizon": here.horizon, "ranges": here.ranges}
    with _made(name, *render):
        numbers_seen = isinstance(policy, ContinuousPolicy)
        made = make_env(name, (*args, *render), continuous=numbers_seen, **as_trained)
    return policy, made


@contextmanager
def _made(name: str, *render: str) -> Iterator[None]:
    """Find modules here, which were typed, and say if an environment cannot be watched."""
    if ":" in name and not sys.flags.safe_path:
        sys.path.append(os.getcwd())  # as python -m does, unlike scripts
    try:
        yield
    except ValueError as error:
        if render and "'render_mode'" in str(error):  # it cannot render
            raise ValueError(
                f"env must have render_mode rgb_array to be watched, and {shown(name)} does not; "
                "privrl play prints its reward."
            ) from None
        raise


def _spec_of(folder: Path) -> "TrainSpec":
    """Return the settings of a folder's run, once its policy's checksum was verified."""
    from privrl.experiments.training import TrainSpec
    from privrl.files import files as _files
    from privrl.files.files import STATEMENT
    from privrl.files.plain import parse_json

    try:
        said = parse_json(_files.read_bytes(folder / "train.json").decode())
        spec, digest = TrainSpec.from_dict(said["spec"]), said["sha256"]["policy.json"]
    except FileNotFoundError:
        if (folder / STATEMENT).exists():
            raise ValueError(
                f"saved must be a folder that privrl train wrote, got {str(folder)!r}, which is of "
                "a release; its policy names no environment, and privrl.offline.load_policy reads "
                "it."
            ) from None
        raise ValueError(
            f"saved must be a folder that privrl train wrote, got {str(folder)!r} without "
            "train.json; train first, or give a policy.json and --env."
        ) from None
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"train.json in {str(folder)!r} must be what privrl train wrote with policy.json: "
            f"{error}"
        ) from None
    try:
        _files.read_own(folder / "policy.json", digest)
    except ValueError as error:
        raise ValueError(f"policy.json {error}") from None
    return spec


def share_text(worth: "Worth | None", value: float) -> str:
    """Return the place of a value between random actions and the optimum, in percent."""
    share = None if worth is None else worth.share(value)
    return "" if share is None else f"{round(100 * share)} %"


def reward_title(env: str, policy: "Playable") -> str:
    """Return of what rewards are; a `ContinuousPolicy` does not depend on the horizon."""
    horizon = getattr(policy, "horizon", None)
    steps = "steps" if horizon is None else f"{horizon} steps or fewer"
    return f"Reward of one episode of {env}, the sum over its {steps}"


def print_shares(title: str, rows: "Sequence[tuple[str, float]]", worth: "Worth | None") -> None:
    """Print rewards of an episode, and their places between random actions and the optimum."""
    OUT.print(escape(title))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("reward", justify="right")
    if worth is not None:
        table.add_column("share of the optimum", justify="right")
    for name, value in rows:
        place = [] if worth is None else [share_text(worth, value)]
        table.add_row(name, f"{value:.4g}", *place)
    OUT.print(table)
    if worth is not None:
        OUT.print("share: 0 % is random actions, 100 % the optimal policy's expected return")
        if any((worth.share(value) or 0.0) > 1 for _, value in rows):
            OUT.print("a mean of played episodes may exceed 100 % by chance")


@command("play")
def play_command(
    answer: dict[str, Any],
    saved: Saved = DEFAULT_OUT,
    env: Env = None,
    env_arg: EnvArgs = None,
    episodes: int = 1000,
    seed: Seed = None,
) -> None:
    """Play a saved policy and print its reward.

    Actions are those of Policy.load(...).predict(observation, step). Playing costs no privacy.

    Example: privrl play results/train --episodes 100

    Parameters
    ----------
    episodes
        How many episodes to play.
    """
    import numpy as np

    from privrl.agents import Policy
    from privrl.envs.worth import worth
    from privrl.experiments.training.playing import play_policy
    from privrl.numerics.checks import check_count

    check_count("episodes", episodes)
    with _opened(saved, env, env_arg, seed) as (policy, made):
        earned = play_policy(policy, made, episodes, np.random.default_rng(seed))
        value = worth(made, policy.actions) if isinstance(policy, Policy) else None
    error = _SURE * earned.std(ddof=1) / math.sqrt(episodes) if episodes > 1 else math.inf
    name = f"policy.json, {episodes} episodes played"
    rows = [(f"{name} (± {error:.2g})" if episodes > 1 else name, float(earned.mean()))]
    if value is not None:
        rows = [
            ("optimal policy, expected", value.optimum),
            ("policy.json, expected", value.policy),
            *rows,
            ("random actions", value.random),
        ]
    title = policy.env if isinstance(policy, Policy) else "the environment"
    title = title if made.spec is None else made.spec.id
    print_shares(reward_title(title, policy), rows, value)
    answer |= {
        "env": title,
        "episodes": episodes,
        "reward": float(earned.mean()),
        "half_width": error if episodes > 1 else None,  # of 95 % confidence
        "worth": None if value is None else asdict(value),
    }


@command("watch")
def watch_command(
    answer: dict[str, Any],
    saved: Saved = DEFAULT_OUT,
    env: Env = None,
    env_arg: EnvArgs = None,
    human: Annotated[bool, typer.Option("--human")] = False,
    strip: Annotated[bool, typer.Option("--strip")] = False,
    fps: float | None = None,
    seed: Seed = None,
    out: Path | None = None,
    force: Force = False,
) -> None:
    """Show an episode of a saved policy.

    Writes episode.gif, an animation; with --strip, episode.png with up to twelve pictures. With
    --human it opens a window and writes nothing. Watching costs no privacy.

    Example: privrl watch results/train --seed 1

    Parameters
    ----------
    human
        Show it in a window.
    strip
        Write pictures side by side.
    fps
        Pictures per second; by default the environment's.
    out
        Folder for the file; by default that of the policy.
    """
    from privrl.experiments.training import frames
    from privrl.files import files as _files
    from privrl.numerics.checks import check_positive

    if human and strip:
        raise ValueError("give --human (a window) or --strip (a file), not both.")
    if fps is not None:
        check_positive("fps", fps)
    name = "episode.png" if strip else "episode.gif"
    out = (saved if saved.is_dir() else saved.parent) if out is None else out
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a screen
    with _opened(saved, env, env_arg, seed, "render_mode=rgb_array") as (policy, made):
        if not human:
            outputs.check_new(out, [name], force=force)
        pictures = list(frames.frames(policy, made, seed))
        speed = frames.fps_of(made) if fps is None else fps
    answer["steps"] = len(pictures) - 1
    if human:
        frames.show(pictures, speed)
        return
    if strip:
        write = lambda file: frames.write_strip(file, pictures)  # noqa: E731
    else:
        write = lambda file: frames.write_gif(file, pictures, speed)  # noqa: E731
    written = _files.save_all(out, {name: write})
    print_files(written)
    answer["files"] = named(written)
    steps = "1 step" if len(pictures) == 2 else f"{len(pictures) - 1} steps"
    title = made.spec.id if made.spec is not None else "the environment"
    OUT.print(f"{steps} of {title}", markup=False)

"""What train, play and watch share: runs that were saved, and tables of rewards."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from privrl.cli.terminal import OUT
from privrl.files.shown import shown

if TYPE_CHECKING:
    import gymnasium as gym

    from privrl.agents import Policy
    from privrl.envs.worth import Worth
    from privrl.experiments.training import TrainSpec

DEFAULT_OUT: Final = Path("results/train")
"""Where privrl train writes, and others read."""

Saved = Annotated[
    Path, typer.Argument(help="The folder that privrl train wrote, or a policy.json.")
]
Env = Annotated[
    str | None, typer.Option("--env", help="Where, if not where it was trained: an id.")
]
EnvArgs = Annotated[
    list[str] | None,
    typer.Option("--env-arg", help="What it is made with, name=value; give it again for each."),
]
Seed = Annotated[int | None, typer.Option(help="Of the environment, to repeat what is seen.")]


def open_saved(
    saved: Path, env: str | None, env_args: list[str] | None, *render: str
) -> "tuple[Policy, gym.Env[Any, Any]]":
    """Return a policy that was saved, and the environment that it is for.

    Raises
    ------
    ValueError
        If there is no policy, it is not the one that its statement is about, or nothing says where.
    """
    from privrl.agents import Policy
    from privrl.experiments.names import make_env

    spec = None
    if saved.is_dir():
        spec = _spec_of(saved)
        saved /= "policy.json"
    if not saved.exists():
        raise ValueError(
            f"saved must be a folder that privrl train wrote, got {str(saved.parent)!r} without "
            f"{saved.name}; train first, or name the folder."
        )
    policy = Policy.load(saved)
    name = env or (spec.env if spec else policy.env)
    if not name:
        raise ValueError("env must be given: the policy does not say where it is for.")
    if ":" in name and not sys.flags.safe_path:
        sys.path.append(os.getcwd())  # where python -m looks for modules, and scripts do not
    here = spec if spec is not None and spec.env == name else None
    args = env_args or (here.env_args if here else ())
    bins, horizon = (here.bins, here.horizon) if here else (None, None)
    try:
        return policy, make_env(name, (*args, *render), bins=bins, horizon=horizon)
    except ValueError as error:
        if render and "'render_mode'" in str(error):  # it knows of none
            raise ValueError(
                f"env must draw pictures to be watched, and {shown(name)} does not; privrl play "
                "tells its reward."
            ) from None
        raise


def _spec_of(folder: Path) -> "TrainSpec":
    """Return what a folder's run was, after a look at whether its policy is the one it made."""
    from privrl.experiments.training import TrainSpec
    from privrl.files import files as _files
    from privrl.files.plain import parse_json

    try:
        said = parse_json(_files.read_bytes(folder / "train.json").decode())
        spec, digest = TrainSpec.from_dict(said["spec"]), said["sha256"]["policy.json"]
    except FileNotFoundError:
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
    """Return how far a value is from random actions to the optimum, in percent."""
    share = None if worth is None else worth.share(value)
    return "" if share is None else f"{round(100 * share)} %"


def print_shares(title: str, rows: "Sequence[tuple[str, float]]", worth: "Worth | None") -> None:
    """Show rewards of an episode, and how far each is from random actions to the optimum."""
    OUT.print(escape(title))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("reward", justify="right")
    if worth is not None:
        table.add_column("share of the optimum", justify="right")
    for name, value in rows:
        shares = [] if worth is None else [share_text(worth, value)]
        table.add_row(name, f"{value:.4g}", *shares)
    OUT.print(table)
    if worth is not None:
        OUT.print("share: how far from random actions (0 %) to the best there is (100 %)")

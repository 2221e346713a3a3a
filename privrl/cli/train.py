"""privrl train."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privrl.cli.terminal import ERR, OUT, app, bar, command_line, friendly, numbers, print_files
from privrl.numerics.printing import up

if TYPE_CHECKING:
    pass


@app.command()
def train(
    env: Annotated[str, typer.Option(help="Gymnasium id of an environment with Discrete spaces.")],
    episodes: Annotated[int, typer.Option(help="Episodes to train for.")] = 1000,
    horizon: Annotated[
        int | None,
        typer.Option(help="Steps of an episode; by default the environment's limit, or 100."),
    ] = None,
    sampler: Annotated[
        str,
        typer.Option(
            help="non-private, diffuse, concentrated, noisy-counts, noisy-counts:optimal, "
            "noisy-counts:tree, noisy-counts:independent or local-counts."
        ),
    ] = "noisy-counts",
    schedule: Annotated[
        str, typer.Option(help="every-episode, geometric or geometric:RATIO.")
    ] = "geometric:1.05",
    epsilon: Annotated[float, typer.Option(help="Budget of the whole run, in nats.")] = 1.0,
    order: Annotated[float, typer.Option(help="Rényi order of the budget, > 1.")] = 2.0,
    delta: Annotated[float, typer.Option(help="At which (epsilon, delta) is reported.")] = 1e-5,
    relation: Annotated[
        str,
        typer.Option(
            help="Privacy unit: replace-transition, replace-step, replace-episode, paper-step."
        ),
    ] = "replace-step",
    alpha: Annotated[float, typer.Option(help="Prior pseudo-count of a transition.")] = 1.0,
    reward_alpha: Annotated[float, typer.Option(help="Prior pseudo-count of a reward.")] = 1.0,
    reward_share: Annotated[float, typer.Option(help="Part of the budget for rewards.")] = 1 / 3,
    reward_range: Annotated[
        str | None,
        typer.Option(
            help="Public range of the rewards, LOW,HIGH; by default that of the environment's "
            "tables, or 0,1."
        ),
    ] = None,
    support: Annotated[
        bool, typer.Option(help="Possible next states are public, as the environment's tables say.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            help="For repeatable research only: who knows the seed can undo the noise. By default "
            "fresh randomness."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("results/train"),
) -> None:
    """Train one private agent on a Gymnasium environment.

    Rewards are taken to depend on the state that is arrived in, which costs more, unless the
    environment's own tables show that they do not.

    Writes policy.npy (the private policy: an action for each step and state), record.csv (what
    the agent earned: the researcher's view, not covered by the guarantee) and train.json.
    """
    with friendly():
        from privrl import _files
        from privrl.experiments.training.run import TrainSpec, run_training

        spec = TrainSpec(
            env=env,
            episodes=episodes,
            horizon=horizon,
            sampler=sampler,
            schedule=schedule,
            epsilon=epsilon,
            order=order,
            delta=delta,
            relation=relation,
            alpha=alpha,
            reward_alpha=reward_alpha,
            reward_share=reward_share,
            reward_range=None if reward_range is None else numbers("reward-range", reward_range),
            support=support,
            seed=seed,
        )
        _files.check_folder(out)
        with bar("training", spec.episodes) as on_progress:
            result = run_training(spec, on_progress=on_progress)
        written = _files.save_all(
            out,
            {
                "policy.npy": _files.array_writer(result.policy),
                "record.csv": _files.table_writer(result.record),
                "train.json": _files.json_writer(
                    {"command": command_line("train", spec.to_dict()), "spec": spec.to_dict()}
                    | {"guarantee": result.guarantee}
                ),
            },
        )
        rewards = result.record["reward"]
        last = max(1, len(rewards) // 10)
        OUT.print(
            f"mean reward of an episode of at most {len(result.policy)} steps: "
            f"{rewards.mean():.4g} over all {len(rewards)}, "
            f"{rewards.tail(last).mean():.4g} over the last {last}"
        )
        _print_guarantee(result.guarantee)
        print_files(written)


def _print_guarantee(guarantee: dict[str, Any]) -> None:
    if guarantee["epsilon"] is None:
        OUT.print("no privacy guarantee: the sampler is non-private")
        return
    if guarantee["caveats"]:
        ERR.print(f"[yellow]no guarantee:[/] {'; '.join(guarantee['caveats'])}")
    OUT.print(
        f"policy.npy cost: Rényi divergence of order {guarantee['order']:g} at most "
        f"{up(guarantee['epsilon'])}, and ({up(guarantee['epsilon_delta'])}, "
        f"{guarantee['delta']!r})-differential privacy; privacy unit: {guarantee['relation']}; "
        f"{guarantee['draws']} draws"
    )

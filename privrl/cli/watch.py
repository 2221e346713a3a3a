"""privrl watch."""

import os
from pathlib import Path
from typing import Annotated

import typer

from privrl.cli import outputs
from privrl.cli.answers import AsJson, answering, named
from privrl.cli.outputs import Force
from privrl.cli.playing import DEFAULT_OUT, Env, EnvArgs, Saved, Seed, open_saved
from privrl.cli.terminal import OUT, app, friendly, print_files


@app.command("watch")
def watch_command(
    saved: Saved = DEFAULT_OUT,
    env: Env = None,
    env_arg: EnvArgs = None,
    human: Annotated[bool, typer.Option("--human", help="Show it in a window.")] = False,
    strip: Annotated[bool, typer.Option("--strip", help="Write pictures side by side.")] = False,
    fps: Annotated[
        float | None, typer.Option(help="Pictures a second; by default the environment's.")
    ] = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the file; by default that of the policy.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show an episode of a policy that was saved.

    Writes episode.gif, an animation; with --strip episode.png, up to twelve pictures of it; or,
    with --human, opens a window and writes nothing. It costs no privacy of those the policy was
    learned from.

    Example: privrl watch results/train --seed 1
    """
    with friendly(), answering(as_json) as answer:
        from privrl.experiments.training import frames
        from privrl.files import files as _files
        from privrl.numerics.checks import check_count, check_positive

        if human and strip:
            raise ValueError("human shows a window and strip writes a file; give one of them.")
        if seed is not None:
            check_count("seed", seed, least=0)
        if fps is not None:
            check_positive("fps", fps)
        name = "episode.png" if strip else "episode.gif"
        out = (saved if saved.is_dir() else saved.parent) if out is None else out
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws, and needs no screen
        policy, made = open_saved(saved, env, env_arg, "render_mode=rgb_array")
        try:
            if not human:
                outputs.check_new(out, [name], force=force)
            pictures = list(frames.frames(policy, made, seed))
            speed = frames.fps_of(made) if fps is None else fps
        finally:
            made.close()
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
        OUT.print(f"{steps} of {policy.env or 'the environment'}", markup=False)

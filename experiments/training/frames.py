"""An episode in pictures: an animation, a strip, or a window."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from privrl.experiments.training.playing import Moment, Playable, moments

_CAPTION, _LETTERS = 30, 16  # pixels
_SMALLEST: Final = 360  # pixels wide, so that the caption fits
_ACROSS, _MOST = 4, 12  # pictures of a strip: in a row (half as many wide ones), and in all
_GAP = 8  # pixels between them
_FPS: Final = 4
_STAYS: Final = 5  # as many times as others, the last picture is shown
_LONGEST: Final = 1000  # steps that are drawn

Frame = NDArray[np.uint8]


def frames(policy: Playable, env: gym.Env[Any, Any], seed: int | None = None) -> Iterator[Frame]:
    """Play one episode, and draw each moment of it with a line of what happened.

    Parameters
    ----------
    policy, env, seed
        See `privrl.experiments.training.playing.moments`. The environment is made with
        ``render_mode="rgb_array"``.

    Raises
    ------
    ValueError
        If it draws no pictures, or the policy is not for it.
    """
    for moment in moments(policy, env, seed):
        if moment.step > _LONGEST:
            return
        yield _captioned(_picture(env), moment)


def _picture(env: gym.Env[Any, Any]) -> Frame:
    # Gymnasium's checker stops with an assertion at a mode that an environment does not list.
    draws = env.render_mode == "rgb_array" and "rgb_array" in env.metadata.get("render_modes", ())
    try:
        picture = env.render() if draws else None
    except gym.error.DependencyNotInstalled as error:
        raise ValueError(f"env cannot be drawn: {error}.") from error
    if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
        raise ValueError(
            "env must draw pictures to be watched, by render_mode='rgb_array', and does not; "
            "privrl play tells its reward."
        )
    return picture.astype(np.uint8)


def _captioned(picture: Frame, moment: Moment) -> Frame:
    high, wide, _ = picture.shape
    page = Image.new("RGB", (max(wide, _SMALLEST), high + _CAPTION), "white")
    page.paste(Image.fromarray(picture), ((page.width - wide) // 2, 0))
    said = f"step {moment.step}"
    if moment.step:
        said += f": {moment.action}, reward {moment.reward:g}, in all {moment.total:.4g}"
    font = ImageFont.load_default(_LETTERS)
    ImageDraw.Draw(page).text((8, high + 6), said, fill="#222222", font=font)
    return np.asarray(page)


def fps_of(env: gym.Env[Any, Any]) -> float:
    """Return how many pictures a second an environment wants."""
    return float(env.metadata.get("render_fps") or _FPS)


def write_gif(file: BinaryIO, pictures: Sequence[Frame], fps: float) -> None:
    """Write an animation that repeats for ever; the last picture of it stays a while."""
    pages = [Image.fromarray(each).quantize(256, dither=Image.Dither.NONE) for each in pictures]
    times = [round(1000 / fps)] * len(pages)
    times[-1] *= _STAYS
    pages[0].save(
        file, format="GIF", save_all=True, append_images=pages[1:], duration=times, loop=0
    )


def write_strip(file: BinaryIO, pictures: Sequence[Frame]) -> None:
    """Write some of the pictures side by side, the first and the last among them."""
    chosen = np.linspace(0, len(pictures) - 1, min(len(pictures), _MOST)).round().astype(int)
    high, wide, _ = (size + _GAP for size in pictures[0].shape)
    across = min(_ACROSS if wide < 2 * high else _ACROSS // 2, len(chosen))
    down = math.ceil(len(chosen) / across)
    page = Image.new("RGB", (across * wide - _GAP, down * high - _GAP), "white")
    for place, number in enumerate(chosen):
        row, column = divmod(place, across)
        page.paste(Image.fromarray(pictures[number]), (column * wide, row * high))
    page.save(file, format="PNG")


def show(pictures: Sequence[Frame], fps: float) -> None:
    """Show pictures one after the other in a window, for environments that have none.

    Raises
    ------
    ValueError
        If no window can be opened.
    """
    from matplotlib import pyplot  # noqa: PLC0415 # slow to load, and for windows alone

    figure, axes = pyplot.subplots(layout="constrained")
    if type(figure.canvas).required_interactive_framework is None:
        pyplot.close(figure)
        raise ValueError("human needs a screen to open a window on, got none; leave it out.")
    axes.axis("off")
    image = axes.imshow(pictures[0])
    for picture in pictures:
        image.set_data(picture)
        pyplot.pause(1 / fps)
    pyplot.close(figure)

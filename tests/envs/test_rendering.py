import numpy as np
import pytest

from privrl.envs import riverswim
from privrl.envs.riverswim import RiverSwimEnv
from privrl.envs.riverswim_render import ansi, rgb_array


def test_text_shows_the_river():
    assert ansi(riverswim(), 0, None) == "0.005 |~@~~o~~o~~o~~o~~o~| 1\nstate 0, start\n"
    assert ansi(riverswim(3, variant="strehl"), 2, 1) == (
        "5 |~o~~o~~>~| 10000\nstate 2, swam right\n"
    )
    assert ansi(riverswim(4, variant="dps"), 1, 0) == (
        "0.005 |~o~~<~~o~~o~| 1\nstate 1, swam left\n"
    )


@pytest.mark.few(12)
@pytest.mark.parametrize("n_states", [3, 6, 40, 300])
def test_picture_is_an_image_of_reasonable_size(n_states):
    picture = rgb_array(n_states, n_states - 1, 1)
    height, width, channels = picture.shape
    assert picture.dtype == np.uint8
    assert channels == 3
    assert 16 <= height <= 300
    assert width <= 9 * 301


def swimmer_columns(picture):
    """Columns with the orange of the swimmer's cap, which nothing else has."""
    red, green, blue = np.moveaxis(picture.astype(int), -1, 0)
    return np.flatnonzero(((red > 200) & (green < 110) & (blue < 40)).any(axis=0))


@pytest.mark.few(9)
@pytest.mark.parametrize("action", [None, 0, 1])
@pytest.mark.parametrize("n_states", [3, 6, 12])
def test_the_swimmer_is_where_it_should_be(n_states, action):
    for state in range(n_states):
        picture = rgb_array(n_states, state, action)
        unit = picture.shape[1] / (n_states + 1)
        columns = swimmer_columns(picture) / unit
        assert len(columns)
        assert (np.abs(columns - (state + 1)) < 0.3).all()


def test_the_swimmer_faces_the_way_it_swam():
    start, left, right = (rgb_array(6, 3, action) for action in (None, 0, 1))
    np.testing.assert_array_equal(start, right)
    assert (left != right).any()
    assert swimmer_columns(left).min() < swimmer_columns(right).min()


def test_pictures_do_not_share_memory():
    first = rgb_array(6, 0, None)
    second = rgb_array(6, 0, None)
    first[:] = 0
    np.testing.assert_array_equal(rgb_array(6, 0, None), second)


def test_the_environment_renders_its_state():
    env = RiverSwimEnv(render_mode="ansi")
    env.reset(seed=0)
    assert "state 0, start" in env.render()
    env.step(0)
    assert "state 0, swam left" in env.render()
    env.reset()
    assert "state 0, start" in env.render()

    env = RiverSwimEnv(render_mode="rgb_array", variant="dps")
    env.reset(seed=0)
    np.testing.assert_array_equal(env.render(), rgb_array(6, 1, None))


def test_no_render_mode_warns_and_shows_nothing():
    env = RiverSwimEnv()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None

"""What can go wrong with an input, at the level of its structure: plain data, texts, bytes, files.

Everything is drawn from a `random.Random`, whoever made it: a numbered case of the runner, a search
of hypothesis that shrinks what it finds, or bytes that atheris chose.
"""

import copy
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import tomli_w

DEEP = 3000  # brackets within brackets, beyond Python's own limit

NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 7, -0.0, 0.5, 1.0, 1.5, -2.5, 1e-300, 5e-324, 1e300, 1.7e308),
    *(math.nan, math.inf, -math.inf, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64),
    *(10**22, 10**400, -(10**400), True, False),
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "nan",
        "inf",
        "-0",
        "1e999",
        "0x10",
        "1_000",
        "١٢",
        "true",
        "None",
        "[red]b[/]",
    ),
    *("[/]", "\x1b[31m", "\0", "a\0b", "\ufeff", "e\u0301", "\u202e", "\U0001f600", "a\nb", "a,b"),
    *('"', "'", "\\", "{0}", "%s%n", "..", ".", "~", "-", "--", "$HOME", "*", "a" * 300),
)
WORDS: tuple[Any, ...] = (None, [], {}, [[]], {"": {}}, {"a": [None]}, [0, [1, [2]]])


def number(r: Random) -> Any:
    """Return a number, seldom one that is wanted."""
    return r.choice(NUMBERS) if r.random() < 0.8 else r.choice((-1, 1)) * 10 ** r.uniform(-30, 30)


def text(r: Random) -> str:
    """Return a text, seldom one that is wanted."""
    if r.random() < 0.7:
        return r.choice(TEXTS)
    if r.random() < 0.2:
        return r.choice('a\u00e9\U0001f600" ,\t') * r.choice((1000, 70_000, 200_000))
    return "".join(
        chr(r.choice((r.randrange(32, 127), r.randrange(0xD7FF)))) for _ in range(r.randrange(9))
    )


def scalar(r: Random) -> Any:
    """Return plain data that stand for one thing."""
    return r.choice((number, text, lambda r: copy.deepcopy(r.choice(WORDS))))(r)


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Return every place of a tree: what holds it, and under which key."""
    found, todo = [], [data]
    while todo:
        node = todo.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                todo.append(node[key])
    return found


def _own(data: Any) -> Any:
    """Return a copy whose tables and lists can be changed, also where those of data cannot."""
    if isinstance(data, Mapping):  # a read-only view of one cannot be copied
        return {key: _own(each) for key, each in data.items()}
    return list(map(_own, data)) if isinstance(data, list) else copy.deepcopy(data)


def plain(r: Random, data: Any, times: int | None = None) -> Any:
    """Return plain data of which entries were dropped, doubled, moved, or are of another type."""
    box = [_own(data)]
    for _ in range(r.choice((1, 1, 1, 2, 3)) if times is None else times):
        places = _places(box)
        if not places:
            break
        node, key = r.choice(places if r.random() < 0.05 else places[1:] or places)
        r.choice(_CHANGES)(r, node, key, places)
    return box[0] if box else None


def _replace(r: Random, node: Any, key: Any, _: Any) -> None:
    node[key] = scalar(r)


def _like(r: Random, node: Any, key: Any, _: Any) -> None:
    """Put another value of the same type."""
    value = node[key]
    if isinstance(value, str):
        node[key] = text(r)
    elif isinstance(value, int | float):
        node[key] = r.choice((number(r), value + 1, -value, value * 2, value // 2, str(value)))
    elif isinstance(value, list):
        node[key] = value[::-1] if r.random() < 0.5 else value + value
    else:
        node[key] = list(value.values()) if isinstance(value, dict) else scalar(r)


def _drop(r: Random, node: Any, key: Any, _: Any) -> None:
    del node[key]


def _double(r: Random, node: Any, key: Any, _: Any) -> None:
    if isinstance(node, list):
        node.insert(r.randrange(len(node) + 1), copy.deepcopy(node[key]))
    else:
        node[text(r) if r.random() < 0.5 else f"{key} "] = copy.deepcopy(node[key])


def _swap(r: Random, node: Any, key: Any, places: Any) -> None:
    other, place = r.choice(places)
    value = copy.deepcopy(other[place])
    other[place], node[key] = copy.deepcopy(node[key]), value


def _rename(r: Random, node: Any, key: Any, _: Any) -> None:
    if isinstance(node, dict):
        node[text(r)] = node.pop(key)
    else:
        node[key] = [node[key]]


def _wrap(r: Random, node: Any, key: Any, _: Any) -> None:
    node[key] = r.choice(([node[key]], {"a": node[key]}, [node[key]] * 50, str(node[key])))


_CHANGES = (_replace, _replace, _like, _like, _drop, _double, _swap, _rename, _wrap)


def json_text(r: Random, data: Any) -> str:
    """Return JSON, perhaps with what only Python's reader allows, or brackets without end."""
    made = json.dumps(data, indent=r.choice((None, 1)), ensure_ascii=r.random() < 0.5)
    if r.random() < 0.03:
        made = made.replace(r.choice(("0", "1", "null", '"')), "[" * DEEP, 1)
    if r.random() < 0.03 and made.startswith("{") and len(made) > 4:
        made = "{" + made[1:-1] + "," + made[1:]  # each entry twice
    return made


def toml_text(r: Random, data: Any) -> str:
    """Return TOML, where it has words for the data."""
    try:
        made = tomli_w.dumps(data)
    except (TypeError, ValueError, AttributeError, RecursionError):
        made = json.dumps(data)
    if r.random() < 0.03:
        made = made.replace("[", "[" * DEEP, 1)
    return made


def lines(r: Random, content: str) -> str:
    """Return a text of lines that were dropped, doubled, moved, cut, or have other marks."""
    for _ in range(r.choice((1, 1, 2, 3))):
        rows = content.split("\n")
        at, other = r.randrange(len(rows)), r.randrange(len(rows))
        match r.randrange(14):
            case 0:
                del rows[at]
            case 1:
                rows.insert(other, rows[at])
            case 2:
                rows[at], rows[other] = rows[other], rows[at]
            case 3:
                rows[at] = rows[at][: r.randrange(len(rows[at]) + 1)]
            case 4:
                rows[at] += r.choice((",", ",,,,", ";", "\t", '"', " ", "\r", "\0"))
            case 5:
                content = content.replace(",", r.choice((";", "\t", "|", ", ", " ,", ",,", '","')))
                continue
            case 6:
                content = content.replace("\n", r.choice(("\r\n", "\r", "\n\n", "\u2028", "\v")))
                continue
            case 7:
                content = r.choice(("\ufeff", "\ufeff\ufeff", "\n", "\n\n\n", "#", " ")) + content
                continue
            case 8:
                cells = rows[at].split(",")
                cells[r.randrange(len(cells))] = text(r)
                rows[at] = ",".join(cells)
            case 9:
                cells = rows[at].split(",")
                cells[r.randrange(len(cells))] = str(number(r)) if r.random() < 0.9 else "9" * 5000
                rows[at] = ",".join(cells)
            case 10:
                cells = rows[at].split(",")
                cells[r.randrange(len(cells))] = '"' + "\n" * r.randrange(3) + '"' * r.randrange(3)
                rows[at] = ",".join(cells)
            case 11:
                place = r.randrange(len(content) + 1)
                content = content[:place] + text(r) + content[place:]
                continue
            case 12:
                content = content[: r.randrange(len(content) + 1)]
                continue
            case 13:
                cells = rows[at].split(",")
                cells.insert(r.randrange(len(cells) + 1), r.choice(cells))
                rows[at] = ",".join(cells)
        content = "\n".join(rows)
    return content


def octets(r: Random, content: bytes) -> bytes:
    """Return bytes that were flipped, cut, doubled, zeroed or made up."""
    made = bytearray(content)
    for _ in range(r.choice((1, 1, 2, 5))):
        at = r.randrange(len(made) + 1)
        upto = min(len(made), at + r.choice((1, 4, 16, 512)))
        match r.randrange(7):
            case 0 if at < len(made):
                made[at] ^= 1 << r.randrange(8)
            case 1:
                del made[at:]
            case 2:
                made[at:upto] = bytes(upto - at)
            case 3:
                made[at:at] = made[at:upto]
            case 4:
                del made[at:upto]
            case 5:
                made[at:upto] = r.randbytes(upto - at)
            case _:
                made[at:at] = r.choice(
                    (b"\xff\xfe", b"\x80", b"\xed\xa0\x80", b"\0", b"\xef\xbb\xbf")
                )
    return bytes(made)


def encoded(r: Random, content: str) -> bytes:
    """Return a text as bytes: nearly always what it is, in UTF-8."""
    made = content.encode(errors="surrogatepass")
    chance = r.random()
    if chance < 0.15:
        return octets(r, made)
    if chance < 0.18:
        return content.encode(r.choice(("utf-16", "utf-32", "latin-1", "cp1252")), "replace")
    return made


def in_place(r: Random, path: Path) -> None:
    """Have something else where a file is: a folder, a link, a device, or nothing."""
    kept = path.with_name(f"kept-{path.name}")
    match r.randrange(8):
        case 0:
            path.unlink()
        case 1:
            path.unlink()
            path.mkdir()
        case 2:
            path.rename(kept)
            path.symlink_to(kept.name)
        case 3:
            path.unlink()
            path.symlink_to(path.name)  # to itself
        case 4:
            path.unlink()
            path.symlink_to("/dev/null")
        case 5:
            path.unlink()
            path.symlink_to("/dev/zero")
        case 6:
            path.write_bytes(b"")
        case _:
            content = path.read_bytes()
            path.unlink()
            os.mkfifo(path)
            feeder = Thread(target=_feed, args=(path, content), daemon=True)
            feeder.start()
            _FEEDERS.append((feeder, path))


_FEEDERS: list[tuple[Thread, Path]] = []


def _feed(path: Path, content: bytes) -> None:
    """Write into a pipe, once somebody reads from it."""
    with suppress(OSError), open(os.open(path, os.O_WRONLY), "wb") as pipe:  # a pipe that is there
        pipe.write(content)


def leave() -> None:
    """Let go of those who write into pipes that nobody read, before others have their names."""
    for feeder, path in _FEEDERS:
        for _ in range(100):  # one whose pipe was removed waits for good
            with suppress(OSError):
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            feeder.join(0.01)
            if not feeder.is_alive():
                break
    _FEEDERS.clear()


def write(r: Random, path: Path, content: str | bytes) -> Path:
    """Write a file, and seldom have something else in its place."""
    path.write_bytes(encoded(r, content) if isinstance(content, str) else content)
    if r.random() < 0.04:
        in_place(r, path)
    return path


def sometimes(r: Random, chance: float, change: Callable[..., Any], *given: Any) -> Any:
    """Return what a change makes of its last argument, or that as it is."""
    return change(r, *given) if r.random() < chance else given[-1]

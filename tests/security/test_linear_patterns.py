"""No pattern of the package takes more than a text's length, whatever the text holds.

The texts are derived from each pattern: what leads to one of its repeats, then many times what the repeat takes, then
something that ends the attempt. A new pattern is found by itself.
"""

import ast
import ctypes
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise, product
from time import thread_time
from types import ModuleType
from typing import Any, Final, NamedTuple, cast

import pytest

import nextcloud_mcp_server

#: Their texts are from the same computer: a test, a demonstration, or the user's own configuration files.
LEFT_OUT: Final = (
    "nextcloud_mcp_server.sandbox",
    "nextcloud_mcp_server.demo",
    "nextcloud_mcp_server.commands.client_config",
)
#: Patterns that are built from arguments, with such arguments.
BUILT: Final[Mapping[str, Mapping[str, object]]] = {
    "nextcloud_mcp_server.commands.console": {"variable": "NEXTCLOUD_HOST"},
    "nextcloud_mcp_server.formats.content_line": {"separator": ";"},
    "nextcloud_mcp_server.nextcloud.oauth2_admin": {"name": "clients"},
}

METHODS: Final = frozenset({"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
#: For a pattern in a table, whose use cannot be seen.
UNSEEN: Final = ("search", "sub")
#: How another library uses patterns of this package.
ELSEWHERE: Final = {"nextcloud_mcp_server.web.connections:LINEAR_PATTERNS": ("fullmatch",)}

#: A pattern that takes exponential time shows it in the shortest texts, before it would never end.
LENGTHS: Final = (8, 16, 24, 250, 1_000, 4_000, 16_000)
#: A text of 4 times the length takes 4 times as long, or 16 times in quadratic time; 9 times is where they part.
POWER: Final = 1.6
#: What lasts no longer is below the resolution of the clock, and not compared.
RESOLUTION: Final = 0.001

_parser: Final[Any] = importlib.import_module("re._parser")
_CATEGORIES: Final = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
_ORDINARY: Final = " \t\n\r\0aAzZ09éß\u0663\u200b\"'\\<>:;,.-_/|@=%&#[](){}!?*+~^$`"
_MOST_KINDS: Final = 10


class Use(NamedTuple):
    """A pattern, where it is, and the methods that are called on it."""

    place: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(nextcloud_mcp_server.__path__, "nextcloud_mcp_server."):
        if not found.name.startswith(LEFT_OUT) and not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def held(value: Any, depth: int = 3) -> Iterator[re.Pattern[Any]]:  # noqa: ANN401 - anything in a module
    """Find the patterns in a value of a module."""
    inner: Iterable[Any] = ()
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value)
        inner = [*pairs, *pairs.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = cast("Iterable[Any]", value)
    elif inspect.isclass(value) and value.__module__.startswith("nextcloud_mcp_server"):
        inner = list(vars(value).values())
    for each in inner if depth else ():
        yield from held(each, depth - 1)


def written_out(module: ModuleType, tree: ast.AST) -> Iterator[Use]:
    """Find the calls of `re` with a pattern, such as `re.sub`."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in {*METHODS, "compile"}
        ):
            place = f"{module.__name__}:{node.lineno}"
            names = {**vars(module), **BUILT.get(module.__name__, {})}
            flags = [each.value for each in node.keywords if each.arg == "flags"]
            at = {"compile": 1, "match": 2, "fullmatch": 2, "search": 2, "findall": 2, "finditer": 2}
            flags += node.args[at.get(node.func.attr, len(node.args)) :]
            text, *options = (
                eval(compile(ast.Expression(each), place, "eval"), names) for each in (node.args[0], *flags)
            )
            yield Use(place, re.compile(text, *options), (node.func.attr,))


@cache
def uses() -> tuple[Use, ...]:
    methods: dict[tuple[Any, int], set[str]] = {}
    places: dict[tuple[Any, int], Use] = {}
    for module in modules():
        tree = ast.parse(inspect.getsource(module))
        called: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                base = node.value
                name = base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")
                called.setdefault(name, set()).add(node.attr)
        found = [
            Use(place, pattern, ELSEWHERE.get(place, tuple(called.get(name, ()))))
            for name, value in vars(module).items()
            for place in [f"{module.__name__}:{name}"]
            for pattern in held(value)
        ]
        for one in (*found, *written_out(module, tree)):
            key = (one.pattern.pattern, one.pattern.flags)
            places.setdefault(key, one)
            methods.setdefault(key, set()).update({*one.methods} - {"compile"})
    return tuple(
        one._replace(methods=tuple(sorted(methods[key])) or UNSEEN)
        for key, one in sorted(places.items(), key=lambda each: each[1].place)
    )


class Shape:
    """What a pattern consists of: the characters that it tells apart, and its repeats."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._most = 0x10FFFF if isinstance(pattern.pattern, str) else 0xFF
        self._folded = bool(pattern.flags & re.IGNORECASE)
        self._atoms: list[tuple[str, Any]] = []
        self._tree = list(_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
        #: What leads to a repeat, and what the repeat takes.
        self.repeats: list[tuple[str, str]] = []
        self._collect(self._tree)
        self.kinds = self._told_apart()
        self._walk(self._tree, [""])

    def _collect(self, nodes: Iterable[Any]) -> None:
        for op, value in nodes:
            match str(op):
                case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                    self._atoms.append((str(op), value))
                case _:
                    for inner in _inside(str(op), value):
                        self._collect(inner)

    def _told_apart(self) -> list[str]:
        """Return one character of each kind that the pattern tells apart."""
        letters = dict.fromkeys(_ORDINARY)
        for op, value in self._atoms:
            for item in value if op == "IN" else [(op, value)]:
                if str(item[0]) in {"LITERAL", "NOT_LITERAL"}:
                    letters[chr(item[1])] = None
                elif str(item[0]) == "RANGE":
                    letters.update(dict.fromkeys(map(chr, item[1])))
        kinds: dict[tuple[bool, ...], str] = {}
        for letter in letters:
            if ord(letter) <= self._most:
                kinds.setdefault(tuple(self.takes(atom, letter) for atom in self._atoms), letter)
        # Those first that more parts of the pattern take.
        return [kinds[each] for each in sorted(kinds, key=sum, reverse=True)]

    def takes(self, atom: tuple[str, Any], letter: str) -> bool:
        op, value = atom
        if op == "ANY":
            return letter != "\n"
        if op != "IN":
            same = letter == chr(value) or (self._folded and letter.casefold() == chr(value).casefold())
            return same == (op == "LITERAL")
        versions = {letter, letter.lower(), letter.upper()} if self._folded else {letter}
        wanted = True
        taken = False
        for kind, item in value:
            match str(kind):
                case "NEGATE":
                    wanted = False
                case "LITERAL":
                    taken |= chr(item) in versions
                case "RANGE":
                    taken |= any(chr(item[0]) <= each <= chr(item[1]) for each in versions)
                case _:
                    *_, name = str(item).split("_")
                    outside = "_NOT_" in str(item)
                    taken |= (re.match(_CATEGORIES[name], letter) is not None) != outside
        return taken == wanted

    def samples(self, nodes: Iterable[Any], most: int = 4) -> list[str]:
        """Return short texts that a part of the pattern takes."""
        texts = [""]
        for op, value in nodes:
            texts = list(dict.fromkeys(a + b for a, b in product(texts, self._of(str(op), value))))[:most]
        return texts

    def _of(self, op: str, value: Any) -> list[str]:  # noqa: ANN401 - a node of the parser
        match op:
            case "LITERAL":
                return [chr(value)]
            case "NOT_LITERAL" | "ANY" | "IN":
                return [each for each in self.kinds if self.takes((op, value), each)][:3] or [""]
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return [each * min(value[0], 64) for each in self.samples(value[2])]
            case "BRANCH":
                return [each for inner in value[1] for each in self.samples(inner, 2)]
            case "SUBPATTERN" | "ATOMIC_GROUP":
                return [each for inner in _inside(op, value) for each in self.samples(inner)]
            case _:
                return [""]

    def _walk(self, nodes: Iterable[Any], before: list[str]) -> None:
        nodes = list(nodes)
        for at, (op, value) in enumerate(nodes):
            start = [a + b for a, b in product(before, self.samples(nodes[:at], 2))][:3]
            for inner in _inside(str(op), value):
                if str(op).endswith("REPEAT") and value[1] > 250:
                    self.repeats += product(start, [each for each in self.samples(inner) if each])
                self._walk(inner, start)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Return beginnings, and what is repeated after them."""
        kinds = self.kinds[:_MOST_KINDS]
        pumps = [a + b for a, b in product(kinds, ["", *kinds[:4]])]
        starts = dict.fromkeys(["", *(start for start, _ in self.repeats)])
        yield from dict.fromkeys(
            [
                *self.repeats,
                *(("", start + body) for start, body in self.repeats),
                *(("", start) for start in starts if start),
                *product(list(starts)[:4], pumps),
            ]
        )


def _inside(op: str, value: Any) -> list[Any]:  # noqa: ANN401 - a node of the parser
    match op:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [value[2]]
        case "BRANCH":
            return list(value[1])
        case "SUBPATTERN":
            return [value[-1]]
        case "ATOMIC_GROUP":
            return [value]
        case "ASSERT" | "ASSERT_NOT":
            return [value[1]]
        case _:
            return []


@pytest.fixture(scope="module", autouse=True)
def even_allocator() -> None:
    """Let blocks of all sizes cost the same: a server that ran in this process has asked glibc to map those of 1 MB.

    What a pattern remembers then takes twice the time from that size on, once, which looks like a slow pattern.
    """
    with suppress(OSError, TypeError, AttributeError):
        set_parameter = ctypes.CDLL(None).mallopt
        # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h, at their most.
        set_parameter(-3, 33_554_432)
        set_parameter(-1, 1_073_741_824)


def cost(pattern: re.Pattern[Any], method: str, text: Any) -> float:  # noqa: ANN401 - a text or bytes
    call: Any = getattr(pattern, method)
    arguments = (text[:0], text) if method in {"sub", "subn"} else (text,)
    begun = thread_time()
    found = call(*arguments)
    if method == "finditer":
        for _ in found:
            pass
    return thread_time() - begun


#: A slow pattern is above the limit in each of so many comparisons. Other work on the machine disturbs several.
_ATTEMPTS = 8


def is_linear(use: Use, method: str, start: str, pump: str, end: str) -> bool:
    """Compare the processor time of this thread for longer and longer texts; an attempt may be disturbed."""

    def measured(length: int) -> float:
        text = f"{start}{pump * (length // len(pump))}{end}"
        is_text = isinstance(use.pattern.pattern, str)
        return cost(use.pattern, method, text if is_text else text.encode("latin-1"))

    before = 0.0
    for shorter, length in pairwise(LENGTHS):
        most_times = (length / shorter) ** POWER
        now = measured(length)
        if now > RESOLUTION and now > most_times * (before or measured(shorter)):
            return any(measured(length) <= most_times * measured(shorter) for _ in range(_ATTEMPTS))
        before = now
    return True


def slow(use: Use) -> Iterator[tuple[str, str, str, str]]:
    """Return what makes a pattern slow: the method, the beginning, what is repeated, and the end."""
    shape = Shape(use.pattern)
    for (start, pump), end, method in product(shape.texts(), ("", "\0\n"), use.methods):
        if not is_linear(use, method, start, pump, end):
            yield method, start, pump, end


@pytest.mark.parametrize("use", uses(), ids=lambda use: use.place.removeprefix("nextcloud_mcp_server."))
def test_no_pattern_takes_more_than_the_length_of_a_text(use: Use) -> None:
    assert next(slow(use), None) is None


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"\s+$", "search"),
        (r"<[^>]*>", "sub"),
        (r"(?:a|b)*c", "search"),
        (r"(\w+)\s*=\s*;", "search"),
        (r"(?:\w+)+\.", "fullmatch"),
        (r".*.*,", "match"),
        (rb"a[a-z0-9]+-+z", "search"),
        (r"(?i)__Host-[\w.-]+=", "search"),
        (r"x(?P<a>[0-9]*)(?P<b>[0-9]*)y", "fullmatch"),
        (r"(?=.*z)a", "sub"),
    ],
)
def test_a_quadratic_pattern_is_found(pattern: str | bytes, method: str) -> None:
    """Otherwise the test above would prove nothing."""
    assert next(slow(Use("", re.compile(pattern), (method,))), None) is not None

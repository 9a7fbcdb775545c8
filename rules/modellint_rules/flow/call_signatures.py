"""Call signatures: what functions and classes of the project certainly take, and whether a call of one raises for its arguments."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import ClassRef, External, Imported, dotted_name, of_kind, once, walk

if TYPE_CHECKING:
    from modellint.authoring import Code

Function = ast.FunctionDef | ast.AsyncFunctionDef
_HARMLESS = frozenset({"no_grad", "inference_mode", "enable_grad", "override"})
"""Decorators that leave arguments and result as they are."""


class Target(NamedTuple):
    """What a call runs: a function of the project, with ``bound`` where its first argument is given by Python."""

    name: str
    path: str
    node: Function
    bound: bool
    first: str = ""
    """The name of the file that leads there, to be asked whether it certainly does; empty where the file defines it itself."""


def mismatch(target: Target, call: ast.Call) -> str | None:
    """Why a call raises ``TypeError`` for the number and names of its arguments, where it certainly does."""
    arguments = target.node.args
    placed = [*arguments.posonlyargs, *arguments.args]
    if target.bound:
        if not placed:
            return None
        placed = placed[1:]
    by_name = {part.arg for part in (*placed, *arguments.kwonlyargs) if part not in arguments.posonlyargs}
    is_spread = any(isinstance(part, ast.Starred) for part in call.args)
    words = [word.arg for word in call.keywords if word.arg is not None]
    unknown = [word for word in words if word not in by_name]
    if unknown and arguments.kwarg is None:
        return f"takes no `{unknown[0]}`"
    if is_spread:
        return None
    if len(call.args) > len(placed) and arguments.vararg is None:
        return f"takes {len(placed)} argument{'s' * (len(placed) != 1)} by position, and is given {len(call.args)}"
    twice = [part.arg for part in placed[: len(call.args)] if part.arg in words and part not in arguments.posonlyargs]
    if twice:
        return f"is given `{twice[0]}` twice"
    if any(word.arg is None for word in call.keywords):
        return None
    required = placed[len(call.args) : max(0, len(placed) - len(arguments.defaults))]
    missing = [part.arg for part in required if part.arg not in words]
    missing += [
        part.arg
        for part, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None and part.arg not in words
    ]
    return f"is not given `{missing[0]}`, which it needs" if missing else None


def refused_number(code: Code, target: Target, call: ast.Call) -> str | None:
    """A whole number that a constructor is given and always makes a tensor of that asks for gradients, as it is written there."""
    numbers = once(target.node, "_wants_gradients", _numbers_with_gradients) if target.bound else {}
    for name, place in numbers.items():
        given = next((word.value for word in call.keywords if word.arg == name), None)
        before = call.args[: place + 1]
        if given is None and len(before) > place and not any(isinstance(part, ast.Starred) for part in before):
            given = before[place]
        match given:
            case ast.Constant(value=int(number)) if _is_of_torch(code, target, "torch.tensor"):
                return f"torch.tensor({number}, requires_grad=True)"
    return None


def _numbers_with_gradients(init: Function) -> dict[str, int]:
    """The arguments of a constructor of which it always makes `torch.tensor(value, requires_grad=True)`, with their places."""
    placed = {part.arg: at for at, part in enumerate([*init.args.posonlyargs, *init.args.args][1:])}
    bound = {part.id for part in of_kind(init, ast.Name) if not isinstance(part.ctx, ast.Load)}
    numbers: dict[str, int] = {}
    for statement in init.body if init.name == "__init__" else ():
        if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)):
            break
        parts = walk(statement)
        if any(isinstance(part, (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.GeneratorExp)) for part in parts):
            continue
        for part in parts:
            match part:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="torch"), attr="tensor"),
                    args=[ast.Name(id=name)],
                    keywords=[ast.keyword(arg="requires_grad", value=ast.Constant(value=True))],
                ) if name in placed and name not in bound:
                    numbers[name] = placed[name]
    return numbers


def _is_of_torch(code: Code, target: Target, dotted: str) -> bool:
    """Whether a dotted name is torch's in the file of what is called."""
    file = code.file if target.path in ("", code.file.path) else code.project.file(target.path)
    symbol = code.project.resolve(file, dotted) if file is not None else None
    return isinstance(symbol, External) and symbol.name == dotted


def target(code: Code, call: ast.Call, function: Function) -> Target | None:
    """What a call in a method of the class certainly runs, of the project."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=which), attr=attribute):
            # `super(Other, self)` goes on behind another class.
            own = not which or (isinstance(which[0], ast.Name) and which[0].id == code.name)
            return _of_base(code, function, attribute, call) if own else None
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return _of_self(code, attribute, call)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=attribute), attr=method):
            return _of_submodule(code, attribute, method, call) if method != "__call__" else None
    dotted = dotted_name(call.func)
    if dotted is None:
        return None
    first = dotted.partition(".")[0]
    if len(code.file.names.get(first, ())) != 1 or first in once(function, "_bound_anywhere", _bound_anywhere):
        return None
    if dotted == first and _fits(code, first, "__init__", call):
        return None
    symbol = code.project.resolve(code.file, dotted)
    if isinstance(symbol, ClassRef):
        return _constructor(code, symbol, first)
    node = getattr(symbol, "node", None)
    file = getattr(symbol, "file", None)
    if isinstance(node, ast.FunctionDef) and file is not None and _is_plain(node) and _is_bound_once(file, node):
        return Target(node.name, file.path, node, bound=False, first=first)
    return None


def tuple_given(code: Code, call: ast.Call) -> str | None:
    """The method of the class that a call runs, where that certainly gives a tuple."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            method = code.ref.file.members(code.ref.node).get(name) if code.ref is not None else None
            if isinstance(method, ast.FunctionDef) and _is_plain(method) and once(method, "_gives_tuple", _gives_tuple):
                return name
    return None


def is_overridden(code: Code, method: str) -> bool:
    """Whether a class of the project that derives from this one, or may, defines a method of its own."""
    mentions = code.project.mentions
    if code.name is None or not mentions.is_whole:
        return True
    for path in mentions.naming(code.name):
        file = code.project.file(path)
        if file is None:
            return True
        for node in of_kind(file.tree, ast.ClassDef):
            bases = {getattr(part, "id", getattr(part, "attr", "")) for base in node.bases for part in walk(base)}
            if code.name in bases and method in file.members(node):
                return True
    return False


def _gives_tuple(method: ast.FunctionDef) -> bool:
    """Whether all that a method gives back is a tuple that is written out, and it does not end without."""
    inner = {
        part
        for kind in (ast.FunctionDef, ast.AsyncFunctionDef)
        for each in of_kind(method, kind)
        for part in walk(each)
    }
    returns = [part for part in of_kind(method, ast.Return) if part not in inner]
    if not returns or not isinstance(method.body[-1], ast.Return) or list(of_kind(method, ast.Yield)):
        return False
    return all(isinstance(part.value, ast.Tuple) and len(part.value.elts) > 1 for part in returns)


def _of_base(code: Code, function: Function, attribute: str, call: ast.Call) -> Target | None:
    """The method of the one base that `super().__init__(…)` runs."""
    if code.ref is None or function not in code.ref.node.body:
        return None
    names = [dotted_name(base) for base in code.ref.node.bases]
    if len(names) != 1 or names[0] is None:
        return None
    first = names[0].partition(".")[0]
    if len(code.file.names.get(first, ())) != 1 or (names[0] == first and _fits(code, first, attribute, call)):
        return None
    base = code.project.bases(code.ref)[0]
    if not isinstance(base, ClassRef):
        return None
    if attribute == "__init__":
        return _constructor(code, base, first)
    found = _method(code, base, attribute, set())
    return None if found is None else found._replace(first=first, path=base.file.path)


def _constructor(code: Code, ref: ClassRef, first: str) -> Target | None:
    """The `__init__` of a class, along bases that are all known."""
    found = _method(code, ref, "__init__", {"__new__"})
    return None if found is None else found._replace(name=ref.node.name, first=first, path=ref.file.path)


def _of_self(code: Code, attribute: str, call: ast.Call) -> Target | None:
    """The method of the class, or the `forward` of a submodule, that `self.attribute(…)` runs."""
    if code.ref is None:
        return None
    stores = once(code.ref.node, "_attribute_stores", _attribute_stores).get(attribute, [])
    if any(attribute in once(ref.node, "_attribute_stores", _attribute_stores) for ref in code.lineage[1:]):
        return None
    defined = [ref for ref in code.lineage if attribute in ref.file.members(ref.node)]
    if defined:
        return _method(code, code.ref, attribute, {"__getattribute__"}) if not stores else None
    return _of_submodule(code, attribute, "forward", call)


def _of_submodule(code: Code, attribute: str, method: str, call: ast.Call) -> Target | None:
    """A method of what the constructor alone binds an attribute to: `self.attribute(…)` runs its `forward`."""
    if code.ref is None or any(attribute in ref.file.members(ref.node) for ref in code.lineage):
        return None
    places = [once(ref.node, "_attribute_stores", _attribute_stores).get(attribute, []) for ref in code.lineage]
    stores = [store for several in places for store in several]
    made = stores[0] if len(stores) == 1 else None
    dotted = dotted_name(made.func) if isinstance(made, ast.Call) else None
    first = dotted.partition(".")[0] if dotted is not None else ""
    if dotted is None or len(code.file.names.get(first, ())) != 1:
        return None
    init = code.ref.file.members(code.ref.node).get("__init__")
    if not isinstance(init, ast.FunctionDef) or first in once(init, "_bound_anywhere", _bound_anywhere):
        return None
    if made not in once(init, "_calls_in", _calls_in):
        return None
    if dotted == first and _fits(code, first, method, call):
        return None
    symbol = code.project.resolve(code.file, dotted)
    if not isinstance(symbol, ClassRef) or not code.project.is_module(symbol):
        return None
    if method in once(symbol.node, "_attribute_stores", _attribute_stores):
        # `self.forward = self.forward_train`
        return None
    found = _method(code, symbol, method, {"__new__", "__call__", "__init_subclass__"})
    return None if found is None else found._replace(first=first, path=symbol.file.path)


def _calls_in(init: ast.AST) -> frozenset[ast.AST]:
    return frozenset(of_kind(init, ast.Call))


def _fits(code: Code, name: str, method: str, call: ast.Call) -> bool:
    """Whether a look at the text of another file, without parsing it, says that a call fits what an imported name is there."""
    bindings = code.file.names.get(name, ())
    if len(bindings) != 1 or not isinstance(bindings[0], Imported):
        return False
    imported = bindings[0]
    path = code.project.find(imported.module, imported.level, code.file.path)
    if path is None or imported.name is None:
        return path is None
    asked = imported.name
    key = ("head of a call", path, asked, method)
    head = code.project.remembered(key, lambda: _head(code, path, asked, method))
    return head is not None and mismatch(head, call) is None


def _head(code: Code, path: str, name: str, method: str) -> Target | None:
    """The head of a function, or of a method of a class, as the text of its file has it, or of the one that hands it on."""
    project = code.project
    data = project.data(path) or b""
    start = _definition(data, name)
    package = project.file(path) if start is None and path.endswith("__init__.py") else None
    again = package.names.get(name, ()) if package is not None else ()
    if package is not None and len(again) == 1 and isinstance(again[0], Imported) and again[0].name is not None:
        beside = project.find(again[0].module, again[0].level, package.path)
        name, data = again[0].name, (project.data(beside) or b"") if beside is not None else b""
        start = _definition(data, name)
    if start is None:
        return None
    end = _END_OF_BLOCK.search(data, start + 1)
    block = data[start : end.start() if end is not None else len(data)].decode("utf-8", "replace")
    is_class = block.startswith("class")
    opening = re.search(rf"\bdef[ \t]+{method}[ \t]*\(" if is_class else r"\(", block)
    if opening is None:
        return None
    depth = 0
    for at in range(opening.end() - 1, len(block)):
        depth += {"(": 1, ")": -1}.get(block[at], 0)
        if depth == 0:
            try:
                (node,) = ast.parse(f"def f{block[opening.end() - 1 : at + 1]}: pass").body
            except SyntaxError:
                return None
            return Target(name, path, node, bound=is_class) if isinstance(node, ast.FunctionDef) else None
    return None


_END_OF_BLOCK = re.compile(rb"^(?![ \t\r\n#)])", re.MULTILINE)
_GOES_ON = re.compile(rb"[\w\x80-\xff]")


def _definition(data: bytes, name: str) -> int | None:
    """Where the text of a file first begins to define a function or class of a name, at the start of a line."""
    lines, starts = b"\n" + data, []
    for word in (b"\nclass ", b"\ndef "):
        head = word + name.encode()
        at = lines.find(head)
        while at != -1 and _GOES_ON.match(lines, at + len(head)):
            at = lines.find(head, at + 1)
        if at != -1:
            starts.append(at)
    return min(starts, default=None)


def _methods_by_name(node: ast.ClassDef) -> Counter[str]:
    """How often a class defines each of its methods."""
    return Counter(part.name for part in node.body if isinstance(part, ast.FunctionDef))


def _method(code: Code, ref: ClassRef, name: str, without: set[str]) -> Target | None:
    """A method of a class by its first base after the other, where none of them may bring in another."""
    seen: set[ast.ClassDef] = set()
    while ref.node not in seen:
        seen.add(ref.node)
        members = ref.file.members(ref.node)
        if ref.node.decorator_list or ref.node.keywords or any(name in members for name in without):
            return None
        if not ref.within and not _is_bound_once(ref.file, ref.node):
            return None
        node = members.get(name)
        if node is not None:
            count = once(ref.node, "_methods_by_name", _methods_by_name)[name]
            if not isinstance(node, ast.FunctionDef) or count != 1 or not _is_plain(node):
                return None
            return Target(f"{ref.node.name}.{name}", ref.file.path, node, bound=True)
        if any(isinstance(part, (ast.If, ast.Try, ast.For, ast.With)) for part in ref.node.body):
            return None
        bases = code.project.bases(ref)
        if len(bases) != 1 or not isinstance(bases[0], ClassRef):
            return None
        if bases[0].file is not ref.file and not _is_told_where(ref):
            return None
        ref = bases[0]
    return None


def _is_told_where(ref: ClassRef) -> bool:
    """Whether the base of a class is imported by a path from the file itself."""
    dotted = dotted_name(ref.node.bases[0])
    bindings = ref.file.names.get(dotted.partition(".")[0], ()) if dotted is not None else ()
    return len(bindings) == 1 and isinstance(bindings[0], Imported) and bindings[0].level > 0


def is_certain(code: Code, name: str, path: str) -> bool:
    """Whether a name of the file certainly leads to a file: by a path from itself, or one that no other file of the project has."""
    if path == code.file.path:
        return True
    bindings = code.file.names.get(name, ())
    if len(bindings) != 1 or not isinstance(bindings[0], Imported):
        return False
    imported = bindings[0]
    found = code.project.find(imported.module, imported.level, code.file.path)
    if found is None:
        return False
    if found != path:
        # One file that hands on what stands in another beside it.
        other = code.project.file(found)
        again = other.names.get(imported.name or "", ()) if other is not None else ()
        if len(again) != 1 or not isinstance(again[0], Imported) or not again[0].level or other is None:
            return False
        if code.project.find(again[0].module, again[0].level, other.path) != path:
            return False
    return imported.level > 0 or code.project.mentions.has_one_module(imported.module)


def _is_plain(node: Function) -> bool:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if getattr(called, "attr", getattr(called, "id", "")) not in _HARMLESS:
            return False
    return True


def _is_bound_once(file: object, node: ast.ClassDef | Function) -> bool:
    names: dict[str, list[object]] = getattr(file, "names", {})
    tree: ast.Module = getattr(file, "tree", ast.Module([], []))
    return len(names.get(node.name, ())) == 1 and node in tree.body


def _bound_anywhere(function: Function) -> frozenset[str]:
    """The names that a function, or one in it, binds."""
    names = {part.id for part in of_kind(function, ast.Name) if not isinstance(part.ctx, ast.Load)}
    names.update(part.arg for part in of_kind(function, ast.arg))
    names.update(alias.asname or alias.name.partition(".")[0] for alias in of_kind(function, ast.alias))
    names.update(part.name for part in of_kind(function, ast.FunctionDef))
    names.update(part.name for part in of_kind(function, ast.ClassDef))
    return frozenset(names)


def _attribute_stores(node: ast.ClassDef) -> dict[str, list[ast.expr | None]]:
    """What the statements of a class bind the attributes of an object to; None where that is not one expression."""
    stores: dict[str, list[ast.expr | None]] = {}
    values = {
        id(statement.targets[0]): statement.value
        for statement in of_kind(node, ast.Assign)
        if len(statement.targets) == 1
    }
    for part in of_kind(node, ast.Attribute):
        if not isinstance(part.ctx, ast.Load):
            stores.setdefault(part.attr, []).append(values.get(id(part)))
    for call in of_kind(node, ast.Call):
        named = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if named in ("setattr", "add_module", "register_module", "__setattr__"):
            for text in call.args[:2]:
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    stores.setdefault(text.value, []).append(None)
    return stores


def missing_names(code: Code) -> Iterator[tuple[ast.ImportFrom, str, str]]:
    """The names that a file imports from another of the project, at its top, which that certainly does not define, with its path."""
    for statement in code.file.tree.body:
        if not isinstance(statement, ast.ImportFrom):
            continue
        for alias in statement.names:
            bound = alias.asname or alias.name
            bindings = code.file.names.get(bound, ())
            if len(bindings) != 1 or not isinstance(bindings[0], Imported):
                continue
            found = code.project.find(bindings[0].module, bindings[0].level, code.file.path)
            # What a package hands on is looked for in other files, at a cost, and is hardly ever missing.
            if found is None or found.endswith("__init__.py"):
                continue
            if _may_define(code, found, alias.name):
                continue
            symbol = code.project.resolve(code.file, bound)
            path, colon, name = symbol.name.rpartition(":") if isinstance(symbol, External) else ("", "", "")
            if not colon or name != alias.name or not path.endswith(".py") or path.endswith("__init__.py"):
                continue
            other = code.project.file(path)
            if other is None or other.stars or not is_certain(code, bound, path):
                continue
            text = other.source.text
            if re.search(rf"\b{re.escape(name)}\b", text) is None and not _is_dynamic(text):
                yield statement, name, path


def _may_define(code: Code, path: str, name: str) -> bool:
    """Whether the text of a file has a name anywhere, or takes names from elsewhere unseen."""

    def look() -> bool:
        data = code.project.data(path) or b""
        return name.encode() in data or b"import *" in data

    return code.project.remembered(("may define", path, name), look)


def _is_dynamic(text: str) -> bool:
    """Whether a file may bind names by strings, itself or by code that it tells its name."""
    return re.search(_DYNAMIC, text) is not None


_DYNAMIC = (
    r"__getattr__|\b(?:globals|locals|vars|exec)\(|sys\.modules|__dict__"
    r"|(?<!getLogger\()(?<!get_logger\()\b__name__(?!\s*[=!]=)"
)


def is_written_for_a_generator(code: Code) -> bool:
    """Whether another file of the folder says that it was generated from this one, which is not run as it is."""
    path = code.file.path
    folder, name = os.path.split(path)
    stem = name.removesuffix(".py")
    mentions = code.project.mentions
    beside = [other for other in mentions.naming(stem) if other != path and os.path.dirname(other) == folder]  # noqa: PTH120
    pattern = re.compile(rb"generated from[^\n]*\b" + re.escape(name.encode()))
    return any(mentions.matches(other, pattern) for other in beside)

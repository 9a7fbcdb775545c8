"""Example inputs: those with which scripts of the project export a class, and the branches that these never take."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from modellint.source.engine.mode_conditions import COMPARISONS
from modellint.source.project.mentions import mentions_in
from modellint.source.project.symbols import ClassRef, External, FunctionRef, dotted_name
from modellint.source.roles.code_roles import is_in_tests
from modellint.source.roles.constructor_fallback_ranks import filled_rank
from modellint.source.roles.forward_call_sites.call_arguments import is_never_switched_on
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once
from modellint.source.syntax.path_conditions import conditions_at
from modellint.source.syntax.rank_conditions import tensor_of_rank

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
_Node = TypeVar("_Node", bound=ast.AST)
_EXPORTS = frozenset({"torch.jit.trace", "torch.onnx.export", "torch.onnx.dynamo_export", "torch.export.export"})
_SPELLED = frozenset(name.rpartition(".")[2] for name in _EXPORTS)
_WITH_OTHERS = frozenset({"kwargs", "example_kwarg_inputs", None})
"""Arguments that give more inputs, by name."""
_PREPARED = frozenset({"eval", "to", "cpu", "cuda", "float", "half", "double", "train", "requires_grad_"})
"""Methods that give the module back that they belong to."""
_TENSORS = re.compile(r"torch\.(?:zeros|ones|empty|full|rand|randn|randint|tensor|arange|from_numpy)")
_MOST_FILES = 24
"""What more files than these name is not followed."""


class _Example(NamedTuple):
    """The inputs of one export: how many dimensions each has, as far as that is written there, and which are True or False."""

    ranks: tuple[int | None, ...]
    flags: tuple[bool | None, ...]


def is_left_out_of_exports(project: Project, ref: ClassRef, function: _Function, row: int) -> bool:
    """Whether a row of a `forward` is reached with other inputs only than those with which the project itself exports the class.

    With a flag that is off by default, that no export gives, and that nobody in the project names to change it; or with a tensor of
    another number of dimensions.
    """
    if function.name != "forward" or function.decorator_list or ref.within:
        return False
    if not any(_may_tell(test) for test, _ in conditions_at(function.body, row)):
        return False
    examples = project.remembered(("exported examples", *ref.key), lambda: _examples_of(project, ref))
    if not examples:
        return False
    placed = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)][1:]
    tests = [*conditions_at(function.body, row)]
    if all(any(_contradicts(function, placed, example, test, holds) for test, holds in tests) for example in examples):
        return True
    given = {name for example in examples for name in placed[: len(example.ranks)]}
    if not is_never_switched_on(project, ref, function, row, besides=given):
        return False
    fewest = min(len(example.ranks) for example in examples)
    return not project.remembered(("given more", *ref.key, fewest), lambda: _is_given_more(project, ref, fewest))


def exported_flag(project: Project, ref: ClassRef, function: _Function, name: str) -> bool | None:
    """What all exports of a class in the project give for a flag of its `forward`, True or False; None where that is not known."""
    placed = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)][1:]
    if function.name != "forward" or function.decorator_list or ref.within or name not in placed:
        return None
    if _is_bound_before(function, name, (function.end_lineno or 0) + 1):
        return None
    at = placed.index(name)
    examples = project.remembered(("exported examples", *ref.key), lambda: _examples_of(project, ref))
    flags = {example.flags[at] if at < len(example.flags) else None for example in examples}
    return flags.pop() if len(flags) == 1 else None


def _may_tell(test: ast.expr) -> bool:
    return isinstance(test, (ast.Name, ast.UnaryOp, ast.BoolOp, ast.Compare))


def _contradicts(function: _Function, placed: list[str], example: _Example, test: ast.expr, holds: bool) -> bool:
    """Whether a condition on the rank of an argument, or on a flag, has another answer for an example."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _contradicts(function, placed, example, operand, not holds)
        case ast.Name(id=name) if name in placed:
            at = placed.index(name)
            flag = example.flags[at] if at < len(example.flags) else None
            return flag is (not holds) and not _is_bound_before(function, name, test.lineno)
        case ast.Compare(left=left, ops=[op], comparators=[ast.Constant(value=int() as number)]) if (
            type(op) in COMPARISONS
        ):
            tensor = tensor_of_rank(_written(function, left))
            asked = tensor.id if isinstance(tensor, ast.Name) else None
            at = placed.index(asked) if asked in placed else len(placed)
            rank = example.ranks[at] if at < len(example.ranks) else None
            if rank is None or asked is None or _is_bound_before(function, asked, test.lineno):
                return False
            return COMPARISONS[type(op)](rank, number) is not holds
    return False


def _is_bound_before(function: _Function, name: str, row: int) -> bool:
    first = once(function, "_first_bound", _first_bound).get(name)
    return first is not None and first < row


def _first_bound(function: _Function) -> dict[str, int]:
    """The first rows in which a function binds variables."""
    first: dict[str, int] = {}
    for part in of_kind(function, ast.Name):
        if not isinstance(part.ctx, ast.Load):
            first[part.id] = min(part.lineno, first.get(part.id, part.lineno))
    return first


def _written(scope: _Scope, node: ast.expr) -> ast.expr:
    """What one statement alone binds a variable to; of all else itself."""
    if not isinstance(node, ast.Name):
        return node
    return once(scope, "_bound_by_one", _bound_by_one).get(node.id, node)


def _bound_by_one(scope: _Scope) -> dict[str, ast.expr]:
    """What the variables of a function are bound to that one plain assignment alone binds; of a file those outside of its functions."""
    stores = _outside(scope, ast.Name)
    bound = Counter(part.id for part in stores if not isinstance(part.ctx, ast.Load))
    if not isinstance(scope, ast.Module):
        bound.update(part.arg for part in of_kind(scope, ast.arg))
    return {
        target.id: assign.value
        for assign in _outside(scope, ast.Assign)
        for target in assign.targets
        if isinstance(target, ast.Name) and bound[target.id] == 1
    }


def _outside(scope: _Scope, kind: type[_Node]) -> list[_Node]:
    """The nodes of a class in a function, or of a file those that stand in no function or method."""
    nodes = of_kind(scope, kind)
    if not isinstance(scope, ast.Module):
        return nodes
    inside = {id(part) for function in functions_in(scope.body) for part in of_kind(function, kind)}
    return [part for part in nodes if id(part) not in inside]


def _examples_of(project: Project, ref: ClassRef) -> list[_Example]:
    """What the exports of objects of a class in the project are given; nothing where an input of one is not seen."""
    project.touch_tree()
    name = ref.node.name
    paths = project.mentions.naming(name)
    if not project.mentions.is_whole or len(paths) > _MOST_FILES:
        return []
    examples: list[_Example] = []
    for path in paths:
        file = None if path.endswith(".ipynb") else project.file(path)
        if file is None or is_in_tests(project, file):
            continue
        makers = _makers(project, file, ref)
        for call, scope in _exports_in(project, file) if makers else ():
            if _makes(_written(scope, call.args[0]), makers):
                example = _example(project, file, scope, call)
                if example is None:
                    return []
                examples.append(example)
    return examples


def _is_given_more(project: Project, ref: ClassRef, count: int) -> bool:
    """Whether what may be an object of a class is called with more inputs than some, by place: ``net(x, True)``."""
    project.touch_tree()
    name = ref.node.name
    files = [project.file(path) for path in project.mentions.naming(name)[:_MOST_FILES] if not path.endswith(".ipynb")]
    kept = {attribute for file in files if file is not None for attribute in _attributes_made_by(file, name)}
    paths = {path for attribute in kept for path in project.mentions.naming(attribute)}
    if len(paths) > _MOST_FILES:
        return True
    files += [project.file(path) for path in sorted(paths) if not path.endswith(".ipynb")]
    return any(_calls_with_more(file.tree, kept, count) for file in files if file is not None)


def _calls_with_more(tree: ast.Module, attributes: set[str], count: int) -> bool:
    """Whether a file gives more arguments than some, by place, to an attribute of some names, to a parameter or to what a call has made."""
    variables: frozenset[str] = once(tree, "_may_be_objects", _may_be_objects)
    for call in of_kind(tree, ast.Call):
        if len(call.args) > count or any(isinstance(part, ast.Starred) for part in call.args):
            match call.func:
                case ast.Name(id=called) if called in variables:
                    return True
                case ast.Attribute(attr=called) if called in attributes:
                    return True
    return False


def _may_be_objects(tree: ast.Module) -> frozenset[str]:
    names = {part.arg for part in of_kind(tree, ast.arg)}
    made = [assign.targets for assign in of_kind(tree, ast.Assign) if isinstance(assign.value, ast.Call)]
    return frozenset(names | {part.id for targets in made for part in targets if isinstance(part, ast.Name)})


def _attributes_made_by(file: IndexedFile, name: str) -> Iterator[str]:
    """The attributes that a file binds to what is made of a class."""
    for mention in mentions_in(file, name):
        if isinstance(mention.statement, ast.Assign):
            yield from (target.attr for target in mention.statement.targets if isinstance(target, ast.Attribute))


def _makers(project: Project, file: IndexedFile, ref: ClassRef) -> frozenset[str]:
    """The names by which a file makes objects of a class: its own, and those of functions of the file that return what they make."""
    name = ref.node.name
    names: set[str] = set()
    for mention in mentions_in(file, name):
        dotted = dotted_name(mention.node) if isinstance(mention.node, ast.expr) else None
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if dotted is None or (
            isinstance(symbol, (ClassRef, FunctionRef))
            and (symbol.file.path, symbol.node.lineno) != (ref.file.path, ref.node.lineno)
        ):
            continue
        names.add(dotted)
        function = mention.function
        if function is not None and mention.cls is None and function in file.tree.body:
            returned = [part.value for part in of_kind(function, ast.Return)]
            made = frozenset({dotted})
            if returned and all(part is not None and _makes(_written(function, part), made) for part in returned):
                names.add(function.name)
    return frozenset(names)


def _makes(node: ast.expr, makers: frozenset[str]) -> bool:
    """Whether an expression makes an object by one of some names: ``Net()``, ``Net().eval()``."""
    while isinstance(node, ast.Call):
        if dotted_name(node.func) in makers:
            return True
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in _PREPARED:
            return False
        node = node.func.value
    return False


def _exports_in(project: Project, file: IndexedFile) -> Iterator[tuple[ast.Call, _Scope]]:
    for call, function in once(file.tree, "_export_calls", _export_calls):
        dotted = dotted_name(call.func)
        symbol = project.resolve(file, dotted) if dotted is not None else None
        if isinstance(symbol, External) and symbol.name in _EXPORTS:
            yield call, function or file.tree


def _export_calls(tree: ast.Module) -> list[tuple[ast.Call, _Function | None]]:
    """The calls of a file that may be exports, each with the function around it."""
    found: list[tuple[ast.Call, _Function | None]] = [
        (call, function) for function in functions_in(tree.body) for call in of_kind(function, ast.Call)
    ]
    found += [(call, None) for call in _outside(tree, ast.Call)]
    return [(call, function) for call, function in found if called_name(call) in _SPELLED and call.args]


def _example(project: Project, file: IndexedFile, scope: _Scope, call: ast.Call) -> _Example | None:
    """The inputs of an export; None where they are not all written there."""
    words = {word.arg: word.value for word in call.keywords}
    if not _WITH_OTHERS.isdisjoint(words):
        return None
    given = call.args[1] if len(call.args) > 1 else words.get("args", words.get("example_inputs"))
    if given is None or any(isinstance(part, ast.Starred) for part in call.args):
        return None
    inputs = _written(scope, given)
    several = inputs.elts if isinstance(inputs, ast.Tuple) else [inputs]
    values = [_written(scope, part) for part in several]
    flags = tuple(_flag(value) for value in values)
    if not all(flag is not None or _is_tensor(project, file, part) for flag, part in zip(flags, values, strict=True)):
        return None
    return _Example(tuple(filled_rank(project, file, _unmoved(value)) for value in values), flags)


def _flag(node: ast.expr) -> bool | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _is_tensor(project: Project, file: IndexedFile, node: ast.expr) -> bool:
    """Whether an expression certainly makes one tensor."""
    made = _unmoved(node)
    dotted = dotted_name(made.func) if isinstance(made, ast.Call) else None
    symbol = project.resolve(file, dotted) if dotted is not None else None
    return isinstance(symbol, External) and _TENSORS.fullmatch(symbol.name) is not None


def _unmoved(node: ast.expr) -> ast.expr:
    """What is moved or cast by the methods that an expression ends with."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PREPARED:
        node = node.func.value
    return node

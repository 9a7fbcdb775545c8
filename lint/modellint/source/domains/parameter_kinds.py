"""What the uses of a parameter say it is: a tensor, or a container of several."""

from __future__ import annotations

import ast

from modellint.source.domains.operator_sets import FACTORIES, SHOWING
from modellint.source.project.annotations import says_tensor
from modellint.source.syntax.ast_walk import of_kind, once, parameters_of, parents_in, walk

_OF_TENSORS = SHOWING | frozenset({"shape", "ndim", "dtype", "device", "T", "mT", "requires_grad", "is_cuda"})
"""Attributes that tensors have, and containers, numbers and strings have not."""
_OF_OTHERS = frozenset(
    {
        "append",
        "extend",
        "insert",
        "keys",
        "values",
        "items",
        "get",
        "pop",
        "update",
        "copy",
        "startswith",
        "lower",
        "split_sizes",
    }
    | {"tensors", "decompose", "data_dict", "ndata", "edata", "sample", "parameters", "named_parameters", "batch_sizes"}
)
"""Attributes that say that it is something else."""
_CONTAINERS = frozenset(
    {"list", "tuple", "dict", "set", "Sequence", "Mapping", "Iterable", "Dict", "List", "Tuple", "ndarray"}
)
_TAKES_MANY = FACTORIES | frozenset(
    {
        "cat",
        "concat",
        "concatenate",
        "stack",
        "hstack",
        "vstack",
        "is_tensor",
        "einsum",
        "meshgrid",
        "broadcast_tensors",
    }
    | {"device", "Size", "save", "block_diag", "cartesian_prod", "manual_seed", "no_grad", "sqrt", "sin", "cos", "tan"}
)
"""Functions of torch that also take what is no tensor."""
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
"""Functions of torch that take a sequence of tensors, and refuse a tensor."""
_SPACES = frozenset({"torch", "F", "functional", "th"})


def shown_tensors(function: ast.AST) -> frozenset[str]:
    """The parameters of a function that are used as only a tensor can be."""
    kept: frozenset[str] | None = vars(function).get("_shown")
    if kept is None:
        kept = vars(function)["_shown"] = _find(function)
    return kept


def _find(function: ast.AST) -> frozenset[str]:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return frozenset()
    names = parameters_of(function)
    shown: set[str] = set()
    denied: set[str] = set()
    others = _bound_by_comprehensions(function)
    for node in of_kind(function, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in names and node.value not in others:
            if node.attr in _OF_TENSORS:
                shown.add(node.value.id)
            elif node.attr in _OF_OTHERS:
                denied.add(node.value.id)
    for call in of_kind(function, ast.Call):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=space), attr=name), args=[ast.Name(id=given) as asked, *_]
            ):
                if space not in _SPACES or asked in others:
                    continue
                if name not in _TAKES_MANY and name[:1].islower():
                    shown.add(given)
                elif name in _JOINS and given in names and not _is_rebound(function, given):
                    denied.add(given)
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=given), kinds]):
                spelled = {getattr(part, "id", getattr(part, "attr", "")) for part in walk(kinds)}
                if spelled & _CONTAINERS:
                    denied.add(given)
            case _:
                pass
    for part in of_kind(function, ast.Subscript):
        indices = part.slice.elts if isinstance(part.slice, ast.Tuple) else []
        if (
            isinstance(part.value, ast.Name)
            and part.value not in others
            and any(isinstance(one, ast.Slice) or _is_filler(one) for one in indices)
        ):
            shown.add(part.value.id)
    shown &= names - denied
    return frozenset(name for name in shown if not _is_one_for_each_layer(function, name))


def is_shown_to_be_a_list(function: ast.AST, name: str) -> bool:
    """Whether elements of a parameter are None, or may be, whatever its annotation says: `x[i] = None`, `if x[i] is None`."""
    return name in once(function, "_shown_lists", _find_lists)


def _find_lists(function: ast.AST) -> frozenset[str]:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return frozenset()
    elements: list[ast.expr] = []
    for assignment in of_kind(function, ast.Assign):
        if _is_none(assignment.value):
            elements += assignment.targets
    for question in of_kind(function, ast.Compare):
        if isinstance(question.ops[0], (ast.Is, ast.IsNot)) and _is_none(question.comparators[0]):
            elements.append(question.left)
    found = {part.value.id for part in elements if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name)}
    return frozenset(found & parameters_of(function))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def shown_numbers(function: ast.AST) -> frozenset[str]:
    """The parameters of a function that it makes whole numbers of, and uses as numbers alone: rates, sizes, counts."""
    return once(function, "_shown_numbers", _find_numbers)


def _find_numbers(function: ast.AST) -> frozenset[str]:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return frozenset()
    first = tensor_argument(function)
    rounded = {
        call.args[0].id
        for call in of_kind(function, ast.Call)
        if len(call.args) == 1 and isinstance(call.args[0], ast.Name) and isinstance(call.func, ast.Name)
        if call.func.id == "int"
    }
    rounded &= parameters_of(function) - {first}
    if not rounded:
        return frozenset()
    parents = parents_in(function)
    uses = [part for part in of_kind(function, ast.Name) if part.id in rounded]
    return frozenset(rounded - {use.id for use in uses if not _is_use_of_number(use, parents.get(use))})


def _is_use_of_number(use: ast.Name, above: ast.AST | None) -> bool:
    match above:
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return isinstance(use.ctx, ast.Load)
        case ast.Call(func=ast.Name(id="int" | "float" | "min" | "max" | "abs" | "round" | "range")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math" | "self"))):
            return True
    return False


def _bound_by_comprehensions(function: ast.AST) -> set[ast.AST]:
    """The names in comprehensions that stand for what these bind, and for no variable of the function: `[x.T for x in rows]`."""
    others: set[ast.AST] = set()
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    for comprehension in walk(function) if any(True for kind in kinds for _ in of_kind(function, kind)) else ():
        if isinstance(comprehension, kinds):
            generators = comprehension.generators
            bound = {
                part.id for generator in generators for part in walk(generator.target) if isinstance(part, ast.Name)
            }
            # What the first goes through is read outside.
            outside = {*walk(generators[0].iter)}
            others.update(
                part
                for part in walk(comprehension)
                if isinstance(part, ast.Name) and part.id in bound and part not in outside
            )
    return others


def _is_rebound(function: ast.AST, name: str) -> bool:
    return any(part.id == name and not isinstance(part.ctx, ast.Load) for part in of_kind(function, ast.Name))


def _is_one_for_each_layer(function: ast.AST, name: str) -> bool:
    """Whether a parameter holds one tensor for each layer of a row, by what is done: `x[i] = self.layers[i](x[i])`."""
    for statement in of_kind(function, ast.Assign):
        match statement.targets:
            case [ast.Subscript(value=ast.Name(id=written), slice=ast.Name(id=index))] if written == name:
                if any(_runs_layer(part, name, index) for part in walk(statement.value)):
                    return True
    return False


def _runs_layer(node: ast.AST, name: str, index: str) -> bool:
    match node:
        case ast.Call(
            func=ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=ast.Name(id=layer)),
            args=[ast.Subscript(value=ast.Name(id=given), slice=ast.Name(id=at)), *_],
        ):
            return given == name and layer == at == index
    return False


def tensor_argument(function: ast.AST) -> str | None:
    """The first argument of a function that is required and is a tensor."""
    if not isinstance(function, ast.FunctionDef):
        return None
    shown = shown_tensors(function)
    arguments = [one for one in (*function.args.posonlyargs, *function.args.args) if one.arg not in ("self", "cls")]
    required = len(arguments) - len(function.args.defaults)
    bound = {part.id for part in walk(function) if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
    for at, one in enumerate(arguments[: max(required, 0)]):
        annotated = says_tensor(one.annotation)
        first = function.name == "forward" and at == 0 and one.annotation is None
        if annotated or (annotated is None and one.arg in shown) or (first and one.arg not in bound):
            return one.arg
    return None


def _is_filler(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and (index.value is None or index.value is ...)

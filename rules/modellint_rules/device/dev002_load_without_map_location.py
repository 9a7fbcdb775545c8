"""DEV002: `torch.load` that needs the device on which the checkpoint was saved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import (
    Applicability,
    Diagnostic,
    Fix,
    Rule,
    Severity,
    of_kind,
    once,
    parents_in,
    walk,
)

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, Value

_CHECKPOINT = r"(?i)state_?dict|checkpoint|ck?pt|chkpt|weights(?!_only)|pretrain|model|\.pth\b"


class LoadWithoutMapLocation(Rule):
    """A checkpoint that is loaded onto the device from which it was saved.

    ## What it does
    Finds `torch.load` without `map_location`, of what is a checkpoint by the names around it: in the statement, or in a
    `load_state_dict` that takes the result.

    ## Why
    A checkpoint saved on a GPU raises "Attempting to deserialize object on a CUDA device" on a machine without one, and exports to
    Core ML run on such machines.

    ## Bad
    ```python
    import torch


    def restore(model, path):
        model.load_state_dict(torch.load(path))
        return model
    ```

    ## Good
    ```python
    import torch


    def restore(model, path):
        model.load_state_dict(torch.load(path, map_location="cpu"))
        return model
    ```

    ## Fix safety
    The fix is unsafe: the tensors come back on the CPU, and code may count on the device they were saved from. It leaves
    `weights_only` as it is: from torch 2.6 on its default is True, and a checkpoint that holds other objects is refused by it.

    ## Known limits
    A call with `**keywords` or a starred argument is left alone, and so is a file that nothing shows to be a checkpoint: data sets
    and caches are saved from the CPU. So are a file that the same function writes, a tensor of the CPU if it does so later, or
    deletes, a load under `torch.cuda.is_available()`, `device.type == "cuda"` or a condition whose branch goes on to a `.cuda()`,
    where the other branch loads the same file with `map_location` (a checkpoint of the second GPU needs it there, too), and files
    that were published for `torch.hub` (`resnet50-19c8e357.pth`). So is what every `torch.save` of the project that may write it,
    by its name or by the class of its module, saves from the CPU: behind `net.cpu()`, or as
    `{k: v.cpu() for k, v in net.state_dict().items()}`. A path that nothing in the project spells out may lead to all that it
    saves. A file from elsewhere is then taken to be like these.
    So are loads that need a GPU anyway: the engine of a `TRTModule`, and what stands behind a test for a strategy of several
    devices. In tests, in what only a trainer runs, of what only an optimizer or its like is given, and behind a `.cuda()` or
    `.to("cuda")` that nothing goes round, the finding is information.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.load.html>
    """

    code = "DEV002"
    name = "load-without-map-location"
    severity = Severity.WARNING
    only_inference = True
    needs = ("~load",)
    fixable = '`map_location="cpu"`'
    advice = 'Load it onto the CPU: `map_location="cpu"`'

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every `torch.load`."""
        for readings in code.calls:
            call = readings[0]
            if call.name == "torch.load" and not call.has(1, "map_location") and _is_checkpoint(call):
                if _is_own_file(call) or _is_own_cache(call, code) or _needs_a_gpu(call, code):
                    continue
                if _has_another_without_a_gpu(call) or _is_published(call, code):
                    continue
                takers = _takers(call)
                if call.node.args and code.is_saved_on_cpu(call.node.args[0], call.function, takers):
                    continue
                of_training = bool(takers) and all(_OF_TRAINING.search(ast.unparse(taker)) for taker in takers)
                aside = of_training or _goes_to_a_gpu(call, code)
                edit = code.rewriter.add_argument(call.node, 'map_location="cpu"')
                yield code.finding(
                    self,
                    call.node,
                    "`torch.load` without `map_location` fails on a machine without the device that the checkpoint was saved from",
                    severity=Severity.INFO if aside else self.severity,
                    fix=Fix("Load onto the CPU", (edit,), Applicability.UNSAFE),
                    statement=call.statement,
                )


_OF_TRAINING = re.compile(r"(?:^|[._])(?:optim\w*|lr_scheduler|scheduler|(?:grad_)?scaler)$", re.IGNORECASE)
"""Names of what only training goes on with."""


def _takers(call: Call) -> list[ast.expr]:
    """Whose `load_state_dict` are handed the checkpoint: ``G.optim``. Nothing where it may go elsewhere, too."""
    match call.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call.node and call.function is not None:
            reads: list[ast.expr] = [*_reads_of(name, call.statement, call.function)]
        case _:
            reads = [call.node]
    takers = [_taker(read, call.function or call.statement) for read in reads]
    return [taker for taker in takers if taker is not None] if None not in takers else []


def _taker(node: ast.expr, around: ast.AST) -> ast.expr | None:
    """Whose `load_state_dict` takes an expression, or a part of it."""
    parents = parents_in(around)
    part: ast.AST = node
    while (parent := parents.get(part)) is not None and not isinstance(part, ast.stmt):
        match parent:
            case ast.Call(func=ast.Attribute(value=owner, attr="load_state_dict"), args=given) if part in given:
                return owner
        part = parent
    return None


def _reads_of(name: str, statement: ast.stmt, function: ast.AST) -> list[ast.Name]:
    """Where a variable is read behind a statement that binds it, and from the beginning of the outermost loop around that on."""
    parents = parents_in(function)
    first = statement.lineno
    around: ast.AST | None = statement
    while around is not None:
        if isinstance(around, (ast.For, ast.While)):
            first = around.lineno
        around = parents.get(around)
    named = (part for part in of_kind(function, ast.Name) if part.id == name and part.lineno >= first)
    return [part for part in named if isinstance(part.ctx, ast.Load)]


def _is_own_file(call: Call) -> bool:
    """Whether the function writes what it loads, deletes it, or has trained before: it was saved in the same run."""
    if call.function is None:
        return False
    loaded = ast.dump(call.node.args[0]) if call.node.args else ""
    for part in once(call.function, "_file_events", _file_events):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="save"), args=[_, path, *_]):
                if part.lineno < call.node.lineno and call.node.args:
                    paths = _paths(call.node.args[0], call.function)
                    if ast.dump(path) == loaded or (paths and paths <= _paths(path, call.function)):
                        return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="remove" | "unlink"), args=[path]):
                if ast.dump(path) == loaded:
                    return True
            case ast.Call(func=ast.Attribute(attr="backward")) if part.lineno < call.node.lineno:
                return True
            case _:
                pass
    return False


def _file_events(function: ast.AST) -> list[ast.Call]:
    """The calls of a function that may write a file, delete it or train."""
    return [
        call
        for call in of_kind(function, ast.Call)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("save", "remove", "unlink", "backward")
    ]


def _paths(path: ast.expr, function: ast.AST) -> set[str]:
    """What a path may be, by def-use of the variable of a function that holds it; nothing where that is bound in another way."""
    if not isinstance(path, ast.Name):
        return {ast.dump(path)}
    stores = [part for part in of_kind(function, ast.Name) if part.id == path.id and isinstance(part.ctx, ast.Store)]
    values = [part.value for part in of_kind(function, ast.Assign) if any(target in stores for target in part.targets)]
    return {ast.dump(value) for value in values} if len(values) == len(stores) else set()


def _is_own_cache(call: Call, code: Code) -> bool:
    """Whether the function writes a tensor that it makes on the CPU to the file, for the next time."""
    from modellint.authoring import UNKNOWN, alternatives

    loaded = ast.dump(call.node.args[0]) if call.node.args else ""
    for saves in code.calls:
        node = saves[0].node
        if saves[0].name == "torch.save" and saves[0].function is call.function and len(node.args) > 1:
            parts = [part for save in saves for part in alternatives(save.arguments.get(0, "obj") or UNKNOWN)]
            if ast.dump(node.args[1]) == loaded and all(map(_is_made_on_the_cpu, parts)):
                return True
    return False


def _is_made_on_the_cpu(value: Value) -> bool:
    """Whether a value is a tensor that a function of torch makes, which is told no device."""
    from modellint.authoring import Tensor

    node = value.node if isinstance(value, Tensor) and value.origin == "constant" else None
    return (
        isinstance(value, Tensor)
        and value.name.startswith("torch.")
        and not value.name.startswith("torch.cuda.")
        and isinstance(node, ast.Call)
        and not any(word.arg in (None, "device") for word in node.keywords)
    )


def _is_published(call: Call, code: Code) -> bool:
    """Whether a file has the name of one that was published for `torch.hub`, whose names end in a hash, or lies among those that it keeps.

    Tools that publish weights take them to the CPU: `resnet50-19c8e357.pth`.
    """
    words = _words_of_path(call.node.args[0], call.function or code.file.tree) if call.node.args else frozenset()
    if call.node.args and call.function is not None:
        names = {part.id for part in walk(call.node.args[0]) if isinstance(part, ast.Name)}
        if names.isdisjoint(part.id for part in of_kind(call.function, ast.Name) if isinstance(part.ctx, ast.Store)):
            words |= _words_of_path(call.node.args[0], code.file.tree)
    return any(re.search(_PUBLISHED, word) for word in words)


_PUBLISHED = r"-[0-9a-f]{8}\.pth?$|\btorch/hub/checkpoints/"


def _words_of_path(path: ast.expr, function: ast.AST) -> frozenset[str]:
    """The strings that a path is put together of, by def-use of the variables of a function."""
    words: set[str] = set()
    names: set[str] = set()
    pending = [path]
    while pending:
        for part in walk(pending.pop()):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                words.add(part.value)
            elif isinstance(part, ast.Name) and part.id not in names:
                names.add(part.id)
                pending += (
                    node.value
                    for node in of_kind(function, ast.Assign)
                    if any(isinstance(target, ast.Name) and target.id == part.id for target in node.targets)
                )
    return frozenset(words)


def _has_another_without_a_gpu(call: Call) -> bool:
    """Whether a call is reached with a GPU only, and without one the same file is loaded onto the CPU: by the other branch of an `if`."""
    loaded = ast.dump(call.node.args[0]) if call.node.args else ""
    parents = parents_in(call.function) if call.function is not None else {}
    child: ast.AST = call.node
    while (parent := parents.get(child)) is not None:
        if isinstance(parent, (ast.If, ast.IfExp)) and child is not parent.test:
            holds = child in parent.body if isinstance(parent, ast.If) else child is parent.body
            branch = parent.orelse if holds else parent.body
            other: Sequence[ast.AST] = branch if isinstance(branch, list) else [branch]
            needs_a_gpu = _asks_for_a_gpu(parent.test) is holds or _takes_a_block_to_a_gpu(parent, holds)
            if needs_a_gpu and any(
                isinstance(part, ast.Call)
                and ast.unparse(part.func) == ast.unparse(call.node.func)
                and bool(part.args)
                and ast.dump(part.args[0]) == loaded
                and (len(part.args) > 1 or any(word.arg == "map_location" for word in part.keywords))
                for place in other
                for part in walk(place)
            ):
                return True
        child = parent
    return False


def _asks_for_a_gpu(test: ast.expr) -> bool | None:
    """Whether a condition holds where there is a GPU, True, or where there is none, False."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _asks_for_a_gpu(operand)
            return None if inner is None else not inner
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="cuda"), attr="is_available"), args=[]):
            return True
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[right]):
            device = next((_kind_of_device(part) for part in (left, right) if isinstance(part, ast.Constant)), None)
            if device in ("cuda", "cpu"):
                return (device == "cuda") is isinstance(operator, ast.Eq)
    return None


def _kind_of_device(constant: ast.Constant) -> str | None:
    return constant.value.partition(":")[0] if isinstance(constant.value, str) else None


def _takes_a_block_to_a_gpu(branch: ast.If | ast.IfExp, holds: bool) -> bool:
    """Whether a block of an `if` always takes something to a GPU, before or after it loads."""
    if isinstance(branch, ast.IfExp):
        return False
    return any(once(part, "_takes_to_a_gpu", _takes_to_a_gpu) for part in (branch.body if holds else branch.orelse))


def _needs_a_gpu(call: Call, code: Code) -> bool:
    """Whether the state is that of an engine of TensorRT, or only a strategy for several devices gets there."""
    match call.statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="load_state_dict"))):
            for part in walk(call.function or code.file.tree):
                match part:
                    case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=maker))) if (
                        name == owner
                    ):
                        if _comes_from(maker, _TENSORRT, code):
                            return True
                    case _:
                        pass
    return any(
        isinstance(part, ast.Name) and _comes_from(part.id, _DISTRIBUTED, code)
        for test in code.conditions(call.node, call.function)
        for part in walk(test)
    )


def _goes_to_a_gpu(call: Call, code: Code) -> bool:
    """Whether whoever gets to a call has been at a `.cuda()` or a `.to("cuda")` in the blocks around it: without a GPU that fails first."""
    outermost = call.function or code.file.tree
    parents = parents_in(outermost)
    child: ast.AST = call.statement
    while child is not outermost:
        parent = parents.get(child, outermost)
        if isinstance(parent, ast.Try):
            return False
        for block in (getattr(parent, "body", ()), getattr(parent, "orelse", ())):
            if isinstance(block, list) and child in block and _goes_to_a_gpu_before(block, child):
                return True
        child = parent
    return False


def _goes_to_a_gpu_before(block: list[ast.stmt], statement: ast.AST) -> bool:
    before = block[: block.index(statement)]  # type: ignore[arg-type]
    return any(once(part, "_takes_to_a_gpu", _takes_to_a_gpu) for part in before)


def _takes_to_a_gpu(statement: ast.stmt) -> bool:
    """Whether a simple statement takes something to a GPU, on no condition."""
    if not isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return)):
        return False
    parts = walk(statement)
    if any(isinstance(part, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension)) for part in parts):
        return False
    return any(map(_is_move_to_a_gpu, parts))


def _is_move_to_a_gpu(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="cuda", value=owner), args=[]):
            return not (isinstance(owner, ast.Name) and owner.id == "torch")
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value=str(device))]):
            return device.partition(":")[0] == "cuda"
    return False


def _comes_from(name: str, modules: str, code: Code) -> bool:
    """Whether a name is imported, anywhere in the file, from one of some modules."""
    return any(
        re.search(modules, node.module or "") is not None
        and any((alias.asname or alias.name) == name for alias in node.names)
        for node in of_kind(code.file.tree, ast.ImportFrom)
    )


_TENSORRT = r"^(?:torch2trt|tensorrt|torch_tensorrt|trtorch)\b"
_DISTRIBUTED = r"\bstrategies\b|\bdistributed\b"


def _is_checkpoint(call: Call) -> bool:
    names = {part.id for part in walk(call.statement) if isinstance(part, ast.Name)}
    if "BytesIO" in names or any(
        isinstance(part, ast.Attribute) and part.attr == "BytesIO" for part in walk(call.statement)
    ):
        return False
    simple = isinstance(call.statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return))
    if re.search(_CHECKPOINT, ast.unparse(call.statement if simple else call.node)):
        return True
    targets = {
        part.id for part in walk(call.statement) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and "load" in part.func.attr
        and "state_dict" in part.func.attr
        and any(isinstance(name, ast.Name) and name.id in targets for argument in part.args for name in walk(argument))
        for part in walk(call.function or call.statement)
    )

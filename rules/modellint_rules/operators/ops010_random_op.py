"""OPS010: random numbers in `forward`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Instance, Rule, Severity, called_name, of_kind, parents_in, walk

if TYPE_CHECKING:
    from modellint.authoring import Call, Code, LiveModel, Operator, Run


_RANDOM = frozenset(
    {
        "bernoulli",
        "binomial",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "normal",
        "poisson",
        "rand",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "random",
        "randperm",
        "rrelu_with_noise",
        "uniform",
    }
)
_IN_PLACE = frozenset(
    {"bernoulli_", "normal_", "uniform_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_"}
)
_METHODS = _IN_PLACE | {"bernoulli", "multinomial"}
_DROPPED = frozenset(
    {"bernoulli", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like"}
)
"""What a trace and `torch.export` drop with all that hangs on it, tried: `randperm` stands in the way of conversion even so."""
_FILLED = frozenset({"rand", "randn"})
"""Functions that are given nothing but sizes before their keywords."""
_DRAWN = frozenset({"sample", "rsample"})
"""Methods of distributions that draw numbers."""
_WORDS = _METHODS | _RANDOM | {".sample", ".rsample"}
_ON_PURPOSE = (
    r"^_?Rand|Random|Drop|Augment|Sampl|Mix[Uu]p|Cut[Mm]ix|Jitter|Transform(?!er)|Noise(?:Sched|Gen)|Shuffl|Flow$"
    r"|Distribution|Mask(?:ing|Along)|SpecAug|TimeWarp|Discriminator|Diffusion|Dither|Perturb|Wrapper$"
)
_ASIDE = r"(?i)augment|transforms"


class RandomOp(Rule):
    """An output that hangs on random numbers which the model draws itself.

    ## What it does
    Finds operators in the run, and in what `forward` certainly runs in source, in evaluation mode, that draw random numbers
    (`randn`, `rand_like`, `bernoulli`, `multinomial`, `normal_`, …) on which an output hangs, and branches on Python's
    `random`. Dropout that is on in evaluation, and weights of modules that `forward` builds, are other rules' business.

    ## Why
    Where they convert at all, the program draws numbers of its own: they are not those of `torch.manual_seed`, and no comparison
    with PyTorch can succeed. Only few do: `rand`, `randn` and `randint` by a trace, `bernoulli` and `normal` by no route, and so do
    the samples of `torch.distributions` that are made of these.

    ## Bad
    ```python
    import torch
    from torch import nn


    class Noisy(nn.Module):
        def forward(self, x):
            return x + torch.randn_like(x)


    inputs = (torch.randn(2, 4),)
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Noisy(nn.Module):
        def forward(self, x, noise):
            return x + noise


    inputs = (torch.randn(2, 4), torch.randn(2, 4))
    ```

    ## Fix safety
    There is no fix of the source: the numbers have to become an input. `modellint export --random-inputs` makes them one of the package,
    and `modellint.with_random_inputs` of the model.

    ## Known limits
    In source what a condition decides about is for information: a model may draw numbers when it is given none. Where both branches
    draw numbers, the second is told of. Modules that by
    their name are random on purpose (`RandomCrop`, `DropPath`, a sampler) are left alone, and numbers that are not used: by the
    function, or by any caller of a module that only others of the project build (`y, _ = self.source(x)`), or as loops over the sizes
    that were asked for overwrite them all (`y = torch.rand(n, 3)`, `for i in range(n): y[i] = x[i]`).

    ## References
    - <https://github.com/apple/coremltools/issues/788>
    - <https://github.com/apple/coremltools/issues/2443>
    """

    code = "OPS010"
    name = "random-op"
    severity = Severity.WARNING
    only_inference = True
    live_needs = "run"
    needs = ("forward", _WORDS)
    only_modules = True
    only_forward = True

    def source(self, code: Code) -> Iterator[Diagnostic]:
        """Ask every call that `forward` runs, whatever flags are set, whether it draws numbers."""
        if code.is_never_exported or any(re.search(_ON_PURPOSE, ref.node.name) for ref in code.lineage):
            return
        if re.search(_ASIDE, code.file.path) or _gives_loss(code):
            return
        drawing = [readings for readings in code.calls if _is_run(code, readings[0]) and all(map(_draws, readings))]
        statements = {id(readings[0].statement) for readings in drawing if _is_kept(readings[0])}
        for readings in drawing:
            call = readings[0]
            function = call.function
            if function is None:
                continue
            if call.name.startswith("random.") and _is_asked(call):
                decided = any(reading.switched or reading.unusual for reading in readings) or _may_leave(call)
                yield code.finding(
                    self,
                    call.node,
                    f"Python's `{call.method}` decides this once, when the model is captured: the converted model keeps the branch",
                    severity=Severity.INFO if decided else self.severity,
                    statement=call.statement,
                    advice="Make the choice an input, or leave it to training by `if self.training`",
                )
                continue
            if (
                not _is_kept(call)
                or code.ends_in_python(call.node, function)
                or code.is_for_loss_only(call.node, function)
                or (call.method in _DROPPED and code.is_discarded(call.node, function))
                or (call.method in _FILLED and _is_overwritten(call))
            ):
                continue
            if call.name.startswith("random."):
                message = f"Python's `{call.method}` draws this once, when the model is captured: the converted model keeps the number"
            else:
                message = f"`{call.method}` draws random numbers: the converted program draws others, at every call"
            yield code.finding(
                self,
                call.node,
                message,
                severity=Severity.INFO if _is_decided(code, readings, statements) else self.severity,
                statement=call.statement,
                advice="Make them an input of the model",
                operator=None if call.method in _DRAWN else f"aten::{call.method}",
            )

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every operator whether it is random, and follow what it draws to the outputs."""
        run = subject.run
        if run is None:
            return
        others = {call.place for call in run.calls if "dropout" in call.name}
        others.update(call.built_at for call in run.modules if call.is_fresh)
        for operator in run.operators:
            name = operator.name.removeprefix("aten::")
            if name.rstrip("_") in _RANDOM and operator.place not in others and _is_used(operator, run):
                yield subject.finding(
                    self,
                    f"`{name}` draws random numbers: the converted program draws others, at every call",
                    at=operator.place,
                    modules=[operator.module],
                    operator=operator.name,
                    advice="Make them an input of the model",
                )


def _is_used(operator: Operator, run: Run) -> bool:
    from modellint.authoring import Reach, facts_in

    tensors = {fact.tensor for fact in operator.outputs}
    storages = {fact.storage for fact in operator.outputs}
    reach = Reach(run, lambda fact: fact.tensor in tensors or fact.storage in storages)
    return any(fact in reach or fact.tensor in tensors or fact.storage in storages for fact in facts_in(run.output))


def _draws(call: Call) -> bool:
    if call.training or not call.exported or call.building:
        return False
    if call.name.startswith("torch.Tensor."):
        return call.method in _METHODS
    if call.method in _DRAWN:
        return isinstance(call.receiver, Instance) and call.receiver.name.startswith("torch.distributions.")
    return call.name in (f"torch.{call.method}", f"random.{call.method}") and call.method in _RANDOM


def _is_asked(call: Call) -> bool:
    """Whether a number is drawn in the condition of an `if`, at the top of `forward`: `if random.random() < 0.5:`."""
    parents = parents_in(call.function) if call.function is not None else {}
    part: ast.AST = call.node
    while isinstance(parent := parents.get(part), (ast.Compare, ast.UnaryOp)):
        part = parent
    # A rate that is not written down may be 0.
    written = isinstance(part, ast.Compare) and any(
        isinstance(side, ast.Constant) for side in (part.left, *part.comparators)
    )
    return written and isinstance(parent, (ast.If, ast.IfExp)) and parent.test is part and parent not in parents


def _is_kept(call: Call) -> bool:
    """Whether what is drawn is bound, returned or computed with, and not only left behind in a tensor that is thrown away."""
    parent = parents_in(call.function).get(call.node) if call.function is not None else None
    default = isinstance(parent, ast.Call) and called_name(parent) in ("default", "ifnone", "coalesce")
    return not isinstance(call.statement, ast.Expr) and not default and not _is_never_read(call)


def _is_never_read(call: Call) -> bool:
    """Whether what is drawn is bound to a variable that the function never reads."""
    match call.statement:
        case ast.Assign(targets=[ast.Name(id=name)]) if call.function is not None:
            return not any(
                part.id == name and isinstance(part.ctx, ast.Load) for part in of_kind(call.function, ast.Name)
            )
    return False


def _is_run(code: Code, call: Call) -> bool:
    return call.function is not None and call.function in code.in_forward


def _is_decided(code: Code, readings: Sequence[Call], drawing: set[int]) -> bool:
    """Whether a condition decides that numbers are drawn: a flag, an argument that is not given, or a way out before."""
    call = readings[0]
    asks = any(reading.switched for reading in readings) or any(True for _ in code.conditions(call.node, call.function))
    return _may_leave(call) or (asks and not _is_otherwise_drawn(call, drawing))


def _is_otherwise_drawn(call: Call, drawing: set[int]) -> bool:
    """Whether a call stands behind each `else` around it, and numbers are drawn before: some are in any case."""
    parents = parents_in(call.function) if call.function is not None else {}
    part: ast.AST = call.node
    branches = 0
    while (parent := parents.get(part)) is not None:
        match parent:
            case ast.If(body=body, orelse=otherwise) if part in otherwise and _certainly_draw(body, drawing):
                branches += 1
            case ast.If() | ast.IfExp() | ast.While():
                return False
        part = parent
    return branches > 0


def _certainly_draw(body: list[ast.stmt], drawing: set[int]) -> bool:
    """Whether statements draw numbers, whichever way they go."""
    for statement in body:
        match statement:
            case ast.If(body=inner, orelse=otherwise):
                draws = _certainly_draw(inner, drawing) and _certainly_draw(otherwise, drawing)
            case ast.With(body=inner):
                draws = _certainly_draw(inner, drawing)
            case _:
                draws = id(statement) in drawing and not any(isinstance(part, ast.IfExp) for part in walk(statement))
        if draws:
            return True
    return False


def _may_leave(call: Call) -> bool:
    """Whether the function may be left before the call: `if p == 0: return x`."""
    body = getattr(call.function, "body", ())
    return any(
        isinstance(statement, ast.If)
        and (statement.end_lineno or 0) < call.node.lineno
        and any(isinstance(part, ast.Return) for part in walk(statement))
        for statement in body
    )


def _gives_loss(code: Code) -> bool:
    """Whether `forward` computes a loss: what draws numbers there trains a model, and is not exported."""
    return any(
        isinstance(part, ast.Name) and "loss" in part.id.lower()
        for method in code.methods
        if getattr(method.node, "name", "") == "forward"
        for part in walk(method.node)
    )


_CASTS = frozenset({"to", "cuda", "cpu", "float", "half", "double", "bfloat16", "type", "type_as", "contiguous"})
"""Methods that move or cast a tensor."""


def _is_overwritten(call: Call) -> bool:
    """Whether loops over the first sizes of the tensor that a call makes bind every part of it before it is read.

    ``y = torch.rand(n, 3)``, ``for i in range(n): y[i] = x[i]``.
    """
    parents = parents_in(call.function) if call.function is not None else {}
    statement = call.statement
    block = getattr(parents.get(statement, call.function), "body", [])
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if statement in block and _is_cast(value, call.node):
            behind = block[block.index(statement) + 1 :]
        case _:
            return False
    loop = next((part for part in behind if any(_is_name(node, name) for node in walk(part))), None)
    sizes = _sizes(call.node)
    if not isinstance(loop, ast.For) or call.function is None or not _are_bound_once(sizes, call.function):
        return False
    reads = [node for node in walk(loop) if _is_name(node, name)]
    if len(reads) != 1 or any(isinstance(part, (ast.Break, ast.Continue, ast.Return, ast.Try)) for part in walk(loop)):
        return False
    return _is_filled_by(loop, name, sizes)


def _is_filled_by(loop: ast.For, name: str, sizes: list[ast.expr]) -> bool:
    """Whether a loop, with those in it, goes through the first of some sizes and binds a part of a tensor in each turn."""
    counters: list[str] = []
    body: list[ast.stmt] = [loop]
    for size in sizes:
        inner = next((part for part in body if isinstance(part, ast.For) and _holds(part, name)), None)
        match inner:
            case ast.For(
                target=ast.Name(id=counter),
                iter=ast.Call(func=ast.Name(id="range"), args=[count], keywords=[]),
                body=body,
                orelse=[],
            ) if ast.dump(count) == ast.dump(size):
                counters.append(counter)
            case _:
                break
    if len(set(counters)) < len(counters) or not counters:
        return False
    stores = [part.id for part in walk(loop) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
    targets = [target for part in body if isinstance(part, ast.Assign) for target in part.targets]
    return all(stores.count(counter) == 1 for counter in counters) and any(
        _indices(target, name) == counters for target in targets
    )


def _indices(target: ast.expr, name: str) -> list[str] | None:
    """The variables that index a tensor which is bound in parts: ``y[i][j]``, ``y[i, j, :]``."""
    indices: list[str] = []
    while isinstance(target, ast.Subscript):
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        while parts and ast.unparse(parts[-1]) in (":", "..."):
            parts = parts[:-1]
        if not all(isinstance(part, ast.Name) for part in parts):
            return None
        indices = [*(part.id for part in parts if isinstance(part, ast.Name)), *indices]
        target = target.value
    return indices if _is_name(target, name) else None


def _sizes(node: ast.Call) -> list[ast.expr]:
    """The sizes that a factory is given, each by itself or in one tuple or list."""
    sizes = node.args
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        sizes = sizes[0].elts
    plain = [part for part in sizes if isinstance(part, (ast.Name, ast.Constant))]
    # Of the rest nobody asks: a part holds all of it.
    first = next((number for number, part in enumerate(sizes) if part not in plain), len(sizes))
    return [] if any(isinstance(part, ast.Starred) for part in sizes) else sizes[:first]


def _are_bound_once(sizes: list[ast.expr], function: ast.AST) -> bool:
    """Whether the variables among some sizes stand for the same number all through a function."""
    names = {part.id for part in sizes if isinstance(part, ast.Name)}
    stores = [part.id for part in of_kind(function, ast.Name) if not isinstance(part.ctx, ast.Load)]
    stores += [part.arg for part in of_kind(function, ast.arg)]
    return all(stores.count(name) == 1 for name in names)


def _is_cast(value: ast.expr, node: ast.Call) -> bool:
    """Whether an expression only moves or casts what a call makes."""
    while value is not node:
        if (
            not isinstance(value, ast.Call)
            or not isinstance(value.func, ast.Attribute)
            or value.func.attr not in _CASTS
        ):
            return False
        value = value.func.value
    return True


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _holds(node: ast.AST, name: str) -> bool:
    return any(_is_name(part, name) for part in walk(node))

"""Evidence of training, evaluation or serving: what one function, class or file tells by its own syntax of who runs it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from modellint.source.project.symbols import ClassRef, External, Imported, dotted_name
from modellint.source.roles.training_parts import methods_run_by
from modellint.source.syntax.ast_walk import called_name, functions_in, given_to, of_kind, once, parents_in

if TYPE_CHECKING:
    from modellint.results.diagnostic import Diagnostic
    from modellint.source.project.index import Project
    from modellint.source.project.mentions import Mention
    from modellint.source.project.symbols import IndexedFile

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_ANSWERS = re.compile(r"(?:\w+_)?(?:labels?|targets?|gts?|ground_truths?)|gt_\w+|targets?_\w+s")
"""Names of what a model should answer."""
_LOSS_OPERATORS = re.compile(r"(?:\w+_)?loss(?:_\w+)?|cross_entropy\w*|binary_cross_entropy\w*|kl_div")
_LOSS_FUNCTIONS = re.compile(r"(?:^|_)(?:loss(?:es)?|(?:ms_?s)?ssim|psnr|lpips)(?:_|$)")
_LOSS_CALLS = re.compile(r"\b(?:F|functional|nn|torch)\.(?:\w+_loss|\w*cross_entropy\w*|kl_div|\w+Loss)\b")
_MODULE = re.compile(r"\bModule\b")
_RUNTIMES = frozenset(
    {
        "coremltools",
        "ncnn",
        "onnxruntime",
        "openvino",
        "paddle",
        "tensorflow",
        "tensorrt",
        "tflite_runtime",
        "triton_python_backend_utils",
        "tritonclient",
    }
)
"""Packages that run models themselves."""
_ARRAY = re.compile(r"(?:np|numpy)\.ndarray|ndarray")
_OF_MODELS = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "load_state_dict", "named_modules"}
)
"""Methods that modules have and tensors do not."""
_SAMPLES = re.compile(r"(?:batch_)?data_samples")
_WITH_NUMBERS = re.compile(r"(?:batch_)?(?:img_metas|data_samples)")
"""Arguments that hold what is known of an image besides its tensor: what a framework asks for, and no exported program is given."""
_EXPORTS = re.compile(r"\bonnx\.export\b|\bjit\.(?:trace|script)\b|\bexport\.export\b|\bct\.convert\b|coremltools")
_FORCED = re.compile(r"(?:use_)?teacher_forc\w*|tfr?|tf_ratio")
_DECODES = re.compile(r"forward_test|inference|infer|generate|sample|greedy\w*|decode_step|predict")
"""Methods by which a model answers that `forward` trains."""
_INFERS = frozenset({"infer", "inference"})
_CHANGES = re.compile(r"[a-z]\w*[a-z]_|append|extend|insert|pop|update|clear")
"""Methods that change what they are called on."""
_TRAINING_SCRIPT = re.compile(r"(?:^|[/_])train(?:er|ing)?(?:_\w*)?\.py$")


class UnreadClass:
    """A class as its role is told: a `Code` that is not read."""

    def __init__(self, project: Project, ref: ClassRef) -> None:
        self.project = project
        self.file = ref.file
        self.ref = ref

    @property
    def methods(self) -> list[UnreadMethod]:
        """Its own methods, and those of its bases."""
        return [UnreadMethod(node) for ref in self.lineage for node in functions_in([ref.node])]

    @cached_property
    def lineage(self) -> list[ClassRef]:
        """The class and its bases in the project."""
        return self.project.lineage(self.ref)

    def conditions(self, node: ast.AST, function: ast.AST | None) -> Iterator[ast.expr]:
        """The conditions around a node."""
        parents = parents_in(function) if function is not None else {}
        child = node
        while (parent := parents.get(child)) is not None:
            if isinstance(parent, ast.If) and child is not parent.test:
                yield parent.test
            child = parent

    def method(self, name: str) -> _Function | None:
        """The first method of a name, in the order in which Python asks."""
        return next((method.node for method in self.methods if method.node.name == name), None)


class UnreadMethod:
    """A method of such a class."""

    def __init__(self, node: _Function) -> None:
        self.node = node


def is_about_a_loss(finding: Diagnostic, file: IndexedFile) -> bool:
    """Whether a finding is about one of PyTorch's losses: these compare with what a model should answer, which no exported one is told."""
    if not finding.code.startswith("OPS"):
        return False
    if finding.operator is not None and _LOSS_OPERATORS.fullmatch(finding.operator.rpartition("::")[2]):
        return True
    return (
        re.match(r"`(?:F|nn|torch)\.", finding.message) is not None and _LOSS_CALLS.search(finding.message) is not None
    )


def takes_samples(function: _Function, code: str) -> bool:
    """Whether a function, not `forward` itself, packs what a model gives into the samples of a framework."""
    names = _WITH_NUMBERS if code in ("FLW002", "FLW003") else _SAMPLES
    arguments = (*function.args.args, *function.args.kwonlyargs) if function.name != "forward" else ()
    return any(names.fullmatch(argument.arg) for argument in arguments)


def serves(file: IndexedFile) -> bool:
    """Whether a file runs models that were exported before, and exports none: what it computes besides is no part of one."""
    return knows_a_runtime(file) and not _EXPORTS.search(file.source.text)


def knows_a_runtime(file: IndexedFile) -> bool:
    """Whether a file imports what runs models that were exported before; it may be the one that exports them."""
    imported = [name for bindings in file.names.values() for name in bindings if isinstance(name, Imported)]
    return any(one.module.partition(".")[0] in _RUNTIMES for one in imported)


def is_told_answers(cls: UnreadClass) -> bool:
    """Whether `forward` is told the answers step by step, to be trained, and another method has to do without them."""
    forward = cls.method("forward")
    if forward is None or not asks_for_answers(forward):
        return False
    if any(_FORCED.fullmatch(argument.arg) for argument in (*forward.args.args, *forward.args.kwonlyargs)):
        return True
    return any(
        _DECODES.fullmatch(method.node.name)
        and not {"forward"} & {part.attr for part in of_kind(method.node, ast.Attribute)}
        for method in cls.methods
    )


def infers_elsewhere(cls: UnreadClass) -> bool:
    """Whether a class answers by a method called `infer`, which has nothing of `forward` run, nor is run by it: `forward` trains."""
    infers = [method.node for method in cls.methods if method.node.name in _INFERS]
    if not infers or cls.method("forward") is None:
        return False
    read = {
        part.attr
        for method in cls.methods
        if method.node not in infers
        for part in of_kind(method.node, ast.Attribute)
        if isinstance(part.value, ast.Name) and part.value.id == "self"
    }
    return any(
        method.name not in read
        and not any(_is_own_forward(part) for part in of_kind(method, ast.Call))
        and any(_is_own_part(part) for part in of_kind(method, ast.Call))
        for method in infers
    )


def _is_own_forward(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="self") | ast.Attribute(attr="forward"):
            return True
        case ast.Call(func=ast.Name(id="super")):
            return True
    return False


def _is_own_part(call: ast.Call) -> bool:
    """Whether a call runs what `self` holds: `self.net(x)`, `self.nets[0](x)`."""
    called = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self"


def is_loss_function(function: _Function) -> bool:
    """Whether a function computes a loss or a measure of quality, by its name."""
    return _LOSS_FUNCTIONS.search(function.name) is not None


def is_for_training(function: _Function) -> bool:
    """Whether a function computes a loss, or trains."""
    return is_loss_function(function) or trains(function)


def takes_module(forward: _Function) -> bool:
    """Whether a `forward` is given a model that it runs, which no exported program can be given."""
    arguments = [*forward.args.posonlyargs, *forward.args.args][1:]
    annotated = any(one.annotation is not None and _MODULE.search(ast.unparse(one.annotation)) for one in arguments)
    if annotated:
        return True
    names = {argument.arg for argument in arguments}
    calls = [call.func for call in of_kind(forward, ast.Call)]
    return any(isinstance(called, ast.Name) and called.id in names & {"model", "network"} for called in calls) or any(
        isinstance(called, ast.Attribute)
        and called.attr in _OF_MODELS
        and isinstance(called.value, ast.Name)
        and called.value.id in names
        for called in calls
    )


def takes_arrays(forward: _Function) -> bool:
    """Whether a `forward` has to be given an array of NumPy, which no exported program is."""
    arguments = [*forward.args.posonlyargs, *forward.args.args]
    required = arguments[1 : len(arguments) - len(forward.args.defaults)]
    notes = [argument.annotation for argument in required if argument.annotation is not None]
    return any(_ARRAY.fullmatch(ast.unparse(note)) for note in notes)


def counts_up(cls: UnreadClass) -> bool:
    """Whether a class is a metric: a buffer that `forward` adds to is set to zero by a method that is called `clear` or `reset`."""
    methods = {method.node.name: method.node for method in reversed(cls.methods)}
    forward = methods.get("forward")
    cleared = {
        call.func.value.attr
        for name in ("clear", "reset")
        for call in (of_kind(methods[name], ast.Call) if name in methods else ())
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("zero_", "fill_")
        and isinstance(call.func.value, ast.Attribute)
    }
    return forward is not None and any(
        isinstance(part.op, ast.Add) and isinstance(part.target, ast.Attribute) and part.target.attr in cleared
        for part in of_kind(forward, ast.AugAssign)
    )


def leaves_by_chance(forward: _Function) -> bool:
    """Whether a `forward` gives back its input as it is where a number says so that it draws, in evaluation too.

    `if torch.rand(1) > self.p: return x`
    """
    arguments = [*forward.args.posonlyargs, *forward.args.args][1:2]
    return (
        bool(arguments)
        and any(
            _asks_chance(part.test) and _gives_back(body, arguments[0].arg)
            for part in forward.body
            if isinstance(part, ast.If)
            for body in (part.body, part.orelse)
        )
        and not any(part.attr == "training" for part in of_kind(forward, ast.Attribute))
    )


def draws_by_itself(forward: _Function) -> bool:
    """Whether a `forward` always draws from Python's or NumPy's numbers, in evaluation too, which a program would hold as constants."""
    simple = (part for part in forward.body if isinstance(part, (ast.Assign, ast.Expr, ast.Return)))
    return any(
        isinstance(part, ast.Call) and _DRAWS.fullmatch(dotted_name(part.func) or "")
        for statement in simple
        for part in ast.walk(statement)
    ) and not any(part.attr == "training" for part in of_kind(forward, ast.Attribute))


_DRAWS = re.compile(r"(?:(?:np|numpy)\.)?random\.(?:random|rand|randn|randint|uniform|normal|choice|choices|sample)")


def _asks_chance(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and any(
        isinstance(part, ast.Call) and _CHANCES.fullmatch(dotted_name(part.func) or "") for part in ast.walk(test)
    )


_CHANCES = re.compile(r"torch\.rand|(?:(?:np|numpy)\.)?random\.(?:random|rand|uniform)")
"""Calls that draw a number evenly between two bounds."""


def _gives_back(body: list[ast.stmt], name: str) -> bool:
    match body:
        case [ast.Return(value=ast.Name(id=returned))]:
            return returned == name
    return False


def imports_a_runtime(function: _Function) -> bool:
    """Whether a method imports what runs models that were exported before: its class is a wrapper around them."""
    imported = [alias.name for part in of_kind(function, ast.Import) for alias in part.names]
    imported += [part.module or "" for part in of_kind(function, ast.ImportFrom) if not part.level]
    return any(name.partition(".")[0] in _RUNTIMES for name in imported)


def only_raises(function: _Function) -> bool:
    """Whether a function does nothing but raise."""
    body = [part for part in function.body if not isinstance(part, (ast.Expr, ast.Pass))]
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def asks_for_answers(forward: _Function) -> bool:
    """Whether a `forward` has to be given what the model should answer."""
    arguments = [*forward.args.posonlyargs, *forward.args.args]
    required = arguments[1 : len(arguments) - len(forward.args.defaults)]
    return len(required) > 1 and any(_ANSWERS.fullmatch(one.arg) for one in required)


def keeps_nothing(method: _Function) -> bool:
    """Whether a method is the constructor, or writes nothing to `self`, to a part of it, or in place to what that holds."""
    if method.name == "__init__":
        return True
    return (
        not any(
            _is_of_self(part.value) for part in of_kind(method, ast.Attribute) if not isinstance(part.ctx, ast.Load)
        )
        and not any(
            _is_of_self(part.value) for part in of_kind(method, ast.Subscript) if not isinstance(part.ctx, ast.Load)
        )
        and not any(
            isinstance(call.func, ast.Attribute) and _CHANGES.fullmatch(call.func.attr) and _is_of_self(call.func.value)
            for call in of_kind(method, ast.Call)
        )
    )


def attributes_changed(method: _Function) -> frozenset[str]:
    """The attributes of `self` that a method writes, or changes in place, as a whole or in part; that it only moves one is no change."""
    return once(method, "_changes", _changed_by)


def _changed_by(method: _Function) -> frozenset[str]:
    moved = {target for part in of_kind(method, ast.Assign) if _is_move(part) for target in part.targets}
    bound = (
        part for part in of_kind(method, ast.Attribute) if not isinstance(part.ctx, ast.Load) and part not in moved
    )
    return _attributes_of_self(bound) | _changed_in_place(method)


def _changed_in_place(method: _Function) -> frozenset[str]:
    places = [part.value for part in of_kind(method, ast.Subscript) if not isinstance(part.ctx, ast.Load)]
    places += [
        call.func.value
        for call in of_kind(method, ast.Call)
        if isinstance(call.func, ast.Attribute) and _CHANGES.fullmatch(call.func.attr)
    ]
    return _attributes_of_self(places)


def _attributes_of_self(places: Iterable[ast.expr]) -> frozenset[str]:
    return frozenset(
        part.attr
        for place in places
        if _is_of_self(place)
        for part in ast.walk(place)
        if isinstance(part, ast.Attribute)
    )


def _is_move(statement: ast.Assign) -> bool:
    """Whether a statement puts an attribute on another device, or gives it another type: `self.weight = self.weight.to(x)`."""
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)],
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id=other), attr=moved),
                    attr="to" | "cuda" | "cpu" | "type_as" | "float" | "double",
                )
            ),
        ):
            return (owner, name) == (other, moved)
    return False


def attributes_remade(method: _Function) -> frozenset[str]:
    """The attributes of `self` that a method only binds to themselves, elsewhere or of another type, or to what no input's values reach.

    `self.window = self.window.to(x)`, or a window made anew for as many channels as an input has: no call leaves anything to the next one.
    """
    return once(method, "_remade", _remade_by)


def _remade_by(method: _Function) -> frozenset[str]:
    stores = [
        part for part in of_kind(method, ast.Attribute) if not isinstance(part.ctx, ast.Load) and _is_of_self(part)
    ]
    values = {
        id(target): part.value
        for part in of_kind(method, ast.Assign)
        for target in part.targets
        if len(part.targets) == 1 and isinstance(target, ast.Attribute)
    }
    flow: _Flow | None = None
    remade: set[str] = set()
    kept = set(_changed_in_place(method))
    for store in stores:
        value = values.get(id(store))
        if value is not None and isinstance(store.value, ast.Name) and not _is_moved(value, store.attr):
            flow = flow or _Flow(method)
            value = None if flow.reaches(value) else value
        (remade if value is not None else kept).add(store.attr)
    return frozenset(remade - kept)


def _is_moved(value: ast.expr, attribute: str) -> bool:
    """Whether a value is an attribute of `self` by methods that move it: `self.window.to(x.device)`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES:
        value = value.func.value
    match value:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name == attribute
    return False


def _named_in(target: ast.expr) -> Iterator[str]:
    return (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


class _Flow:
    """Which variables of a method hold values of its arguments, or of what it keeps in attributes for the next call."""

    def __init__(self, method: _Function) -> None:
        self.kept = attributes_changed(method)
        self.reached = {part.arg for part in of_kind(method, ast.arg)} - {"self"}
        self.aliases: set[str] = set()
        bound = [
            ({name for target in part.targets for name in _named_in(target)} - {"self"}, part.value)
            for part in of_kind(method, ast.Assign)
        ]
        stores = Counter(part.id for part in of_kind(method, ast.Name) if isinstance(part.ctx, ast.Store))
        plain = Counter(
            part.id
            for assign in of_kind(method, ast.Assign)
            for target in assign.targets
            for part in ast.walk(target)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )
        # What a loop binds, or `+=`, may be anything.
        self.reached |= {name for name, count in stores.items() if count > plain[name]}
        for _ in bound:
            before = len(self.reached) + len(self.aliases)
            for names, value in bound:
                if self.reaches(value):
                    self.reached |= names
                elif self._is_alias(value):
                    self.aliases |= names
            if len(self.reached) + len(self.aliases) == before:
                break

    def _is_alias(self, value: ast.expr) -> bool:
        """Whether an expression is an attribute that the method changes, as it is, or moved."""
        match value:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _MOVES:
                return self._is_alias(owner)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                return name in self.kept
            case ast.Name(id=name):
                return name in self.aliases
        return False

    def reaches(self, value: ast.expr) -> bool:
        """Whether an expression may hold such values, and not only their size, type or device; an attribute as it is says nothing new."""
        return not self._is_alias(value) and self._is_reached(value)

    def _is_reached(self, value: ast.expr) -> bool:
        if self._is_alias(value):
            return True
        match value:
            case ast.Attribute(attr=attribute) | ast.Call(func=ast.Attribute(attr=attribute)) if attribute in _ABOUT:
                return False
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _MOVES:
                return self._is_reached(owner)
            case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=words):
                return any(map(self._is_reached, (owner, *args, *(word.value for word in words))))
            case ast.Call(func=ast.Name(), args=args, keywords=words):
                return any(map(self._is_reached, (*args, *(word.value for word in words))))
            case ast.Name(id=name):
                return name in self.reached
            case ast.Attribute(value=owner):
                return self._is_reached(owner)
            case ast.Constant():
                return False
            case ast.BinOp() | ast.UnaryOp() | ast.Tuple() | ast.List() | ast.Subscript() | ast.Slice():
                parts = (part for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr))
                return any(map(self._is_reached, parts))
        return True


_MOVES = frozenset({"to", "cuda", "cpu", "type", "type_as", "float", "half", "double", "requires_grad_"})
_ABOUT = frozenset({"size", "shape", "dim", "ndim", "device", "dtype", "get_device", "is_cuda", "numel"})


def binds_first(method: _Function) -> frozenset[str]:
    """The attributes of `self` that a method always binds anew before it reads them: no value of an earlier call is seen."""
    return once(method, "_binds_first", lambda node: frozenset(_bound_first(node.body)[0]))


def _bound_first(body: list[ast.stmt]) -> tuple[set[str], set[str]]:
    """The attributes that statements always bind before they read them, and those that they mention otherwise before."""
    bound: set[str] = set()
    read: set[str] = set()
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr=name) as target], value=value) if _is_of_self(target):
                read |= _mentioned(value) - bound
                bound |= {name} - read
            case ast.If(test=test, body=inner, orelse=other):
                read |= _mentioned(test) - bound
                first, second = _bound_first(inner), _bound_first(other)
                read |= (first[1] | second[1] | (first[0] ^ second[0])) - bound
                bound |= (first[0] & second[0]) - read
            case _:
                read |= _mentioned(statement) - bound
    return bound, read


def _mentioned(node: ast.AST) -> set[str]:
    return {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def makes_by_itself(node: ast.ClassDef, attribute: str) -> bool:
    """Whether a class binds an attribute once, in its constructor, to a list of what it makes there of no argument's parts."""
    return attribute in once(node, "_made_by_itself", _made_by_itself)


def _made_by_itself(node: ast.ClassDef) -> frozenset[str]:
    bindings: Counter[str] = Counter()
    names: Counter[str] = Counter()
    lists: set[str] = set()
    for function in functions_in([node]):
        is_init = function.name == "__init__"
        arguments = {part.arg for part in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
        if is_init:
            names.update(part.attr for part in of_kind(function, ast.Attribute))
        for part in of_kind(function, ast.Assign):
            attributes = {target.attr for target in part.targets if isinstance(target, ast.Attribute)}
            bindings.update(attributes)
            if is_init and isinstance(part.value, (ast.List, ast.ListComp)) and not _names(part.value, arguments):
                lists |= attributes
    return frozenset(name for name in lists if bindings[name] == names[name] == 1)


def _names(value: ast.expr, arguments: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in arguments - {"self"} for part in ast.walk(value))


def _is_of_self(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"


def changes_data(statement: ast.stmt) -> bool:
    """Whether a statement writes the data of a tensor past autograd, as an optimization does: `image.data = blur(image)`."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr="data")]):
            return True
    return False


def is_for_samples(project: Project, mention: Mention, file: IndexedFile) -> bool:
    """Whether what a mention builds is put among the transforms of samples: `Compose([Net()])`, or a list that this is given."""
    function = mention.function
    if function is None:
        return False
    composed = [
        part
        for call in of_kind(function, ast.Call)
        if called_name(call) == "Compose" and _is_of_library(project, file, call.func)
        for part in given_to(call)
    ]
    names = {part.id for part in composed if isinstance(part, ast.Name)}
    lists = [part for part in composed if isinstance(part, ast.List)]
    match mention.statement:
        case ast.AugAssign(target=ast.Name(id=name), value=ast.List() as value) if name in names:
            lists.append(value)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() as value) if name in names:
            lists.append(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[part])):
            return name in names and isinstance(part, ast.Call) and part.func is mention.node
    return any(isinstance(part, ast.Call) and part.func is mention.node for value in lists for part in value.elts)


def _is_of_library(project: Project, file: IndexedFile, node: ast.expr) -> bool:
    dotted = dotted_name(node)
    return dotted is not None and isinstance(project.resolve(file, dotted), External)


def trains(function: _Function) -> bool:
    """Whether a function goes back through what was computed, or makes an optimizer."""
    return once(function, "trains", _goes_back)


def trains_as_script(file: IndexedFile) -> bool:
    """Whether the statements of a file that stand in no function go back through a loss, or make an optimizer."""
    return once(file.tree, "_trains_as_script", lambda tree: any(map(_is_of_training, _run_by_import(tree))))


def _run_by_import(tree: ast.Module) -> Iterator[ast.Call]:
    """The calls of a file that stand in no function or class."""
    pending: list[ast.AST] = [*tree.body]
    for node in pending:
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)


def follows_gradients(function: _Function) -> bool:
    """Whether a function asks for the gradients of a loss with respect to its inputs: what it computes besides is to guide a model."""
    return any(
        dotted_name(call.func) in ("torch.autograd.grad", "autograd.grad") for call in of_kind(function, ast.Call)
    )


def runs_to_train(cls: UnreadClass) -> set[str]:
    """The names of `forward` and the methods that it runs, where one of them goes back through a loss: it is the loop of a trainer."""
    functions: dict[str, _Function] = {}
    for method in cls.methods:
        functions.setdefault(method.node.name, method.node)
    run = methods_run_by("forward", functions)
    return run if any(trains(functions[name]) for name in run) else set()


def is_training_script(file: IndexedFile) -> bool:
    """Whether a file is a script that trains, by its name and by what it does: what it loads is gone on with."""
    return (
        _TRAINING_SCRIPT.search(file.path) is not None
        and re.search(r"\.(?:manual_)?backward\(|\boptim\.", file.source.text) is not None
    )


def _goes_back(function: _Function) -> bool:
    return any(map(_is_of_training, of_kind(function, ast.Call))) and not any(
        one.arg == "ctx" for one in function.args.args
    )


def _is_of_training(call: ast.Call) -> bool:
    """Whether a call goes back through a loss, or makes an optimizer."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "manual_backward"):
        return True
    return re.match(r"(?:torch\.)?optim\.[A-Z]", dotted_name(call.func) or "") is not None


def optimizes_by_hand(node: ast.ClassDef) -> bool:
    """Whether a class itself goes back through a loss and steps an optimizer that it gives tensors of its own, as a search does."""
    calls = of_kind(node, ast.Call)
    makers = [call for call in calls if re.match(r"(?:torch\.)?optim\.[A-Z]", dotted_name(call.func) or "")]
    return (
        bool(makers)
        and all("parameters()" not in ast.unparse(given) for call in makers for given in given_to(call))
        and any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for call in calls)
    )

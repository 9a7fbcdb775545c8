"""Roles of code: whether it is for inference, or for training, loss, evaluation and messages alone, which nobody exports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from modellint.results.diagnostic import Severity
from modellint.source.project.symbols import External, dotted_name
from modellint.source.roles.parent_modules import runs_in_evaluation
from modellint.source.syntax.ast_walk import called_name, functions_in, of_kind, once

if TYPE_CHECKING:
    from modellint.source.project.index import Project
    from modellint.source.project.symbols import ClassRef, IndexedFile


class _Method(Protocol):
    @property
    def node(self) -> ast.AST:
        """Its statement."""


class Code(Protocol):
    """What is asked of code to tell its role: where it stands, what it is called, and its conditions."""

    @property
    def project(self) -> Project:
        """The project that it stands in."""

    @property
    def file(self) -> IndexedFile:
        """The file that it stands in."""

    @property
    def ref(self) -> ClassRef | None:
        """Its class, if it is one."""

    @property
    def methods(self) -> Sequence[_Method]:
        """Its functions."""

    @property
    def lineage(self) -> list[ClassRef]:
        """The class and its bases in the project."""

    def conditions(self, node: ast.AST, function: ast.AST | None) -> Iterator[ast.expr]:
        """The conditions around a node in its function."""


_TRAINING = (
    r"Loss(?!y|less)|Criteri|HungarianMatcher|Assigner|Metric|Penalty|Regulari[sz]|Evaluator|Augment|Mix[uU]p|Cut[mM]ix|"
    r"Miner|BeamSearch|Searcher|SSIM|PSNR|LPIPS|(?:^|_)(?:loss|metric)"
)
"""Names of classes that compute what a model is trained or judged by, or that search with one that is exported."""
_CRITERION = re.compile(r"Loss(?!y|less)|Criteri(?:a|on)|Metric|(?:^|_)(?:loss|metric)")
"""Names of classes that compare what a model gives with what it should give."""
_TRAINERS = (
    r"Trainer|Pretrain(?!ed)|ForPreTraining|Target(?:Layer|Generator|Encoder$)|Discriminator|Critic|Dice|"
    r"Masker$|^Masking$|SpecAug|MaskAlong|TimeWarp"
)
"""Names of classes that, as a rule, only training runs."""
_BEHIND = r"^PostProcess"
"""Names of classes that, as a rule, come after the model."""
_TESTS = r"(?:^|/)(?:tests?|testing)/|(?:^|/)(?:test_\w+|\w+_test|tests?|conftest)\.py$"
_FOR_TRAINING = r"(?:^|/)(?:loss(?:es)?|criterions?|augment(?:ations?|er)?|metrics)(?:/|\.py$)"
_MEASURES = (
    r"(?:^|/)(?:(?:\w+_)?metrics|evaluators?|(?:\w+_)?(?:fid|lpips|niqe|psnr|iqa|inception_score|image_quality(?:_assessment)?))(?:_(?:scores?|utils?|calculator|computer))?"
    r"(?:/|\.py$)"
)
"""Files and folders of what measures the quality of what models give."""
_BESIDE = (
    r"(?:^|/)(?:\w+_)?(?:loss(?:es)?|criterions?|augment(?:ations?|er)?|metrics?|nms|post_?process(?:ing|ors?)?|eval(?:uation)?)"
    r"(?:_\w+)?(?:/|\.py$)"
)
"""Files and folders of functions that a model is trained or judged by, or that come after it."""
_LABELS = r"(?:\w+_)?labels?|gts?|gt_\w+|ground_truths?"
_ASIDE = (
    r"loss|(?:^|_)(?:nll|negatives?)(?:_|$)|metric|perplex|debug|visuali|"
    r"(?:^|_)(?:plot|log|beam|search|generate|init)(?:_|$)|initiali[sz]e"
)
"""Names of functions that `forward` runs for training, once, or to search with the model."""
_SEARCHING = re.compile(
    r"loss|metric|perplex|debug|visuali|(?:^|_)(?:nll|plot|log|beam|search|generate)(?:_|$)|init_(?:embed|codebook|weight|param)"
)
"""Names of functions that build no model: what they alone call is no part of one."""
_DEPLOYED = re.compile(r"self\.(?:\w+_)?(?:deploy|export|onnx)(?:_?mode|_?ing|ed)?")
"""Flags of a module that is made ready to be exported."""
_OF_TORCH = re.compile(r"torch\.nn\.(?:modules\.loss\.)?\w+Loss")
"""PyTorch's own losses."""
_LOSS_KEYS = re.compile(r"(?:^|_)loss(?:_|$)")
_SAYING = r"(?:\b|_)(?:debug|verbose|print)(?:_\w+|\b)|\b(?:do_|use_)?log(?:ging)?\b(?!\()|\bbeam_\w+|epoch"
"""What conditions ask that let a model say something, search, or go by the epoch."""


def is_never_exported(code: Code) -> bool:
    """Whether a class is no part of what is exported.

    It is a loss, a metric or a search by its name or those of its bases, stands in a test, or gives back images of PIL, which no trace
    and no export takes for outputs.
    """
    return (
        any(re.search(_TRAINING, ref.node.name) for ref in code.lineage)
        or re.search(_TESTS, _place(code)) is not None
        or _gives_images(code)
    )


def _gives_images(code: Code) -> bool:
    """Whether all that the class's own `forward` returns are images of PIL: ``image = Image.fromarray(rows); return image``."""
    if code.ref is None or not once(code.file.tree, "_imports_pil", _imports_pil):
        return False
    forward = next((part for part in functions_in([code.ref.node]) if part.name == "forward"), None)
    returned = [part.value for part in of_kind(forward, ast.Return)] if forward is not None else []
    return bool(returned) and all(_is_image(code, forward, value) for value in returned)


def _imports_pil(tree: ast.AST) -> bool:
    modules = [part.module or "" for part in of_kind(tree, ast.ImportFrom)]
    modules += [alias.name for part in of_kind(tree, ast.Import) for alias in part.names]
    return any(module.partition(".")[0] == "PIL" for module in modules)


def _is_image(code: Code, forward: ast.AST | None, value: ast.expr | None) -> bool:
    """Whether an expression is what a function of PIL gives, or a method of that, or a variable that the last statement binds to it."""
    if isinstance(value, ast.Name):
        bound = [
            part.value
            for part in getattr(forward, "body", ())
            if isinstance(part, ast.Assign) and any(getattr(each, "id", "") == value.id for each in part.targets)
        ]
        rows = (
            [part.lineno for part in of_kind(forward, ast.Name) if part.id == value.id and not _is_load(part)]
            if forward
            else []
        )
        value = bound[-1] if bound and bound[-1].lineno >= max(rows) else None
    while (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call)
    ):
        value = value.func.value
    dotted = dotted_name(value.func) if isinstance(value, ast.Call) else None
    symbol = code.project.resolve(code.file, dotted) if dotted is not None else None
    return isinstance(symbol, External) and symbol.name in _IMAGES


def _is_load(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


_IMAGES = frozenset(
    {f"PIL.Image.{name}" for name in ("fromarray", "open", "new", "blend", "merge", "composite", "frombytes")}
)
"""Functions that give an image."""


def is_criterion(project: Project, ref: ClassRef) -> bool:
    """Whether a class is a loss or a metric, by its name or those of its bases, the ones outside of the project among them."""
    lineage = project.lineage(ref)
    return any(_CRITERION.search(base.node.name) for base in lineage) or any(
        isinstance(base, External) and names_a_criterion(base.name) for part in lineage for base in project.bases(part)
    )


def names_a_criterion(name: str) -> bool:
    """Whether a class is a loss or a metric by its dotted name."""
    return _CRITERION.search(name.rpartition(".")[2]) is not None


def is_training_only(code: Code) -> bool:
    """Whether a class is one that only training runs: a loss, a metric, a discriminator, or what stands by losses or augmentation."""
    names = [ref.node.name for ref in code.lineage]
    near = "/".join(code.file.path.split("/")[-2:])
    return (
        is_never_exported(code)
        or "loss" in near
        or "augment" in near
        or any(re.search(_JUDGES, name) for name in names)
    )


_JUDGES = r"Discriminator|Critic"


def severity_in(code: Code, usual: Severity, node: ast.AST, function: ast.AST | None) -> Severity:
    """How much a finding weighs: what training, a test of a flag for messages, or a search probably runs alone is worth knowing only."""
    return Severity.INFO if is_trained(code) or _is_aside(code, node, function) else usual


def is_trained(code: Code) -> bool:
    """Whether a class is probably called to be trained: by its name or its file's, or as it asks for labels or gives a loss."""
    return once(
        code.ref.node if code.ref is not None else code.file.tree, "_trained", lambda _: _says_it_is_trained(code)
    )


def _says_it_is_trained(code: Code) -> bool:
    forward = _forward_of(code)
    return gives_a_loss(code) or (forward is not None and _asks_for_labels(forward))


def gives_a_loss(code: Code) -> bool:
    """Whether a class is for training by its name or its file's, or as it gives a loss, or takes one of the labels that it asks for."""
    if any(re.search(_TRAINERS, ref.node.name) for ref in code.lineage) or _comes_after_the_model(code):
        return True
    if re.search(_FOR_TRAINING, _place(code)) or re.search(_MEASURES, _place(code)):
        return True
    forward = _forward_of(code)
    return forward is not None and (
        _gives_loss(forward)
        or (_asks_for_labels(forward) and _takes_a_loss(forward))
        or _gives_what_a_criterion_gives(code, forward)
    )


def _comes_after_the_model(code: Code) -> bool:
    """Whether a class works on what a model gave, by its name, and no `forward` runs it as a part."""
    behind = [ref for ref in code.lineage if re.search(_BEHIND, ref.node.name)]
    return bool(behind) and (code.ref is None or not runs_in_evaluation(code.project, code.ref))


def gives_only_a_loss(code: Code) -> bool:
    """Whether all that `forward` gives back is one value, a loss: whatever its random numbers are, no answer depends on them."""
    forward = _forward_of(code)
    if forward is None or not _gives_loss(forward):
        return False
    returned = [part.value for part in of_kind(forward, ast.Return)]
    return bool(returned) and all(value is not None and _is_loss(value) for value in returned)


def measures(project: Project, file: IndexedFile) -> bool:
    """Whether a file computes a measure of quality of what models give, by its name or its folders'."""
    return is_path_of_measures(project, file.path)


def is_path_of_measures(project: Project, path: str) -> bool:
    """Whether a path leads to a file that computes a measure of quality."""
    return re.search(_MEASURES, _place_of_path(project, path)) is not None


def _forward_of(code: Code) -> ast.FunctionDef | None:
    nodes = (method.node for method in code.methods if getattr(method.node, "name", "") == "forward")
    forward = next(nodes, None)
    return forward if isinstance(forward, ast.FunctionDef) else None


def _takes_a_loss(forward: ast.FunctionDef) -> bool:
    return any(re.search(r"loss|criteri", called_name(call), re.IGNORECASE) for call in of_kind(forward, ast.Call))


def _asks_for_labels(forward: ast.FunctionDef) -> bool:
    given = [*forward.args.posonlyargs, *forward.args.args]
    count = len(given) - len(forward.args.defaults)
    labels = [one.arg for one in given[:count] if re.fullmatch(_LABELS, one.arg)]
    if labels:
        return count > 2
    return count > 1 and any(
        re.fullmatch(_LABELS, parameter.arg) and _is_read_always(forward, parameter.arg) for parameter in given[count:]
    )


def _is_read_always(forward: ast.FunctionDef, name: str) -> bool:
    """Whether a function fails without an argument: a statement of its body asks for a part of it, and nothing asks whether it is there."""
    simple = [part for part in forward.body if isinstance(part, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr))]
    owners = [part.value for statement in simple for part in of_kind(statement, ast.Subscript)]
    owners += [part.value for statement in simple for part in of_kind(statement, ast.Attribute)]
    if not any(isinstance(owner, ast.Name) and owner.id == name for owner in owners):
        return False
    bound = (part for part in of_kind(forward, ast.Name) if part.id == name and isinstance(part.ctx, ast.Store))
    return next(bound, None) is None and not any(_asks_whether(test, name) for test in _tests(forward))


def _tests(function: ast.FunctionDef) -> Iterator[ast.expr]:
    yield from (part.test for part in of_kind(function, ast.If))
    yield from (part.test for part in of_kind(function, ast.IfExp))
    yield from (part.test for part in of_kind(function, ast.While))
    yield from (part.test for part in of_kind(function, ast.Assert))
    for part in of_kind(function, ast.BoolOp):
        yield from part.values


def _asks_whether(test: ast.expr, name: str) -> bool:
    return any(part.id == name for part in of_kind(test, ast.Name))


def _gives_loss(forward: ast.FunctionDef) -> bool:
    """Whether a `forward` ends by giving back a loss, alone or in front; or its docstring begins by saying so."""
    if re.search(r"\bloss\b", (ast.get_docstring(forward) or "").partition("\n")[0], re.IGNORECASE):
        return True
    return _ends_in_loss(forward.body, forward)


def _ends_in_loss(body: list[ast.stmt], forward: ast.FunctionDef) -> bool:
    match body[-1] if body else None:
        case ast.Return(value=ast.expr() as value):
            if isinstance(value, ast.Name) and _holds_losses_only(value.id, forward):
                return True
            return any(_is_loss(part) and not _may_be_none(part, forward) for part in _first(value))
        case ast.If(body=inner, orelse=other):
            return _ends_in_loss(inner, forward) and _ends_in_loss(other, forward)
        case ast.With(body=inner):
            return _ends_in_loss(inner, forward)
    return False


def _holds_losses_only(name: str, forward: ast.FunctionDef) -> bool:
    """Whether a variable is an empty dict that gets losses and nothing else: `outputs = {}; outputs["cls_loss"] = loss`."""
    keys: list[object] = []
    for part in of_kind(forward, ast.Assign):
        for target in part.targets:
            match target:
                case ast.Subscript(value=ast.Name(id=other), slice=index) if other == name:
                    keys.append(index.value if isinstance(index, ast.Constant) else None)
                case ast.Name(id=other) if other == name and ast.unparse(part.value) not in ("{}", "dict()"):
                    return False
    reads = sum(part.id == name and isinstance(part.ctx, ast.Load) for part in of_kind(forward, ast.Name))
    # What a call is given may put something else in.
    return bool(keys) and reads == len(keys) + 1 and all(isinstance(key, str) and "loss" in key.lower() for key in keys)


def _gives_what_a_criterion_gives(code: Code, forward: ast.FunctionDef) -> bool:
    """Whether a `forward` gives back first, and always, what one of PyTorch's losses gives that the class holds: `x = self.fn(a, b)`."""
    returned = [part.value for part in of_kind(forward, ast.Return)]
    first = [next(_first(value), None) for value in returned if value is not None]
    names = {part.id for part in first if isinstance(part, ast.Name)}
    if len(names) != 1 or len(first) != len(returned) or not all(isinstance(part, ast.Name) for part in first):
        return False
    (name,) = names
    stores = sum(part.id == name and isinstance(part.ctx, ast.Store) for part in of_kind(forward, ast.Name))
    bound = [part for part in of_kind(forward, ast.Assign) if _names(part.targets, name)]
    return bool(bound) and len(bound) == stores and all(_is_a_criterions(code, part.value) for part in bound)


def _names(targets: list[ast.expr], name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _is_a_criterions(code: Code, value: ast.expr) -> bool:
    """Whether a value is what a call of a loss gives that the constructor makes and keeps: `self.fn = nn.L1Loss()`."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=attribute)):
            bound = [
                (ref, part.value)
                for ref in code.lineage
                for function in functions_in([ref.node])
                for part in of_kind(function, ast.Assign)
                for target in part.targets
                if isinstance(target, ast.Attribute) and target.attr == attribute
            ]
            return bool(bound) and all(_makes_a_criterion(code.project, ref, maker) for ref, maker in bound)
    return False


def _makes_a_criterion(project: Project, ref: ClassRef, value: ast.expr) -> bool:
    dotted = dotted_name(value.func) if isinstance(value, ast.Call) else None
    symbol = project.resolve(ref.file, dotted) if dotted is not None else None
    return isinstance(symbol, External) and _OF_TORCH.fullmatch(symbol.name) is not None


def _may_be_none(value: ast.expr, forward: ast.FunctionDef) -> bool:
    """Whether a variable is None where a model is not trained: `loss = None`."""
    return isinstance(value, ast.Name) and any(
        isinstance(part.value, ast.Constant) and part.value.value is None
        for part in of_kind(forward, ast.Assign)
        for target in part.targets
        if isinstance(target, ast.Name) and target.id == value.id
    )


def gives_losses(code: Code) -> bool:
    """Whether `forward` always ends with a dict of losses: `return {"loss": loss}`; other methods may be what is exported then."""
    forward = _forward_of(code)
    return forward is not None and _ends_in_losses(forward.body, forward)


def _ends_in_losses(body: list[ast.stmt], forward: ast.FunctionDef) -> bool:
    match body[-1] if body else None:
        case ast.Return(value=ast.Dict(keys=keys, values=values)):
            named = {
                key.value if isinstance(key, ast.Constant) else None: not _may_be_none(value, forward)
                for key, value in zip(keys, values, strict=True)
            }
            return named.get("loss", False) or (bool(named) and all(map(_is_of_loss, named)) and all(named.values()))
        case ast.If(body=inner, orelse=other):
            return _ends_in_losses(inner, forward) and _ends_in_losses(other, forward)
        case ast.With(body=inner):
            return _ends_in_losses(inner, forward)
    return False


def _is_of_loss(key: object) -> bool:
    return isinstance(key, str) and _LOSS_KEYS.search(key) is not None


def binds_a_loss(statement: ast.stmt) -> bool:
    """Whether a statement computes what it calls a loss: `kl_loss = …`."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
            return _LOSS_KEYS.search(name) is not None
    return False


def builds_no_model(function: ast.AST) -> bool:
    """Whether a function is one that searches with a model, judges it, or fills it, by its name."""
    return _SEARCHING.search(getattr(function, "name", "")) is not None


def _first(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.Tuple(elts=[first, *_]):
            yield from _first(first)
        case ast.Call(func=ast.Attribute(value=owner)):
            # `loss.mean()`, `F.mse_loss(x, y)`
            yield from (value.func, owner)
        case ast.Call(func=ast.Name() as called):
            # `Losses(total, parts)`, `compute_loss(x, y)`, `Output(total_loss, x)`
            yield called
            if called.id[:1].isupper() and value.args:
                yield value.args[0]
        case ast.BinOp(left=left):
            yield from _first(left)
        case _:
            yield value


def _is_loss(node: ast.expr) -> bool:
    return "loss" in getattr(node, "id", getattr(node, "attr", "")).lower()


def _is_aside(code: Code, node: ast.AST, function: ast.AST | None) -> bool:
    if function is None:
        return False
    if re.search(_ASIDE, getattr(function, "name", "")) or _searches(function):
        return True
    if any(once(test, "_says", _is_about_saying) for test in code.conditions(node, function)):
        return True
    return _is_behind_deployment(node, function)


def _is_behind_deployment(node: ast.AST, function: ast.AST) -> bool:
    """Whether a flag for deployment ends the function before a place: `if self.deploy: return x`."""
    last = once(function, "_deployed", _end_of_deployment)
    return last is not None and last < getattr(node, "lineno", 0)


def _end_of_deployment(function: ast.AST) -> int | None:
    """The row of the first end of a function that a flag for deployment asks for."""
    rows = [
        part.end_lineno or 0
        for part in getattr(function, "body", ())
        if isinstance(part, ast.If)
        and isinstance(part.body[-1], ast.Return)
        and _DEPLOYED.fullmatch(ast.unparse(part.test)) is not None
    ]
    return min(rows, default=None)


def _is_about_saying(test: ast.expr) -> bool:
    return re.search(_SAYING, ast.unparse(test)) is not None


def _searches(function: ast.AST) -> bool:
    """Whether a function has its module's own beam search work: `self.beam_search(x)`, `self.beam_search.run(x)`."""
    return once(function, "_searches", lambda function: any(map(_is_beam_search, of_kind(function, ast.Attribute))))


def _is_beam_search(attribute: ast.Attribute) -> bool:
    return re.search(r"beam_?search", attribute.attr) is not None


def _place(code: Code) -> str:
    return _place_of(code.project, code.file)


def _place_of(project: Project, file: IndexedFile) -> str:
    """Where a file stands in its project."""
    return _place_of_path(project, file.path)


def _place_of_path(project: Project, path: str) -> str:
    return "/".join(path.removeprefix(str(project.root)).split("/")[-4:])


def is_in_tests(project: Project, file: IndexedFile) -> bool:
    """Whether a file holds tests."""
    return is_path_of_tests(project, file.path)


def is_path_of_tests(project: Project, path: str) -> bool:
    """Whether a path leads to a file of tests."""
    return re.search(_TESTS, _place_of_path(project, path)) is not None


def stands_beside_models(project: Project, file: IndexedFile) -> bool:
    """Whether a file holds tests, losses, metrics, augmentation, or what comes after a model, by its name or its folders'."""
    return is_in_tests(project, file) or re.search(_BESIDE, _place_of(project, file)) is not None


def is_for_capture_only(code: Code, node: ast.AST, function: ast.AST | None) -> bool:
    """Whether only `torch.export` and its like run a place, which a trace does not reach."""
    return any(once(test, "_captures", _is_about_capture) for test in code.conditions(node, function))


def _is_about_capture(test: ast.expr) -> bool:
    return re.search(_EXPORTS, ast.unparse(test)) is not None


_EXPORTS = r"is_(?:torch)?dynamo_(?:exporting|compiling)|is_exporting|is_compiling|is_torchdynamo_\w+"

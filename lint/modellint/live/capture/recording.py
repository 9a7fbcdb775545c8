"""Recording of a run: modes that see every operator and function, and a hook on every call of a module."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from modellint.live.capture.attribute_assignments import Attributes
from modellint.live.capture.data_dependence import facts_in
from modellint.live.capture.exceptions import Raised, failure_of, is_refused_view
from modellint.live.capture.records import Call, ModuleCall, Operator, Run, TensorFact
from modellint.live.capture.tensor_facts import Facts, tensors_in
from modellint.live.unregistered_state import unregistered_state

if TYPE_CHECKING:
    from modellint.live.inputs.flexible_dimensions import Symbols
    from modellint.live.subject import Subject
    from modellint.results.diagnostic import Place

SMALL = 64
"""Elements up to which tensors of the model that are not touched by the inputs keep their values in a fake run."""
FALLBACK = 1 << 24
"""Elements up to which an operator without a fake kernel may run on zeros to see what it returns."""
_VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data", "grad"})


def weight_of(subject: Subject) -> int | None:
    """Bytes that a run on real tensors starts from; None where some have no values."""
    if not subject.has_values or subject.inputs is None:
        return None
    inputs = list(tensors_in((subject.inputs.args, dict(subject.inputs.kwargs))))
    tensors = [*inputs, *(state.tensor for state in subject.state)]
    try:
        if any(tensor.is_meta or isinstance(tensor, FakeTensor) for tensor in tensors):
            return None
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    except (RuntimeError, ValueError):
        # Lazy parameters have no size yet.
        return 0


def is_lazy(subject: Subject) -> bool:
    """Whether parameters are still to get their shapes."""
    return any(nn.parameter.is_lazy(state.tensor) for state in subject.state)


def recorded(subject: Subject, *, is_fake: bool, symbolic: bool = False) -> Run:
    """One run of the subject's model. The caller keeps the model from being changed."""
    session = _Session(subject, is_fake, symbolic)
    failure = None
    output = None
    try:
        with session.active():
            output = session.run()
    except (Exception, SystemExit) as error:
        failure = failure_of(error, session.raised, subject.project, session.run.__code__)
    return Run(
        tuple(session.operators),
        tuple(session.calls),
        tuple(session.modules),
        output,
        failure,
        is_fake,
        tuple(session.attributes.changed(session.facts.of)) if failure is None else (),
    )


class _Session:
    """Everything that one run writes down."""

    def __init__(self, subject: Subject, is_fake: bool, symbolic: bool) -> None:
        self.subject = subject
        self._symbols = _symbols() if symbolic else None
        self.operators: list[Operator] = []
        self.calls: list[Call] = []
        self.modules: list[ModuleCall] = []
        self.raised: list[Raised] = []
        environment = None if self._symbols is None else self._symbols.environment
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment) if is_fake else None
        self._stack: list[tuple[nn.Module | None, str]] = [(None, "")]
        self._stale: set[int] = set()
        self._refusal: str | None = None
        self._function: str | None = None
        self._base: FrameType | None = None
        self._is_meta = any(state.tensor.is_meta for state in subject.state)
        self._thread = threading.get_ident()
        names = {
            id(hidden.value): f"hidden:{hidden.places[0]}"
            for hidden in unregistered_state(subject)
            if hidden.kind != "module"
        }
        names.update({id(state.tensor): state.name for state in subject.state})
        self.facts = Facts(self.mode, self._symbols, names)
        self._built: dict[int, tuple[nn.Module, Place | None]] = {}
        # What bears a name must not be collected, or another tensor would take its id.
        self._inputs: list[Tensor] = []
        self.attributes = Attributes(subject.modules, self._place)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch all that runs, on this thread."""
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(eager())
            stack.enter_context(_quiet())
            if self.mode is not None:
                stack.enter_context(self.mode)
            stack.enter_context(_Operators(self))
            stack.enter_context(_Functions(self))
            stack.enter_context(self._watched_calls())
            stack.enter_context(self.attributes.watched())
            yield

    def run(self) -> Any:
        """Call the model."""
        self._base = sys._getframe()
        inputs = self.subject.inputs
        assert inputs is not None
        with _unwatched():
            args = tuple(self._given(f"input:{position}", value) for position, value in enumerate(inputs.args))
            kwargs = {name: self._given(f"input:{name}", value) for name, value in inputs.kwargs.items()}
            _evaluating(self.subject.model)
            self.attributes.remember()
        output = self.subject.model(*args, **kwargs)
        with _unwatched():
            self._mark_fresh()
            return self.facts.of(output)

    def _mark_fresh(self) -> None:
        """Mark the calls of modules that the run itself built and the model does not keep."""
        from modellint.live.subject import Subject

        called = {call.identity for call in self.modules}
        built = {key: place for key, (module, place) in self._built.items() if key in called and _has_own_state(module)}
        if not built:
            return
        now = Subject(self.subject.model, None, self.subject.project.root, self.subject.destination)
        kept = {
            id(part)
            for hidden in unregistered_state(now)
            if isinstance(hidden.value, nn.Module)
            for part in hidden.value.modules()
        }
        kept.update(id(entry.module) for entry in now.modules)
        fresh = built.keys() - kept
        self.modules = [
            call._replace(is_fresh=True, built_at=built[call.identity]) if call.identity in fresh else call
            for call in self.modules
        ]

    # Inputs and state.

    def _given(self, name: str, value: Any) -> Any:
        """An argument with tensors that the run can take, each known by the argument's name."""
        if isinstance(value, Tensor):
            tensor = self._flexible(name, value) if self._symbols is not None else self.facts.faked(value)
            self._inputs.append(tensor)
            self.facts.names.setdefault(id(tensor), name)
            return tensor
        if self.mode is None:
            for tensor in tensors_in(value):
                self._given(name, tensor)
            return value
        match value:
            case tuple() if hasattr(value, "_fields"):
                return type(value)(*(self._given(name, part) for part in value))
            case list() | tuple():
                return type(value)(self._given(name, part) for part in value)
            case dict() if type(value) is dict:
                return {key: self._given(name, part) for key, part in value.items()}
            case _:
                return value

    def _flexible(self, name: str, tensor: Tensor) -> Tensor:
        key = name.removeprefix("input:")
        inputs = self.subject.inputs
        assert inputs is not None and self._symbols is not None and self.mode is not None
        bounds = inputs.flexible.get(key) or (inputs.flexible.get(int(key)) if key.isdecimal() else None)
        if not bounds:
            return self.facts.faked(tensor)
        with _disable_current_modes():
            return self._symbols.tensor(self.mode, tensor, bounds)

    # Operators.

    def operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator and write it down."""
        schema = getattr(func, "_schema", None)
        name = schema.name if schema is not None else str(func)
        if name.startswith("prim::"):
            return func(*args, **kwargs)
        place = self._place(sys._getframe(2))
        values = self._with_values(func, args, kwargs)
        if self.mode is not None and not values:
            args = tuple(self._passed(value) for value in args)
            kwargs = {key: self._passed(value) for key, value in kwargs.items()}
        operands = self.facts.of(args), self.facts.of(kwargs)
        try:
            if values:
                with unset_fake_temporarily():
                    result = func(*args, **kwargs)
            else:
                result = self._ran(func, operands, args, kwargs)
        except Exception as error:
            self._note(error, place, operator=name, arguments=(*operands[0], *operands[1].values()))
            raise
        overload = getattr(func, "_overloadname", "default")
        outputs = tuple(facts_in(self.facts.of(result)))
        self.operators.append(Operator(name, overload, *operands, outputs, self._stack[-1][1], place))
        return result

    def _ran(self, func: Any, operands: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.mode is not None:
            elements = sum(_elements(fact) for fact in facts_in(operands))
            self.mode.allow_fallback_kernels = elements <= FALLBACK
        if func is not torch.ops.aten.view.default or not is_refused_view(operands[0][0], operands[0][1]):
            return func(*args, **kwargs)
        self._refusal = (
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
            "two contiguous subspaces). Use .reshape(...) instead."
        )
        return func(args[0].clone(memory_format=torch.contiguous_format), args[1])

    def _passed(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.facts.faked(value)
        if isinstance(value, (list, tuple)) and any(isinstance(part, Tensor) for part in value):
            return type(value)(self._passed(part) for part in value)
        return value

    def _with_values(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether an operator sees nothing but small tensors of the model itself, so that its result can be known."""
        if self.mode is None:
            return False
        tensors = list(tensors_in((args, kwargs)))
        schema = getattr(func, "_schema", None)
        if not tensors or schema is None or torch.Tag.nondeterministic_seeded in func.tags:
            return False
        for tensor in tensors:
            if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.numel() > SMALL:
                return False
        storages = [tensor.untyped_storage()._cdata for tensor in tensors]
        if schema.is_mutable:
            # From now on the values are not the run's any more.
            self._stale.update(storages)
            return False
        return not self._stale.intersection(storages)

    # Functions.

    def function(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of torch and write it down."""
        if threading.get_ident() != self._thread:
            return func(*args, **kwargs)
        if func.__name__ == "__get__":
            attribute = getattr(getattr(func, "__self__", None), "__name__", "")
            if attribute not in _VIEWS:
                return self._attribute(attribute, func, args)
        name = _name_of(func)
        place = self._place(sys._getframe(2))
        operands = self.facts.of(args), self.facts.of(kwargs)
        if self._is_meta:
            # Before C++ compares devices, as it does in recurrent layers and under autocast.
            args = tuple(self._passed(value) for value in args)
            kwargs = {key: self._passed(value) for key, value in kwargs.items()}
        self._refusal, self._function = None, name
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            self._note(error, place, function=name, arguments=(*operands[0], *operands[1].values()))
            raise
        finally:
            self._function = None
        outputs = tuple(facts_in(self.facts.of(result)))
        self.calls.append(Call(name, *operands, outputs, self._stack[-1][1], place, self._refusal))
        return result

    def _attribute(self, attribute: str, func: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        tensor = args[0]
        if self.mode is not None and attribute in ("device", "is_meta") and not isinstance(tensor, FakeTensor):
            return getattr(self.facts.faked(tensor), attribute)
        return func(*args)

    # Modules.

    @contextmanager
    def _watched_calls(self) -> Iterator[None]:
        """Replace ``nn.Module.__call__`` and ``__init__`` by ones that report to this session."""
        original = nn.Module.__call__

        def called(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return original(module, *args, **kwargs)
            return self._called(original, module, args, kwargs)

        initialise = nn.Module.__init__

        def built(module: nn.Module, *args: Any, **kwargs: Any) -> None:
            if threading.get_ident() == self._thread:
                frame: FrameType | None = sys._getframe(1)
                while frame is not None and _builds_module(frame):
                    frame = frame.f_back
                self._built[id(module)] = module, self._place(frame)
            initialise(module, *args, **kwargs)

        nn.Module.__call__ = called  # type: ignore[method-assign]
        nn.Module.__init__ = built  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            nn.Module.__call__ = original  # type: ignore[method-assign]
            nn.Module.__init__ = initialise  # type: ignore[method-assign]

    def _called(self, original: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        place = self._place(sys._getframe(2))
        with _unwatched():
            arguments = self.facts.of((args, kwargs) if kwargs else args)
        path = self._path(module)
        index = len(self.modules)
        depth = len(self._stack) - 1
        shown = path if path is not None else self._hidden_path(module)
        self.modules.append(
            ModuleCall(shown, id(module), arguments, None, depth, place, type(module).__name__, completed=False)
        )
        self._stack.append((module, self._stack[-1][1] if path is None else path))
        try:
            result = original(module, *args, **kwargs)
        except BaseException as error:
            self._note(error, None)
            raise
        finally:
            self._stack.pop()
        with _unwatched():
            outputs = self.facts.of(result)
        self.modules[index] = ModuleCall(shown, id(module), arguments, outputs, depth, place, type(module).__name__)
        return result

    def _path(self, module: nn.Module) -> str | None:
        """Where a module is registered: of several paths the one below the module that calls it."""
        paths = self.subject.paths_of(module)
        if len(paths) < 2:
            return paths[0] if paths else None
        caller = self._stack[-1][1]
        return next((path for path in paths if path.startswith(f"{caller}.")), paths[0])

    def _hidden_path(self, module: nn.Module) -> str:
        """How to get to a module that is registered nowhere."""
        for hidden in unregistered_state(self.subject):
            if isinstance(hidden.value, nn.Module):
                for name, part in hidden.value.named_modules():
                    if part is module:
                        return ".".join(
                            part for part in (hidden.paths[0] if hidden.paths else "", hidden.route, name) if part
                        )
        return ".".join(part for part in (self._stack[-1][1], f"<{type(module).__name__}>") if part)

    def _place(self, frame: FrameType | None) -> Place | None:
        return self.subject.project.place_of(frame, self._base)

    def _note(
        self,
        error: BaseException,
        place: Place | None,
        *,
        operator: str | None = None,
        function: str | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        """Remember where an exception was seen first: the innermost operator, function or module knows most."""
        known = next((raised for raised in self.raised if raised.error is error), None)
        if known is None:
            module, path = self._stack[-1]
            identity = None if module is None else id(module)
            self.raised.append(
                Raised(error, path, identity, operator, function or self._function, arguments, place),
            )


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator of the dispatcher."""

    supports_higher_order_operators = True

    def __init__(self, session: _Session) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._session = session

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with _unwatched():
            return self._session.operator(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Sees every call of torch's functions and methods that user code or a layer makes."""

    def __init__(self, session: _Session) -> None:
        super().__init__()
        self._session = session

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._session.function(func, args, kwargs or {})


@contextmanager
def _unwatched() -> Iterator[None]:
    """Look at tensors without being seen by our own modes."""
    with torch._C.DisableTorchFunction():
        yield


def _symbols() -> Symbols:
    # It brings sympy along, which most runs do without.
    from modellint.live.inputs.flexible_dimensions import Symbols

    return Symbols()


@contextmanager
def eager() -> Iterator[None]:
    """Let what `torch.compile` has wrapped run as it was written."""
    if "torch._dynamo" not in sys.modules or not hasattr(torch.compiler, "set_stance"):
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from logging a traceback for each fake kernel that raises; the run's failure tells it."""
    logger = logging.getLogger(FakeTensorMode.__module__)
    was = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was


def _builds_module(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name == "__init__" and isinstance(frame.f_locals.get(code.co_varnames[0]), nn.Module)


def _has_own_state(module: nn.Module) -> bool:
    return any(tensor is not None for kept in (module._parameters, module._buffers) for tensor in kept.values())


def _evaluating(model: nn.Module) -> None:
    try:
        model.eval()
    except Exception:
        # An overridden `train` may want arguments of its own.
        for module in model.modules():
            vars(module)["training"] = False


def _name_of(func: Callable[..., Any]) -> str:
    name = resolve_name(func)
    if name is not None:
        return str(name)
    return f"{getattr(func, '__module__', None) or 'torch'}.{getattr(func, '__qualname__', repr(func))}"


def _elements(fact: TensorFact) -> int:
    return math.prod(int(size) for size in fact.shape)

"""Mismatches of a checkpoint's keys with a model's, each with the attribute that causes it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from modellint.authoring import Severity

if TYPE_CHECKING:
    from torch import nn

    from modellint.authoring import Comparison, Held, LiveModel, Renaming, Shape

_MANY = 10
"""From so many places without a known cause on they are told together."""
_LONGEST = 4
"""How many sentences are said of one attribute."""


class Mismatch(NamedTuple):
    """One thing to say. ``attribute`` is None where it is about the model as a whole."""

    message: str
    module: nn.Module
    attribute: str | None
    paths: tuple[str, ...]
    severity: Severity = Severity.ERROR
    advice: str | None = None


class _Part(NamedTuple):
    """Some keys of one attribute of one module."""

    path: str
    attribute: str
    kind: str
    keys: tuple[str, ...]
    """In full."""
    cause: str = ""
    severity: Severity = Severity.ERROR


def mismatches(subject: LiveModel) -> Iterator[Mismatch]:
    """Everything that keeps the subject's checkpoint from being loaded, most of it by attribute."""
    comparison = subject.checkpoint_comparison
    if comparison is None:
        return
    for renaming in comparison.renamings:
        message, advice = _told(renaming, len(comparison.saved))
        yield Mismatch(message, subject.model, None, (), advice=advice)
    if not (comparison.missing or comparison.unexpected or comparison.misshapen):
        return
    keys = _Keys(subject, comparison)
    parts = list(keys.parts())
    unexplained = {(type(keys.modules[part.path]), part.attribute) for part in parts if not part.cause}
    fits = any(key in comparison.saved and key not in comparison.misshapen for key in comparison.wanted)
    is_strange = not fits and any(part.kind == "unexpected" and not part.cause for part in parts)
    if is_strange or len(unexplained) > _MANY:
        yield Mismatch(_of_another_model(comparison, fits), subject.model, None, ())
        parts = [part for part in parts if part.cause and not (is_strange and part.kind == "missing")]
    yield from keys.united(parts)


def _told(renaming: Renaming, saved: int) -> tuple[str, str | None]:
    part = f"`{renaming.part}`"
    verb = "hold" if renaming.part.startswith("_") else "begin with"
    count = "the keys" if renaming.keys == saved else f"{renaming.keys} keys"
    if renaming.in_model:
        message = f"{count} of the model {verb} {part}, those of the checkpoint do not"
    else:
        message = f"{count} of the checkpoint {verb} {part}, those of the model do not"
    owner = "the model is" if renaming.in_model else "it was saved from"
    match renaming.part:
        case "module.":
            message += f": {owner} a `DataParallel` (FLW006)"
            inner = "module"
        case "_orig_mod.":
            message += f": {owner} what `torch.compile` returned (FLW006)"
            inner = "_orig_mod"
        case "_fsdp_wrapped_module." | "_checkpoint_wrapped_module.":
            return f"{message}: {owner} a wrapped model (FLW006)", None
        case _:
            name = renaming.part.rstrip(".")
            if renaming.in_model:
                message += f": it is of what the model keeps as `{name}`"
            else:
                message += f": it is of a model that keeps this one as `{name}`"
            return message, None
    if renaming.in_model:
        return message, f"Load it into `model.{inner}`"
    return message, f"Save `model.{inner}.state_dict()`, or drop {part} from the keys before they are loaded"


def _of_another_model(comparison: Comparison, fits_somewhat: bool) -> str:
    counts = [
        f"{len(keys)} {words}"
        for keys, words in (
            (comparison.missing, "are missing"),
            (comparison.unexpected, "more are unexpected"),
            (comparison.misshapen, "have another shape"),
        )
        if keys
    ]
    examples = [f"`{keys[0]}`" for keys in (comparison.missing, comparison.unexpected) if keys]
    if comparison.misshapen:
        key = comparison.misshapen[0]
        examples.append(f"`{key}` ({_shape(comparison.saved[key])} for {_shape(comparison.wanted[key])})")
    verdict = "is of another configuration" if fits_somewhat else "is of another model"
    first = " and ".join(filter(None, [", ".join(examples[:-1]), examples[-1]]))
    return f"the checkpoint {verdict}: of the model's {len(comparison.wanted)} keys {', '.join(counts)}, as {first}"


def _shape(shape: Shape | None) -> str:
    return "no tensor" if shape is None else str(list(shape))


class _Keys:
    """The keys that differ, and the attributes that they come from."""

    def __init__(self, subject: LiveModel, comparison: Comparison) -> None:
        self.subject = subject
        self.comparison = comparison
        self.modules = dict(subject.model.named_modules(remove_duplicate=False))
        self.missing = dict.fromkeys(comparison.missing)
        self.unexpected = dict.fromkeys(comparison.unexpected)
        self._hidden = {
            _joined(path, value.attribute): value
            for hidden in subject.unregistered_state
            for value in (hidden, *hidden.others)
            for path in value.paths
        }
        self._tied = {name: state.names for state in subject.state for name in state.names if len(state.names) > 1}
        # What loads without being there (old checkpoints count no batches) is neither here nor there.
        counted = (key for key in comparison.wanted if key in self.missing or key in comparison.saved)
        self._own: dict[type[nn.Module], bool] = {}
        self._sizes = Counter(prefix for key in counted for prefix in _above(key))
        self._lost = Counter(prefix for key in comparison.missing for prefix in _above(key))

    def parts(self) -> Iterator[_Part]:
        """Every key that differs, in parts, each with its cause where that is known."""
        yield from self._other_forms()
        missing = self._grouped(self.missing, self._home_of_missing)
        unexpected = self._grouped(self.unexpected, self._home_of_unexpected)
        yield from self._renamed(missing, unexpected)
        for home, keys in missing.items():
            yield from self._lacking(home, keys)
        for home, keys in unexpected.items():
            yield self._part(home, "unexpected", keys, self._why_unexpected(home))
        for key in self.comparison.misshapen:
            yield self._part(self._leaf(key), "shape", [key])

    def united(self, parts: Iterable[_Part]) -> Iterator[Mismatch]:
        """One mismatch for each attribute of a class, with the paths of all its instances."""
        groups: dict[tuple[type, str], list[_Part]] = {}
        for part in parts:
            groups.setdefault((type(self.modules[part.path]), part.attribute), []).append(part)
        for (_, attribute), members in groups.items():
            sentences: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
            for part in members:
                for key in part.keys:
                    own = key.removeprefix(f"{part.path}.") if part.path else key
                    sentences[part.kind, part.cause].setdefault(own, key)
            said = [self._sentence(kind, cause, keys) for (kind, cause), keys in sentences.items()]
            message = "; ".join(
                said if len(said) <= _LONGEST else [*said[:_LONGEST], f"and {len(said) - _LONGEST} more"]
            )
            yield Mismatch(
                message,
                self.modules[members[0].path],
                attribute,
                tuple(dict.fromkeys(part.path for part in members)),
                max(part.severity for part in members),
            )

    def _sentence(self, kind: str, cause: str, keys: Mapping[str, str]) -> str:
        listed = _listed(list(keys))
        match kind:
            case "missing":
                text = f"the checkpoint lacks {listed}"
            case "unexpected":
                text = f"the checkpoint has {listed}, the model does not"
            case "shape":
                own, key = next(iter(keys.items()))
                saved, wanted = self.comparison.saved[key], self.comparison.wanted[key]
                text = f"`{own}` is {_shape(saved)} in the checkpoint and {_shape(wanted)} in the model"
                if len(keys) > 1:
                    text += f"; so with {len(keys) - 1} more"
                if saved is not None and wanted is not None and len(saved) > 1 and saved == wanted[::-1]:
                    text += ": it is transposed"
            case _:
                return cause
        return f"{text}: {cause}" if cause else text

    def _part(
        self,
        home: tuple[str, str],
        kind: str,
        keys: Iterable[str],
        cause: str = "",
        severity: Severity = Severity.ERROR,
    ) -> _Part:
        path, attribute = self._anchor(*home)
        return _Part(path, attribute, kind, tuple(keys), cause, severity)

    def _anchor(self, path: str, name: str) -> tuple[str, str]:
        """The nearest module around whose class is the project's, and its attribute; without one the nearest that is no layer."""
        parts = [*path.split("."), name] if path else [name]
        around = [(".".join(parts[:length]), parts[length]) for length in reversed(range(len(parts)))]
        for is_right in (self._is_own, self._is_assembly):
            for place in around:
                if is_right(type(self.modules[place[0]])):
                    return place
        return around[-1]

    def _is_own(self, cls: type[nn.Module]) -> bool:
        if cls not in self._own:
            place = self.subject.place_of(cls)
            self._own[cls] = place is not None and self.subject.owns(place)
        return self._own[cls]

    @staticmethod
    def _is_assembly(cls: type[nn.Module]) -> bool:
        return not any(
            base.__module__.startswith("torch.nn.modules.") for base in cls.__mro__ if base.__name__ != "Module"
        )

    def _owner(self, key: str) -> str:
        return next(prefix for prefix in (*reversed(_above(key)), "") if prefix in self.modules)

    def _leaf(self, key: str) -> tuple[str, str]:
        path = self._owner(key)
        return path, _below(key, path).partition(".")[0]

    def _home_of_missing(self, key: str) -> tuple[str, str]:
        """The topmost module of which everything is missing, or else the tensor."""
        for prefix in _above(key):
            if prefix in self.modules and self._lost[prefix] == self._sizes[prefix]:
                path, _, name = prefix.rpartition(".")
                return path, name
        return self._leaf(key)

    def _home_of_unexpected(self, key: str) -> tuple[str, str]:
        for prefix in (key, *reversed(_above(key))):
            if prefix in self._hidden:
                path, _, name = prefix.rpartition(".")
                if path in self.modules:
                    return path, name
        return self._leaf(key)

    @staticmethod
    def _grouped(keys: Iterable[str], home: Callable[[str], tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
        groups: dict[tuple[str, str], list[str]] = {}
        for key in keys:
            groups.setdefault(home(key), []).append(key)
        return groups

    def _renamed(
        self, missing: dict[tuple[str, str], list[str]], unexpected: dict[tuple[str, str], list[str]]
    ) -> Iterator[_Part]:
        """Renamed attributes: each the only one in its module with these keys and shapes, on either side."""
        ours = self._signatures(missing, self.comparison.wanted)
        theirs = self._signatures(unexpected, self.comparison.saved)
        for signature, homes in ours.items():
            others = theirs.get(signature, [])
            if len(homes) == len(others) == 1 and others[0] and self._why_unexpected(others[0]) == "":
                (home,), (saved_home,) = homes, others
                keys = [*missing.pop(home), *unexpected.pop(saved_home)]
                path = self._anchor(*home)[0]
                own, called = (_below(_joined(*side), path) for side in (home, saved_home))
                words = f"`{own}` is called `{called}` in the checkpoint, with the same keys and shapes"
                yield self._part(home, "renamed", keys, words)

    @staticmethod
    def _signatures(
        groups: Mapping[tuple[str, str], Sequence[str]], shapes: Mapping[str, Shape | None]
    ) -> dict[object, list[tuple[str, str]]]:
        signatures: dict[object, list[tuple[str, str]]] = {}
        for home, keys in groups.items():
            start = len(_joined(*home))
            signatures.setdefault((home[0], frozenset((key[start:], shapes[key]) for key in keys)), []).append(home)
        return signatures

    def _lacking(self, home: tuple[str, str], keys: Sequence[str]) -> Iterator[_Part]:
        tied = [key for key in keys if any(name in self.comparison.saved for name in self._tied.get(key, ()))]
        if tied:
            named = next(name for name in self._tied[tied[0]] if name in self.comparison.saved)
            cause = f"it is tied to `{named}`, which is there"
            yield self._part(home, "missing", tied, cause, Severity.WARNING)
        rest = [key for key in keys if key not in tied]
        if rest:
            yield self._part(home, "missing", rest, self._why_missing(home))

    def _why_missing(self, home: tuple[str, str]) -> str:
        path, name = home
        owner = self.modules[path]
        if name in owner._buffers and not _is_torch(owner):
            return f"`{name}` is a buffer; as a plain tensor (REG006) or with `persistent=False` it was not saved"
        if several := self._counted(path, name):
            return several
        container = _CONTAINERS.get(type(owner._modules.get(name)).__name__)
        if container is not None and _is_torch(owner._modules[name]):
            kind, code = container
            return f"so would a model have saved it whose `{name}` is a plain {kind} ({code})"
        return ""

    def _why_unexpected(self, home: tuple[str, str]) -> str:
        path, name = home
        hidden = self._hidden.get(_joined(path, name))
        if hidden is not None:
            return _hiding(hidden)
        owner = self.modules[path]
        if name in owner._non_persistent_buffers_set:
            return f"`{name}` is a buffer with `persistent=False`"
        if name in owner._parameters or name in owner._buffers:
            return f"`{name}` is None in the model"
        if type(owner).__name__ == "Identity" and _is_torch(owner) and path:
            return f"`{path.rpartition('.')[2]}` is an `Identity` in the model"
        return self._counted(path, name)

    def _counted(self, path: str, name: str) -> str:
        """Where a container of modules has more entries on one side than on the other: how many."""
        owner = self.modules[path]
        if not (path and name.isdigit() and _is_torch(owner) and type(owner).__name__ in ("ModuleList", "Sequential")):
            return ""
        entries = {_below(key, path).partition(".")[0] for key in self.comparison.saved if key.startswith(f"{path}.")}
        theirs = max((int(entry) + 1 for entry in entries if entry.isdigit()), default=0)
        ours = len(owner._modules)
        own = path.rpartition(".")[2]
        return f"`{own}` has {ours} entries in the model and {theirs} in the checkpoint" if theirs != ours else ""

    def _other_forms(self) -> Iterator[_Part]:
        """Weights that one side keeps in parts: weight and spectral norm, parametrizations."""
        ours, theirs = _forms(self.comparison.wanted), _forms(self.comparison.saved)
        for base in [base for base in ours if base in theirs]:
            (mine, keys), (saved_form, others) = ours[base], theirs[base]
            if mine == saved_form or not (
                any(key in self.missing for key in keys) and set(others) & set(self.unexpected)
            ):
                continue
            for key in keys:
                self.missing.pop(key, None)
            for key in others:
                self.unexpected.pop(key, None)
            home = self._leaf(base)
            own = _below(base, self._anchor(*home)[0])
            cause = (
                f"`{own}` is saved {_FORMS[saved_form]} in the checkpoint, and the model has it {_FORMS[mine]} (MOD004)"
            )
            yield self._part(home, "form", (*keys, *others), cause)


_FORMS = {
    "plain": "plain",
    "weight_norm": "with `weight_norm`",
    "spectral_norm": "with `spectral_norm`",
    "parametrized": "with a parametrization",
}
_CONTAINERS = {
    "ModuleList": ("list", "REG001"),
    "ModuleDict": ("dict", "REG002"),
    "ParameterList": ("list", "REG004"),
    "ParameterDict": ("dict", "REG005"),
}
_PARAMETRIZED = re.compile(r"(.*?)\bparametrizations\.(\w+)\.(?:original\d*|\d+\..*)\Z")


def _forms(keys: Iterable[str]) -> dict[str, tuple[str, list[str]]]:
    """Name of a weight to its form (plain, parametrized, weight or spectral norm), and its keys."""
    known = dict.fromkeys(keys)
    forms: dict[str, tuple[str, list[str]]] = {}
    for key in known:
        if match := _PARAMETRIZED.match(key):
            forms.setdefault(match[1] + match[2], ("parametrized", []))[1].append(key)
        elif key.endswith("_g") and f"{key[:-2]}_v" in known:
            forms[key[:-2]] = "weight_norm", [key, f"{key[:-2]}_v"]
        elif key.endswith("_orig") and f"{key[:-5]}_u" in known:
            base = key[:-5]
            forms[base] = "spectral_norm", [name for name in (key, f"{base}_u", f"{base}_v") if name in known]
        else:
            forms.setdefault(key, ("plain", [key]))
    return forms


def _hiding(hidden: Held) -> str:
    name = hidden.attribute
    if hidden.kind == "tensor" and not hidden.container:
        return f"`{name}` is a plain tensor ({'REG015' if hidden.value.requires_grad else 'REG006'})"
    codes = {
        "module": {"list": "REG001", "tuple": "REG001", "set": "REG001", "dict": "REG002"},
        "parameter": {"list": "REG004", "tuple": "REG004", "set": "REG004", "dict": "REG005"},
        "tensor": {"list": "REG006", "tuple": "REG006", "dict": "REG006"},
    }
    code = codes.get(hidden.kind, {}).get(hidden.container)
    if code is not None:
        return f"`{name}` is a plain {hidden.container} ({code})"
    return f"`{name}` holds it where PyTorch does not look"


def _is_torch(module: object) -> bool:
    return type(module).__module__.partition(".")[0] == "torch"


def _above(key: str) -> list[str]:
    """Every prefix of a key that could be a module, the shortest first."""
    parts = key.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _below(key: str, path: str) -> str:
    return key.removeprefix(f"{path}.") if path else key


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed(keys: Sequence[str]) -> str:
    shown = keys if len(keys) <= 4 else keys[:3]
    words = ", ".join(f"`{key}`" for key in shown)
    return words if len(shown) == len(keys) else f"{words} and {len(keys) - len(shown)} more"

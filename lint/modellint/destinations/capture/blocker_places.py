"""Places of blockers: the user's statement, or else the nearest class of his, that a node of a captured model stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn

from modellint.destinations.capture.torch_export import Origin, since_capture
from modellint.live.code.class_source import place_of_attribute, place_of_class
from modellint.live.code.places import Project
from modellint.results.conversion_verdict import Blocker
from modellint.results.diagnostic import Place


class BlockerPlaces:
    """Places and module paths within one model; made before it is captured, as that may change what modules there are."""

    def __init__(self, model: nn.Module, project: Project) -> None:
        self._model = model
        self._project = project
        self._paths: dict[int, list[str]] = {}
        self._modules: dict[str, nn.Module] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            self._paths.setdefault(id(module), []).append(path)
            self._modules[path] = module

    def of(self, origin: Origin) -> tuple[Place | None, tuple[str, ...]]:
        """Of a node."""
        place = self._project.place_of_rows(origin.frames)
        module = self._modules.get(origin.module)
        modules = (origin.module,) if module is None else tuple(self._paths[id(module)])
        return place or self._nearest_class(origin.module), modules

    def of_state(self, name: str | None) -> tuple[Place | None, tuple[str, ...]]:
        """Of a parameter or buffer: where it is bound."""
        for path, _ in (*self._model.named_parameters(), *self._model.named_buffers()) if name else ():
            if name in (path, f"p_{path.replace('.', '_')}", f"b_{path.replace('.', '_')}"):
                owner, _, attribute = path.rpartition(".")
                module = self._modules[owner]
                bound = place_of_attribute(type(module), attribute)
                return (self.of_model() if bound is None else bound[1] or self.of_model()), tuple(
                    self._paths[id(module)]
                )
        return self.of_model(), ()

    def raised(self, error: BaseException, *files: str) -> Place | None:
        """Of an exception out of a capture, which ``files`` ask for besides."""
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
            trace = trace.tb_next
        return self._project.place_of_rows(since_capture(frames, *files)) or self.of_model()

    def of_model(self) -> Place | None:
        """Of the model as a whole."""
        return self._nearest_class("")

    def _nearest_class(self, path: str) -> Place | None:
        """The class line of the innermost module around ``path`` that is not torch's own."""
        parts = path.split(".") if path else []
        for end in range(len(parts), -1, -1):
            module = self._modules.get(".".join(parts[:end]))
            if module is not None and type(module).__module__.partition(".")[0] != "torch":
                return place_of_class(type(module))
        return None


def first_line(message: str) -> str:
    """The first line of a message that holds anything."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    return " ".join(lines[0].split())[:300] if lines else ""


def grouped(blockers: Iterable[Blocker]) -> Iterator[Blocker]:
    """Blockers of one cause at one place as one."""
    groups: dict[tuple[object, ...], Blocker] = {}
    for blocker in blockers:
        key = (blocker.kind, blocker.operator, blocker.place, blocker.message if blocker.place is None else None)
        known = groups.get(key)
        groups[key] = (
            blocker
            if known is None
            else known._replace(modules=tuple(dict.fromkeys((*known.modules, *blocker.modules))), count=known.count + 1)
        )
    return iter(groups.values())

"""MOD001: a model, or a part of it, that is in training mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from torch import nn

    from modellint.authoring import Held, LiveModel

_SHOWN = 3


class TrainingMode(Rule):
    """A model that is in training mode when it is exported, or that holds modules which are.

    ## What it does
    Looks at the mode of every module that the model reaches: the registered ones, and those in plain lists, dicts and other
    attributes, which `eval()` does not reach. The registered ones are one finding; hidden ones are reported at the attribute
    that hides them.

    ## Why
    Dropout then draws random numbers and batch normalization uses the statistics of the batch: the exported program computes
    that too, without a word, and does not agree with the model in evaluation.

    ## Bad
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)
            self.dropout = nn.Dropout()

        def forward(self, x):
            return self.dropout(self.linear(x))


    model = Net()
    ```

    ## Good
    ```python
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 4)
            self.dropout = nn.Dropout()

        def forward(self, x):
            return self.dropout(self.linear(x))


    model = Net().eval()
    ```

    ## Fix safety
    There is no fix in source: call `eval()` on the model before it is exported.

    ## Known limits
    A module depends on its mode if it is one of PyTorch's that do, or if its `forward`, or a method that `forward` names, reads
    `training`. A model in training mode that holds no such module is a warning.

    ## References
    - <https://pytorch.org/docs/stable/generated/torch.nn.Module.html>
    - <https://pytorch.org/docs/stable/notes/autograd.html>
    """

    code = "MOD001"
    name = "training-mode"
    severity = Severity.ERROR
    advice = "Register it, or call its own `eval()` before the export"
    silent = ("trace", "export")

    def silent_by(self, finding: Diagnostic) -> tuple[str, ...]:
        """What `eval()` does not reach: the rest is captured in evaluation mode."""
        return () if finding.attribute is None else super().silent_by(finding)

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Ask every module for its mode, and those in training whether it matters."""
        whole = subject.model.training
        training = [
            entry for entry in subject.modules if entry.module.training and subject.depends_on_mode(entry.module)
        ]
        if training:
            kinds = _kinds(entry.module for entry in training)
            depend = "1 module depends" if len(training) == 1 else f"{len(training)} modules depend"
            yield subject.finding(
                self,
                f"{'the model' if whole else 'a part of the model'} is in training mode, on which {depend} ({kinds})",
                at=subject.class_place(subject.model),
                modules=[path for entry in training for path in entry.paths],
                advice="call `model.eval()` before the export",
            )
        elif whole:
            yield subject.finding(
                self,
                "the model is in training mode, though nothing in it is known to depend on that",
                at=subject.class_place(subject.model),
                severity=Severity.WARNING,
                advice="call `model.eval()` before the export",
            )
        yield from self._hidden(subject)

    def _hidden(self, subject: LiveModel) -> Iterator[Diagnostic]:
        from torch import nn

        seen = {id(entry.module) for entry in subject.modules}
        by_attribute: dict[tuple[int, str], list[tuple[Held, nn.Module]]] = {}
        for hidden in subject.unregistered_state:
            for module in hidden.value.modules() if isinstance(hidden.value, nn.Module) else ():
                if id(module) not in seen:
                    seen.add(id(module))
                    if module.training and subject.depends_on_mode(module):
                        by_attribute.setdefault((id(hidden.owner), hidden.attribute), []).append((hidden, module))
        for (_, attribute), pairs in by_attribute.items():
            class_name, at = subject.attribute_place(pairs[0][0].owner, attribute)
            yield subject.finding(
                self,
                f"`self.{attribute}` hides {_kinds(module for _, module in pairs)} from `eval()`, in training mode",
                at=at,
                modules=[place for hidden, _ in pairs for place in hidden.places],
                class_name=class_name,
                attribute=attribute,
            )


def _kinds(modules: Iterable[nn.Module]) -> str:
    """The types of modules and how many there are of each, the most frequent first."""
    counted = Counter(type(module).__name__ for module in modules).most_common()
    shown = [name if count == 1 else f"{count} {name}" for name, count in counted[:_SHOWN]]
    others = sum(count for _, count in counted[_SHOWN:])
    if others:
        shown.append(f"{others} others")
    return ", ".join(shown)

"""REG013: a checkpoint that does not fit the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.authoring import Diagnostic, Rule, Severity

if TYPE_CHECKING:
    from modellint.authoring import LiveModel


class CheckpointMismatch(Rule):
    """A checkpoint whose keys or shapes are not the model's.

    ## What it does
    Compares the checkpoint given with `--checkpoint` or `check_model(…, checkpoint=…)` with what the model would load:
    keys that are missing, keys that are unexpected, keys whose tensors have another shape. Keys are told together by the
    attribute they belong to, with the cause where it can be seen: a prefix that `DataParallel` or `torch.compile` put there,
    modules in a plain list, a buffer that was not saved, a weight norm that only one side has, tied weights, another
    number of layers, another name.

    ## Why
    `load_state_dict` raises, or, with `strict=False`, goes on in silence with the random weights that the model was built
    with. The exported model then runs and is wrong.

    ## Bad
    The checkpoint was saved from `nn.DataParallel(model)`.

    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x)


    checkpoint = {"module.fc.weight": torch.zeros(2, 4), "module.fc.bias": torch.zeros(2)}
    ```

    ## Good
    ```python
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x)


    checkpoint = {"fc.weight": torch.zeros(2, 4), "fc.bias": torch.zeros(2)}
    ```

    ## Fix safety
    There is no fix: whether the model or the checkpoint is at fault is for their author to say.

    ## Known limits
    Names, shapes and nothing else are compared. A dict in the file that holds tensors counts as the model's, whatever its
    name; of several the one that shares most keys with the model. Where modules load their state in a way of their own, a
    copy of the model on the meta device is loaded to see what they take; a model that cannot be copied is compared key by key.

    ## References
    - <https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict>
    - <https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html>
    """

    code = "REG013"
    name = "checkpoint-mismatch"
    severity = Severity.ERROR
    live_needs = "checkpoint"

    def live(self, subject: LiveModel) -> Iterator[Diagnostic]:
        """Compare the keys."""
        from modellint_rules.registration.checkpoint_key_mismatches import mismatches

        for mismatch in mismatches(subject):
            if mismatch.attribute is None:
                class_name, place = type(mismatch.module).__name__, subject.class_place(mismatch.module)
            else:
                class_name, place = subject.attribute_place(mismatch.module, mismatch.attribute)
            yield subject.finding(
                self,
                mismatch.message,
                at=place,
                modules=mismatch.paths,
                severity=mismatch.severity,
                class_name=class_name,
                attribute=mismatch.attribute,
                advice=mismatch.advice,
            )

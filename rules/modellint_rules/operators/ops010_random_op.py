"""OPS010: random numbers in `forward`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from modellint.diagnostic import Diagnostic, Severity
from modellint.rule import Rule

if TYPE_CHECKING:
    from modellint.live.capture import Operator, Run
    from modellint.live.subject import Subject


class RandomOp(Rule):
    """An output that hangs on random numbers which the model draws itself.

    ## What it does
    Finds operators in the run, in evaluation mode, that draw random numbers (`randn`, `rand_like`, `bernoulli`, `multinomial`,
    `normal_`, …) on which an output hangs. Dropout that is on in evaluation, and weights of
    modules that `forward` builds, are other rules' business.

    ## Why
    Where they convert at all, the program draws numbers of its own: they are not those of `torch.manual_seed`, and no comparison
    with PyTorch can succeed. Only few do: `rand`, `randn` and `randint` by a trace, `bernoulli` and `normal` by no route.

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
    There is no fix: the numbers have to become an input.

    ## Known limits
    Only what the run does is seen.

    ## References
    - <https://github.com/apple/coremltools/issues/788>
    - <https://github.com/apple/coremltools/issues/2443>
    """

    code = "OPS010"
    name = "random-op"
    severity = Severity.WARNING
    live_needs = "run"

    def live(self, subject: Subject) -> Iterator[Diagnostic]:
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


def _is_used(operator: Operator, run: Run) -> bool:
    from modellint.live.reach import Reach, facts_in

    tensors = {fact.tensor for fact in operator.outputs}
    storages = {fact.storage for fact in operator.outputs}
    reach = Reach(run, lambda fact: fact.tensor in tensors or fact.storage in storages)
    return any(fact in reach or fact.tensor in tensors or fact.storage in storages for fact in facts_in(run.output))

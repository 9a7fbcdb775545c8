"""Page of Core AI's known faults, of ``data/coreai_faults.json``.

``python docs/make.py faults`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modellint.data.coreai_faults import Fault, Faults, read

_RUN = """\
import asyncio
from pathlib import Path

import coreai_torch
from coreai.authoring.asset import AIModelAsset
from coreai.runtime import NDArray

model, inputs = make()
exported = torch.export.export(model.eval(), inputs).run_decompositions(coreai_torch.get_decomp_table())
converter = coreai_torch.TorchConverter()
converter.add_exported_program(exported)
converter.to_coreai().save_asset(Path("net.aimodel"))


async def main():
    async with AIModelAsset.load(Path("net.aimodel")).executable() as opened:
        main = opened.load_function("main")
        fed = {}
        for name, tensor in zip(main.desc.input_names, inputs):
            fed[name] = NDArray(tensor.numpy().astype(main.desc.input_descriptor(name).dtype))
        results = await main(fed)
        print(model(*inputs), [value.numpy() for value in results.values()])


asyncio.run(main())
"""


_ABOUT = """\
# Where coreai-torch differs from PyTorch

Programs that coreai-torch converts without a word, and that compute something else then. The rows are kept in
`lint/modellint/data/coreai_faults.json`, each with a minimal program; `python -m modellint.measure.coreai_faults` runs all beside the
coreai-torch that is installed, alone and as `modellint export` does it, and `python docs/make.py faults` writes this page. `modellint
verify` finds each on a model whose inputs show it, and names the operation that departs first; what an export cannot mend it refuses,
as it differs. What is infinite or NaN is judged only where your own inputs hold it.

"""


def page() -> str:
    """The whole page: the table, and a text for each fault that is there, to be posted as it stands."""
    return f"{_ABOUT}{table()}\n## Texts to be posted\n\n{reports()}"


def table() -> str:
    """The table of the page."""
    known = read()
    lines = [
        f"Run beside coreai-torch {known.version}, coreai-core {known.runtime} and PyTorch {known.torch}, by Apple's interpreter.",
        "",
        "| Fault | PyTorch | The converted program | coreai-torch alone | by `modellint export` |",
        "|---|---|---|---|---|",
        *(
            f"| [{fault.title}](#{fault.id}) | {fault.torch} | {fault.converted} | {fault.result} | {_by_export(fault)} |"
            for fault in known.faults
        ),
    ]
    return "\n".join(lines) + "\n"


def _by_export(fault: Fault) -> str:
    return {"right": "right", "wrong": "wrong: refused, as it differs"}.get(fault.exported, fault.exported)


def reports() -> str:
    """A text for each fault that is there, to be posted as it stands."""
    known = read()
    there: Sequence[Fault] = [fault for fault in known.faults if fault.result in ("wrong", "fails")]
    return "\n".join(line for fault in there for line in _report(fault, known))


def _report(fault: Fault, known: Faults) -> Iterator[str]:
    yield f'### {fault.title} <a id="{fault.id}"></a>\n'
    yield f"**Versions:** coreai-torch {known.version}, coreai-core {known.runtime}, PyTorch {known.torch}; Linux.\n"
    yield f"**Minimal program:**\n\n```python\n{fault.program}\n\n{_RUN}```\n"
    yield f"**Expected:** {fault.torch}. For the program above:\n\n```\n{fault.expected}\n```\n"
    yield f"**Obtained:** {fault.converted}. For the program above:\n\n```\n{fault.obtained}\n```\n"

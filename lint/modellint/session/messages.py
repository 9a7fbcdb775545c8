"""Messages of a session: the request, what the worker tells on its way, and the answer; each has one form in every process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from modellint.destinations.export_options import LanguageModel, Options
from modellint.plugins import Plugin
from modellint.results.codec import Codec
from modellint.results.conversion_verdict import Conversion
from modellint.results.diagnostic import Diagnostic
from modellint.results.exported import Exported
from modellint.results.exported_language_model import ExportedLanguageModel
from modellint.results.exported_pipeline import ExportedPipeline
from modellint.results.shape_table import Table
from modellint.results.swept_model_facts import TargetFacts
from modellint.results.verification import Verification
from modellint.session.target import Location, Target
from modellint.settings import Destination


class Check(NamedTuple):
    """Ask the rules about the target."""

    proves_fixes: bool = False
    """Whether fixes are wanted that a fixed copy of the model proves."""


class Shapes(NamedTuple):
    """Tell what every layer takes and gives."""


class Verify(NamedTuple):
    """Convert the target, execute the result, and compare it with PyTorch."""

    detail: Literal["outputs", "layers"] = "outputs"
    """How much of the comparison is wanted where the programs agree."""
    package: Path | None = None
    """The saved model that the target is to be compared with, instead of a conversion."""
    record: Path | None = None
    """Where a case for a device is written: the worker keeps all that it writes in the folder around it."""


class VerifyRecorded(NamedTuple):
    """Compare what a device predicted for a recorded case; the target is not built."""

    package: Path
    folder: Path
    """Of the case."""


class Export(NamedTuple):
    """Fix the target, convert it, and make a package of it."""

    options: Options
    package: Path
    """Where it is made: the worker keeps all that it writes in the folder around it."""


class ExportLanguageModel(NamedTuple):
    """Make a package of the target with prefill and decode."""

    wanted: LanguageModel
    package: Path
    """Where it is made: the worker keeps all that it writes in the folder around it."""


class StageTarget(NamedTuple):
    """A stage of a pipeline."""

    name: str
    target: Target
    location: Location


class ExportPipeline(NamedTuple):
    """Make a package of each stage; the target is the function that calls them, where there is one, else the first stage."""

    stages: tuple[StageTarget, ...]
    has_chain: bool
    options: Options
    folder: Path
    """Where they are made, each in a folder of its own: the worker keeps all that it writes in it."""


class Models(NamedTuple):
    """Tell which models a target stands for: those that a function yields, or itself."""


Action: TypeAlias = Check | Shapes | Verify | VerifyRecorded | Export | ExportLanguageModel | ExportPipeline | Models


class Request(NamedTuple):
    """Everything that is asked about one target."""

    target: Target
    location: Location
    root: Path
    folder: Path
    """Where the user is: paths are shown relative to it."""
    rules: Sequence[str]
    """Codes of the rules to ask."""
    action: Action = Check()
    destination: Destination = Destination()
    inputs: tuple[str, ...] = ()
    """As written behind ``--input``; empty for what the target itself returns."""
    input_folder: Path | None = None
    """What files in ``inputs`` are relative to, if not to ``folder``."""
    constants: tuple[str, ...] = ()
    """The inputs, by their names, that are always what they are in the example."""
    random_inputs: bool = False
    """Whether random numbers that the model draws are inputs."""
    checkpoint: Path | None = None
    plugins: tuple[Plugin, ...] = ()
    """Those that may run; nobody decides it anew."""
    seed: int = 0
    texts: Mapping[str, str] = {}
    """Source that is to be run in the place of what files hold, by their paths."""
    with_facts: bool = False
    """Whether the answer is to tell what the target is made from, and what it cost."""


class Limits(NamedTuple):
    """What a worker may use."""

    timeout: float = 120.0
    """Seconds, from its start to its end."""
    memory: int | None = None
    """Bytes, of all its processes; None for nearly all that is available."""


class Answer(NamedTuple):
    """The answer to a request about one target; files are named by absolute paths."""

    diagnostics: tuple[Diagnostic, ...]
    executed: Mapping[str, frozenset[int]] = {}
    """For each file the rows that ran for every instance in the target."""
    asked: frozenset[str] = frozenset()
    """Codes of the rules whose silence means something."""
    failed: bool = False
    """Whether the target was not built, so that it was not checked."""
    notes: tuple[str, ...] = ()
    output: str = ""
    """What the target's code printed, the end of it if it was much."""
    table: Table | None = None
    """The table of shapes, where that was asked for and the target was built."""
    conversion: Conversion | None = None
    """What is said of the conversion; None where nobody asked."""
    verification: Verification | None = None
    """Where that was asked for, and the target was built."""
    exported: Exported | None = None
    """Where that was asked for, and the target runs."""
    language_model: ExportedLanguageModel | None = None
    """Where that was asked for."""
    pipeline: ExportedPipeline | None = None
    """Where that was asked for, and its stages were built."""
    undecided: Mapping[str, frozenset[str]] = {}
    """For each class that has an instance the attributes of which no instance shows whether a guess about them is right."""
    models: tuple[str, ...] = ()
    """The names of a collection's models, where these were asked for; empty for a target that is no collection."""
    facts: TargetFacts | None = None
    """Where they were asked for, and the worker came to its end."""
    unfinished: str = ""
    """How what may have added to an export came to no end; empty where it did."""


class Start(NamedTuple):
    """What a worker reads first: the request, and what it needs of its parent."""

    request: Request
    timeout: float
    memory: int
    """Bytes that the process itself may map."""
    on_meta: bool
    """Whether building may be tried on the meta device; an earlier worker asked not to."""
    results: int
    """The descriptor that messages are written to."""
    trace: int
    """The descriptor that the stack is written to when the worker is told to, or crashes."""
    parent: int
    """The parent's process."""


class Stage(NamedTuple):
    """What the worker begins with now."""

    name: str


class Partial(NamedTuple):
    """What a verification knows so far, in case that it comes no further."""

    verification: Verification


class Provisional(NamedTuple):
    """The answer that holds if the worker comes no further with what may add to it."""

    answer: Answer


class Refusal(NamedTuple):
    """The target, its inputs or options are wrong; the text says how."""

    reason: str


class InternalError(NamedTuple):
    """The worker itself failed."""

    reason: str


class Restart(NamedTuple):
    """Building on the CPU failed after an attempt on the meta device: a fresh worker is to do without that."""


Message: TypeAlias = Stage | Partial | Provisional | Answer | Refusal | InternalError | Restart

START: Codec[Start] = Codec(Start)
MESSAGE: Codec[Message] = Codec(Message)

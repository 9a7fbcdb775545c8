"""What is said of a checkpoint and a model that do not fit, and of a file that is no checkpoint."""

from __future__ import annotations

import json
import pickle
import struct
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, weight_norm

from modellint.live.check import check_subject
from modellint.live.checkpoint_file import CheckpointError, load
from modellint.live.subject import Subject
from modellint.results.diagnostic import Diagnostic, Severity
from modellint.run import all_rules
from modellint.settings import Destination

RULES = {"REG013": all_rules()["REG013"]}


def findings(model: nn.Module, checkpoint: Mapping[str, Any]) -> list[Diagnostic]:
    subject = Subject(model, None, Path(__file__).parent, Destination(), checkpoint=checkpoint)
    return check_subject(subject, RULES)


def only(model: nn.Module, checkpoint: Mapping[str, Any]) -> Diagnostic:
    (found,) = findings(model, checkpoint)
    return found


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.fc = nn.Linear(width, width)


class Net(nn.Module):
    def __init__(self, depth: int = 12, width: int = 4, classes: int = 10) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.layers = [nn.Linear(4, 4) for _ in range(100)]
        self.scales = {"a": nn.Parameter(torch.ones(1))}
        self.mean = torch.zeros(3)


class Registered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(100))
        self.scales = nn.ParameterDict({"a": nn.Parameter(torch.ones(1))})
        self.register_buffer("mean", torch.zeros(3))


class Stem(nn.Module):
    def __init__(self, normed: bool = False, bias: bool = True) -> None:
        super().__init__()
        conv = nn.Conv1d(3, 3, 1, bias=bias)
        self.conv = parametrizations.weight_norm(conv) if normed else conv
        self.fc = nn.Linear(3, 2)


class Normed(Stem):
    def __init__(self) -> None:
        super().__init__(normed=True)


class Old(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = weight_norm(nn.Conv1d(3, 3, 1))
        self.fc = nn.Linear(3, 2)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight


class Unsaved(nn.Module):
    def __init__(self, persistent: bool = False) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.register_buffer("table", torch.zeros(2), persistent=persistent)


class Own(nn.Module):
    """Loads what older versions of it saved under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.log = nn.Linear(2, 2)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        if f"{prefix}gamma" in state_dict:
            state_dict[f"{prefix}weight"] = state_dict.pop(f"{prefix}gamma")
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[no-untyped-call]


def without(state: Mapping[str, Any], *endings: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if not key.endswith(endings)}


@pytest.mark.parametrize("wrap", [lambda state: state, lambda state: {"epoch": 3, "model": {"state_dict": state}}])
def test_checkpoint_that_fits(wrap: Any) -> None:
    model = Net()
    assert findings(model, wrap(model.state_dict())) == []
    assert findings(model, wrap({key: value.half() for key, value in model.state_dict().items()})) == []


def test_meta_model() -> None:
    with torch.device("meta"):
        model = Net()
    assert findings(model, Net().state_dict()) == []
    assert "lacks `head.bias`" in only(model, without(Net().state_dict(), "head.bias")).message


def test_the_weights_are_told_from_what_else_is_saved() -> None:
    state = Net().state_dict()
    saved = {
        "optimizer": {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 1}]},
        "loss": {"weight": torch.zeros(10)},
        "model": state,
        "ema": OrderedDict((f"ema.{key}", value) for key, value in state.items()),
    }
    assert findings(Net(), saved) == []


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("module.", "the keys of the checkpoint begin with `module.`, those of the model do not: it was saved from a "
         "`DataParallel` (FLW006)"),
        ("_orig_mod.", "the keys of the checkpoint hold `_orig_mod.`, those of the model do not: it was saved from what "
         "`torch.compile` returned (FLW006)"),
        ("backbone.", "the keys of the checkpoint begin with `backbone.`, those of the model do not: it is of a model that "
         "keeps this one as `backbone`"),
        ("student.encoder.", "it is of a model that keeps this one as `student.encoder`"),
    ],
)  # fmt: skip
def test_prefix_of_the_checkpoint(prefix: str, words: str) -> None:
    model = Net()
    found = only(model, {prefix + key: value for key, value in model.state_dict().items()})
    assert words in found.message
    assert (found.severity, found.path, found.class_name) == (Severity.ERROR, str(Path(__file__)), "Net")


def test_prefixes_stand_for_all_they_explain() -> None:
    model = Net()
    state = {f"module._orig_mod.{key}": value for key, value in model.state_dict().items()}
    del state["module._orig_mod.head.bias"]
    messages = [found.message for found in findings(model, state)]
    assert len(messages) == 3
    assert sum("`head.bias`" in message for message in messages) == 1


def test_prefix_of_the_model() -> None:
    model = nn.Sequential(OrderedDict(net=Net()))
    assert "model begin with `net.`" in only(model, Net().state_dict()).message
    wrapped = nn.DataParallel(Net())
    assert "the model is a `DataParallel` (FLW006)" in only(wrapped, Net().state_dict()).message


def test_keys_of_hidden_state_name_the_rule() -> None:
    found = {one.attribute: one for one in findings(Listed(), Registered().state_dict())}
    assert set(found) == {"layers", "scales", "mean"}
    assert found["layers"].message == (
        "the checkpoint has `layers.0.weight`, `layers.0.bias`, `layers.1.weight` and 197 more, the model does not: "
        "`layers` is a plain list (REG001)"
    )
    assert found["scales"].message.endswith("`scales` is a plain dict (REG005)")
    assert found["mean"].message.endswith("`mean` is a plain tensor (REG006)")
    line = next(
        row for row, text in enumerate(Path(__file__).read_text("utf-8").splitlines(), 1) if "self.layers = [" in text
    )
    assert found["layers"].span is not None
    assert found["layers"].span.row == line


def test_checkpoint_of_a_model_with_hidden_state() -> None:
    found = {one.attribute: one.message for one in findings(Registered(), Listed().state_dict())}
    assert set(found) == {"layers", "scales", "mean"}
    assert "plain list (REG001)" in found["layers"]
    assert "197 more" in found["layers"]
    assert "plain dict (REG005)" in found["scales"]
    assert "REG006" in found["mean"]


def test_same_key_in_twelve_blocks_is_one_finding() -> None:
    found = only(Net(), without(Net().state_dict(), "norm.running_var"))
    assert found.message == "the checkpoint lacks `norm.running_var`"
    assert found.modules == tuple(f"blocks.{index}" for index in range(12))
    assert (found.class_name, found.attribute) == ("Block", "norm")


def test_whole_submodule_is_one_finding() -> None:
    state = {key: value for key, value in Net().state_dict().items() if not key.startswith("blocks")}
    assert only(Net(), state).attribute == "blocks"


def test_number_of_layers() -> None:
    more = only(Net(depth=6), Net(depth=12).state_dict())
    assert more.message.endswith("`blocks` has 6 entries in the model and 12 in the checkpoint")
    assert "39 more" in more.message
    fewer = only(Net(depth=12), Net(depth=6).state_dict())
    assert fewer.message.endswith("`blocks` has 12 entries in the model and 6 in the checkpoint")


def test_shapes() -> None:
    found = only(Net(classes=10), Net(classes=1000).state_dict())
    assert found.message == ("`head.weight` is [1000, 4] in the checkpoint and [10, 4] in the model; so with 1 more")
    assert found.attribute == "head"


def test_transposed() -> None:
    state = dict(nn.Sequential(nn.Linear(3, 5)).state_dict())
    state["0.weight"] = state["0.weight"].t()
    assert only(nn.Sequential(nn.Linear(3, 5)), state).message.endswith("it is transposed")


def test_scalars_of_one_element_fit() -> None:
    state = {key: value.reshape(1) if not value.shape else value for key, value in Net().state_dict().items()}
    assert findings(Net(), state) == []


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    ("model", "saved", "words"),
    [
        (Stem, Old, "`conv.weight` is saved with `weight_norm` in the checkpoint, and the model has it plain (MOD004)"),
        (Old, Stem, "saved plain in the checkpoint, and the model has it with `weight_norm` (MOD004)"),
        (Stem, Normed, "saved with a parametrization in the checkpoint, and the model has it plain (MOD004)"),
    ],
)
def test_weight_norm(model: type[nn.Module], saved: type[nn.Module], words: str) -> None:
    found = only(model(), saved().state_dict())
    assert words in found.message
    assert found.attribute == "conv"


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_new_weight_norm_reads_what_the_old_one_saved() -> None:
    assert findings(Stem(normed=True), Old().state_dict()) == []


def test_tied_weights_are_a_warning() -> None:
    found = only(Tied(), without(Tied().state_dict(), "head.weight"))
    assert found.severity is Severity.WARNING
    assert found.message == "the checkpoint lacks `head.weight`: it is tied to `embed.weight`, which is there"


def test_buffers_that_are_not_saved() -> None:
    unexpected = only(Unsaved(), Unsaved(persistent=True).state_dict())
    assert unexpected.message.endswith("`table` is a buffer with `persistent=False`")
    missing = only(Unsaved(persistent=True), Unsaved().state_dict())
    assert "`table` is a buffer; as a plain tensor (REG006)" in missing.message


def test_parameter_that_is_none() -> None:
    assert only(Stem(bias=False), Stem().state_dict()).message.endswith("`bias` is None in the model")


def test_renamed_attribute() -> None:
    state = {key.replace("head.", "classifier."): value for key, value in Net().state_dict().items()}
    found = only(Net(), state)
    assert found.message == "`head` is called `classifier` in the checkpoint, with the same keys and shapes"
    assert found.attribute == "head"


def test_checkpoint_of_another_model() -> None:
    found = only(Net(), {f"layer{index}.weight": torch.zeros(index + 1) for index in range(40)})
    assert "is of another model: of the model's 86 keys 74 are missing, 40 more are unexpected" in found.message


def test_many_differences_without_a_cause_are_one_finding() -> None:
    class Wide(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            for index in range(30):
                setattr(self, f"fc{index}", nn.Linear(3, width, bias=False))
            self.last = nn.Linear(3, 3)

    found = only(Wide(4), Wide(5).state_dict())
    assert "of another configuration: of the model's 32 keys 30 have another shape, as `fc0.weight`" in found.message


def test_empty_checkpoint() -> None:
    assert "`head.weight`" in only(nn.Sequential(OrderedDict(head=nn.Linear(2, 2))), {}).message


def test_module_that_loads_its_own_way() -> None:
    model = nn.Sequential(OrderedDict(own=Own()))
    state = {key.replace("own.weight", "own.gamma"): value for key, value in model.state_dict().items()}
    assert findings(model, state) == []
    assert only(model, without(state, "log.bias")).message == "the checkpoint lacks `log.bias`"
    assert torch.equal(model.own.weight, torch.zeros(2))


def test_old_checkpoints_without_num_batches_tracked_fit() -> None:
    state = without(Net().state_dict(), "num_batches_tracked")
    assert findings(Net(), state) == []


def test_the_model_stays_as_it_was() -> None:
    model = Net()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    findings(model, {key: torch.full_like(value, 3) for key, value in without(before, "head.bias").items()})
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_malicious_pickle_is_refused_and_nothing_runs(tmp_path: Path, zipped: bool) -> None:
    file, trace = tmp_path / "net.pt", tmp_path / "ran"
    torch.save({"w": torch.zeros(2), "x": Malicious(trace)}, file, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match=r"net\.pt is refused, and nothing in it was run"):
        load(file)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no checkpoint"),
        (b"hello", "no checkpoint"),
        (pickle.dumps(Malicious(Path("ran"))), "is refused, and nothing in it was run"),
    ],
)
def test_file_that_is_no_checkpoint(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "net.pth"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=words):
        load(file)


def test_what_else_torch_saves_is_named(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
    with pytest.raises(
        CheckpointError, match=r"it holds `torch\.nn\.modules\.linear\.Linear`; save `model\.state_dict"
    ):
        load(tmp_path / "model.pt")
    torch.save([1], tmp_path / "list.pt")
    with pytest.raises(CheckpointError, match="holds a list, not a dict of tensors"):
        load(tmp_path / "list.pt")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.pt")


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_both_formats_are_read(tmp_path: Path, zipped: bool) -> None:
    torch.save(Net().state_dict(), tmp_path / "net.pt", _use_new_zipfile_serialization=zipped)
    assert findings(Net(), load(tmp_path / "net.pt")) == []


def safetensors(path: Path, table: object) -> Path:
    header = json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    return path


def test_safetensors(tmp_path: Path) -> None:
    table = {
        key: {"dtype": "F32", "shape": list(value.shape), "data_offsets": [0, 0]} for key, value in Net().state_dict().items()
    }  # fmt: skip
    file = safetensors(tmp_path / "net.safetensors", {"__metadata__": {"format": "pt"}, **table})
    assert findings(Net(), load(file)) == []
    assert "`head.weight` is [10, 4]" in only(Net(classes=3), load(file)).message


@pytest.mark.parametrize(
    "table", [[], {"w": {}}, {"w": {"dtype": "F32", "shape": ["a"]}}, {"w": {"dtype": "F32", "shape": [-1]}}, 3]
)
def test_malformed_safetensors(tmp_path: Path, table: object) -> None:
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load(safetensors(tmp_path / "net.safetensors", table))


class Scaled(nn.Linear):
    """A layer of a library's own."""


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = Scaled(4, 2)


@pytest.mark.parametrize(("root", "attribute"), [(Path(__file__).parent, "bias"), (Path("/elsewhere"), "out")])
def test_the_projects_own_class_is_told_or_else_what_holds_the_layer(root: Path, attribute: str) -> None:
    state = without(Head().state_dict(), "bias")
    (found,) = check_subject(Subject(Head(), None, root, Destination(), checkpoint=state), RULES)
    assert found.attribute == attribute

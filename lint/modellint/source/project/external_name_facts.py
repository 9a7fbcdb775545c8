"""What is known, without looking, of names outside the project: which are modules, which change nothing."""

from __future__ import annotations

from modellint.data.torch_names import MODULES, STATELESS

NEVER_IN_PROJECT = frozenset(
    {"torch", "typing", "collections", "functools", "itertools", "abc", "copy", "math", "numpy"}
)
"""Top-level names that are never looked for in the project, even when it has a file called so."""

OF_LIBRARIES = NEVER_IN_PROJECT | {
    *("cv2", "jax", "librosa", "matplotlib", "pandas", "PIL", "scipy", "skimage", "sklearn", "tensorflow"),
    *("torchaudio", "torchvision"),
}
"""Top-level names of libraries, so that what is imported by them and not found in the project is not the project's own."""

_OTHER_TORCH_MODULES = frozenset(
    {
        "torch.jit.ScriptModule",
        "torch.fx.GraphModule",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.pipelining.PipelineStage",
        "torch.optim.swa_utils.AveragedModel",
    }
)

_LIBRARY_BASES = {
    "pytorch_lightning": ("LightningModule",),
    "lightning": ("LightningModule",),
    "lightning_fabric": ("_FabricModule",),
    "transformers": ("PreTrainedModel", "GenerationMixin"),
    "diffusers": ("ModelMixin",),
    "mmcv": ("BaseModule",),
    "mmengine": ("BaseModule", "BaseModel"),
    "fairseq": (
        "BaseFairseqModel",
        "FairseqModel",
        "FairseqEncoder",
        "FairseqDecoder",
        "FairseqIncrementalDecoder",
        "FairseqEncoderDecoderModel",
        "FairseqEncoderModel",
        "FairseqLanguageModel",
        "FairseqCriterion",
        "LegacyFairseqCriterion",
        "BaseLayer",
    ),
    "torchmetrics": ("Metric",),
    "torch_geometric": ("MessagePassing",),
    "torchvision": (
        *(
            "VGG",
            "Bottleneck",
            "GoogLeNet",
            "Inception3",
            "ASPP",
            "FCN",
            "FCNHead",
            "DeepLabV3",
            "DeepLabHead",
            "LRASPP",
        ),
        *("FCOS", "SSD", "FasterRCNN", "MaskRCNN", "KeypointRCNN", "GeneralizedRCNN", "RPNHead", "FastRCNNPredictor"),
    ),
    "gpytorch": ("Module", "GP", "ExactGP", "Kernel", "Mean", "Likelihood"),
    "botorch": ("Model",),
    "pyro": ("PyroModule",),
    "fastai": ("Module",),
    "allennlp": ("Model",),
}
"""Classes of other libraries that derive from ``nn.Module``, by the library's name."""

_LIBRARY_LAYERS = (
    "torch_geometric.nn.",
    "dgl.nn.pytorch.",
    "timm.layers.",
    "timm.models.",
    "torchvision.models.",
    "torchvision.ops.",
    "torchaudio.models.",
    "torchaudio.transforms.",
    "transformers.",
    "einops.layers.torch.",
    "segmentation_models_pytorch.",
    "mamba_ssm.",
    "monai.networks.",
    "kornia.",
    "speechbrain.nnet.",
    "torchmetrics.",
)
"""Where every capitalised name that ends in a layer's or model's word is a module."""

_LAYER_WORDS = (
    "Conv",
    "Linear",
    "Norm",
    "Layer",
    "Block",
    "Attention",
    "Embedding",
    "Encoder",
    "Decoder",
    "Model",
    "Net",
    "MLP",
    "Mlp",
    "Pool",
    "Dropout",
    "Rearrange",
    "Mamba",
    "LSTM",
    "GRU",
    "Transformer",
    "ResNet",
    "Unet",
    "DropPath",
    "RoI",
)

_NO_MODULE_ENDINGS = (
    *("Error", "Exception", "Warning", "Config", "Cache", "Generator", "Tensor", "Parameter"),
    *("Output", "OutputWithPast"),
)
"""How the names of classes end that are no modules."""


def may_build(name: str) -> bool:
    """Whether a name may be that of a module class with state."""
    return (
        name[:1].isupper()
        and name not in STATELESS
        and not name.endswith(_NO_MODULE_ENDINGS)
        and "ModelOutput" not in name
    )


def is_module(name: str) -> bool | None:
    """Whether the class of this dotted name derives from ``nn.Module``; None when that is not known."""
    root, _, _ = name.partition(".")
    last = name.rpartition(".")[2]
    if root == "torch":
        return is_torch_module(name)
    if last in _LIBRARY_BASES.get(root, ()):
        return True
    if name.startswith(_LIBRARY_LAYERS) and last[:1].isupper() and any(word in last for word in _LAYER_WORDS):
        return not last.endswith(("Config", "Output", "Mixin", "Tokenizer", "Processor", "Args"))
    if root in _PLAIN_ROOTS or name in ("object", "abc.ABC"):
        return False
    return None


_PLAIN_ROOTS = frozenset(
    {
        "abc",
        "typing",
        "typing_extensions",
        "collections",
        "enum",
        "dataclasses",
        "numpy",
        "mxnet",
        "paddle",
        "tensorflow",
    }
    | {"keras", "jax", "flax", "builtins", "threading", "unittest", "argparse", "logging", "sklearn", "pandas", "json"}
)
"""Libraries none of whose classes is a torch module."""


def is_torch_module(name: str) -> bool:
    """Whether ``torch.….Name`` is a module class."""
    if name in _OTHER_TORCH_MODULES:
        return True
    path, _, last = name.rpartition(".")
    if path == "torch.nn" or path.startswith(
        ("torch.nn.modules", "torch.nn.quant", "torch.nn.intrinsic", "torch.nn.qat")
    ):
        return last in MODULES
    return path.startswith(("torch.ao.nn", "torch.nn.parallel")) and last[:1].isupper()


def is_torch_layer(name: str) -> bool:
    """Whether the name is one of ``torch.nn``'s own modules, whose constructors are known."""
    return name.startswith("torch.nn.") and name.rpartition(".")[2] in MODULES


def is_stateless(name: str) -> bool:
    """Whether a module class of torch holds nothing that hiding it would lose."""
    if name.startswith("torch.nn."):
        return name.rpartition(".")[2] in STATELESS
    return name.startswith("einops.layers.torch.Rearrange")


def exports(module: str, name: str) -> bool:
    """Whether ``from module import *`` brings ``name``, as far as that is known for torch."""
    if module in ("torch.nn", "torch.nn.modules"):
        return name in MODULES or name in ("Parameter", "functional", "init", "utils", "Module")
    if module == "torch":
        return name in ("nn", "Tensor", "tensor", "zeros", "ones", "cat", "stack", "arange")
    return False


PARAMETER_CLASSES = frozenset(
    {
        "torch.nn.Parameter",
        "torch.nn.parameter.Parameter",
        "torch.nn.UninitializedParameter",
        "torch.nn.parameter.UninitializedParameter",
    }
)
BUFFER_CLASSES = frozenset({"torch.nn.Buffer", "torch.nn.parameter.Buffer"})

RETURNS_FIRST = ("torch.nn.init.", "torch.nn.utils.", "torch.jit.script", "torch.compile", "torch.jit.export")
"""Functions that give back their first argument, or a module that stands for it."""

COMPILERS = frozenset(
    {"torch.jit.script", "torch.jit.script_if_tracing", "torch.jit._script_if_tracing", "torch.jit.script_method"}
)
"""Functions that give back what TorchScript compiles of a function, which a trace keeps as it is."""

SAME_MODULE_METHODS = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "type", "requires_grad_", "apply"}
    | {"share_memory", "to_empty", "xpu", "ipu", "compile"}
)
"""Methods of ``nn.Module`` that return the module itself."""

MODULE_READERS = frozenset(
    {"parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children"}
    | {"named_children", "state_dict", "load_state_dict", "zero_grad", "forward", "extra_repr", "get_parameter"}
    | {"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "get_submodule"}
)
"""Methods of ``nn.Module`` that keep nothing of what they are given."""

MODULE_ONLY = frozenset(
    {"parameters", "named_parameters", "state_dict", "load_state_dict", "named_modules", "zero_grad", "requires_grad_"}
    | {"register_forward_hook", "named_children", "named_buffers", "register_buffer", "eval"}
)
"""Attributes by which an object shows that it is a module."""

MODULE_CLASSES = frozenset({"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"})
"""The names of ``nn.Module`` itself."""

MODULE_ATTRIBUTES = frozenset(
    SAME_MODULE_METHODS
    | MODULE_READERS
    | MODULE_ONLY
    | {"T_destination", "call_super_init", "dump_patches", "get_buffer", "get_extra_state", "mtia", "training"}
    | {"add_module", "register_backward_hook", "register_buffer", "register_full_backward_pre_hook", "register_module"}
    | {"register_load_state_dict_post_hook", "register_load_state_dict_pre_hook", "register_parameter"}
    | {"register_state_dict_post_hook", "register_state_dict_pre_hook", "set_extra_state", "set_submodule"}
)
"""The attributes that every ``nn.Module`` has, but for those with an underscore before them."""

MODULE_FACTORIES = ("torchvision.models.", "timm.create_model", "torch.hub.load")
"""Functions of other libraries that return a module."""

CHANGERS = frozenset(
    {"append", "extend", "insert", "add", "update", "setdefault", "add_module", "register_module", "register_parameter"}
    | {"register_buffer", "__setattr__", "appendleft", "setattr"}
)
"""Methods and functions by which something is put into a container or a module."""

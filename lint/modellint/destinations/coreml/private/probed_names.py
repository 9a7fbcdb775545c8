"""Probe of coremltools' private names: which of those that are used here an installed version has, with the arguments they are given.

One that is missing takes away what uses it, and nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

_TORCH = "coremltools.converters.mil.frontend.torch"
_MIL = "coremltools.converters.mil.mil"

TRACE, EXPORT, SUPPLIED, PACKAGES = "trace", "export", "supplied", "packages"
WALK = f"{TRACE} {EXPORT}"
"""The dry run by both routes."""
ALL = f"{WALK} {SUPPLIED}"
TABLE = (
    # module, name, the arguments that it is given (or, where it is replaced, takes), what uses it
    ("coremltools.converters.mil.converter", "_reset_conversion_state", "", WALK),
    ("coremltools.converters._converters_entry", "_validate_conversion_arguments", "9", "types"),
    (f"{_TORCH}.converter", "TorchConverter", "7", WALK),
    (f"{_TORCH}.converter", "TorchConverter.convert", "1", WALK),
    (f"{_TORCH}.converter", "TorchConverter._create_placeholder", "2", WALK),
    (f"{_TORCH}.converter", "TorchConverter._add_const", "3", WALK),
    (f"{_TORCH}.converter", "convert_nodes", "2 early_exit", WALK),
    (f"{_TORCH}.converter", "is_current_opset_version_compatible_with", "1", EXPORT),
    (f"{_TORCH}.converter", "generate_tensor_assignment_ops", "1", TRACE),
    (f"{_TORCH}.converter", "remove_getattr_nodes", "1", TRACE),
    (f"{_TORCH}.converter", "TranscriptionContext.add", "2 torch_name override", ALL),
    (f"{_TORCH}.converter", "TranscriptionContext.push", "2", SUPPLIED),
    (f"{_TORCH}.converter", "TranscriptionContext.pop", "1", SUPPLIED),
    (f"{_MIL}.passes.defs.cleanup.fuse_reduce_mean", "_check_var_scalar_value", "3", SUPPLIED),
    (f"{_TORCH}.ops", "convert_nodes", "2 early_exit", WALK),
    (f"{_TORCH}.ops", "convert_single_node", "2", WALK),
    (f"{_TORCH}.internal_graph", "_expand_and_optimize_ir", "1", TRACE),
    (f"{_TORCH}.torchscript_utils", "_expand_and_optimize_ir", "1", f"{TRACE} lines"),
    (
        f"{_TORCH}.internal_graph",
        "InternalTorchIRGraph",
        "0 nodes params inputs outputs buffers input_name_to_source_buffer_name output_name_to_target_buffer_name",
        EXPORT,
    ),
    (f"{_TORCH}.internal_graph", "InternalTorchIRGraph.from_exir", "1", EXPORT),
    (
        f"{_TORCH}.internal_graph",
        "InternalTorchIRNode",
        "0 kind inputs outputs kwinputs name meta",
        f"{EXPORT} {SUPPLIED}",
    ),
    (f"{_TORCH}.internal_graph", "InternalTorchIRNode.from_exir_node", "0 node", f"{EXPORT} {SUPPLIED}"),
    (f"{_TORCH}.exir_utils", "extract_io_from_exir_program", "1", EXPORT),
    (f"{_TORCH}.exir_utils", "WRAPPED_SCALAR_INPUT_SUFFIX", "", EXPORT),
    (f"{_TORCH}.exir_utils", "_construct_symbol_name_to_ct_range_dim_dict", "1", EXPORT),
    (f"{_TORCH}.exir_utils", "_construct_ct_tensor_type_from_torch", "3", EXPORT),
    (f"{_TORCH}.torch_op_registry", "TorchOpsRegistry.__contains__", "2", WALK),
    (f"{_TORCH}.torch_op_registry", "TorchOpsRegistry.get_func", "2", ALL),
    (f"{_TORCH}.torch_op_registry", "TorchOpsRegistry.set_func_by_name", "3", SUPPLIED),
    (f"{_TORCH}.torch_op_registry", "_TORCH_OPS_REGISTRY.name_to_func_mapping", "", ALL),
    (f"{_TORCH}.utils", "sanitize_op_kind", "1", f"{EXPORT} {SUPPLIED}"),
    (f"{_TORCH}.utils", "NUM_TO_TORCH_DTYPE", "", SUPPLIED),
    (f"{_TORCH}.utils", "TORCH_DTYPE_TO_NUM", "", SUPPLIED),
    (f"{_TORCH}.utils", "MIL_DTYPE_TO_TORCH_DTYPE", "", SUPPLIED),
    (f"{_TORCH}.utils", "TORCH_EXPORT_BASED_FRONTENDS", "", SUPPLIED),
    (f"{_TORCH}.utils", "TorchFrontend.TORCHEXPORT", "", SUPPLIED),
    (f"{_MIL}", "Operation", "", WALK),
    (f"{_MIL}", "get_new_symbol", "", WALK),
    (f"{_MIL}", "Builder._add_op", "1", ALL),
    (f"{_MIL}", "Builder.placeholder", "1 dtype allow_rank0_input", WALK),
    (f"{_MIL}", "Builder.scope", "2", WALK),
    (f"{_MIL}", "Block", "", "speed"),
    (f"{_MIL}", "Program.validate", "1 check_essential_scope", "speed"),
    (f"{_MIL}", "Program.__str__", "1", "speed"),
    (f"{_MIL}.passes.pass_pipeline", "PassPipelineManager.apply_pipeline", "2", "speed"),
    (f"{_MIL}.types.type_mapping", "get_type_info", "1", "speed"),
    (f"{_MIL}.block", "BLOCK_STACK", "", WALK),
    (f"{_MIL}.block", "curr_block", "", ALL),
    (f"{_MIL}.block", "Block._internal_vars", "", ALL),
    (f"{_MIL}.input_type", "InputSpec", "0 uses", WALK),
    (f"{_MIL}.input_type", "TupleInputType", "0 optional", WALK),
    (f"{_MIL}.scope", "ScopeInfo", "0 source data", WALK),
    (f"{_MIL}.scope", "ScopeSource.TORCHSCRIPT_MODULE_NAME", "", f"{TRACE} lines"),
    (f"{_MIL}.scope", "ScopeSource.TORCHSCRIPT_MODULE_TYPE", "", TRACE),
    (f"{_MIL}.scope", "ScopeSource.EXIR_STACK_TRACE", "", EXPORT),
    (f"{_MIL}.scope", "ScopeSource.EXIR_DEBUG_HANDLE", "", f"{EXPORT} lines"),
    (f"{_MIL}.var", "Var", "", ALL),
    (f"{_MIL}.var", "ListVar", "", WALK),
    (f"{_MIL}.passes.defs.lower_complex_dialect_ops", "LowerComplex.has_lower_func", "1", "complex"),
    (f"{_MIL}.passes.defs.lower_complex_dialect_ops", "_match_and_replace_dialect_op", "2", "complex"),
    (f"{_MIL}.passes.graph_pass", "AbstractGraphPass", "", SUPPLIED),
    (f"{_MIL}.passes.helper", "block_context_manager", "1", SUPPLIED),
    (f"{_MIL}.passes.pass_pipeline", "PassPipeline.insert_pass", "3", SUPPLIED),
    (f"{_MIL}.passes.pass_registry", "PASS_REGISTRY.passes", "", SUPPLIED),
    (f"{_MIL}.passes.pass_registry", "register_pass", "1", SUPPLIED),
    (f"{_MIL}.types.symbolic", "is_symbolic", "1", SUPPLIED),
    ("coremltools.converters.mil", "register_torch_op", "1 override", SUPPLIED),
    ("coremltools.models.utils", "_try_get_weights_dir_path", "1", PACKAGES),
    ("coremltools.converters.mil.frontend.milproto.load", "load", "3", PACKAGES),
)


class Lacking(NamedTuple):
    """A private name that is not there, or is not as it is used."""

    name: str
    """Without the path of its module."""
    what: str
    """``is not there``, or ``takes other arguments``."""
    uses: tuple[str, ...]
    """What cannot be done without it."""


def lacking() -> Iterator[Lacking]:
    """The names that the installed coremltools does not have as they are used here."""
    for module, name, arguments, uses in TABLE:
        try:
            value: Any = import_module(module)
            for part in name.split("."):
                value = getattr(value, part)
        except (ImportError, AttributeError):
            yield Lacking(name, "is not there", tuple(uses.split()))
            continue
        if arguments and not _takes(value, arguments):
            yield Lacking(name, "takes other arguments", tuple(uses.split()))


def _takes(function: Any, arguments: str) -> bool:
    """Whether a function can be called with so many arguments, and some by name."""
    count, *names = arguments.split()
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return callable(function)
    try:
        signature.bind(*range(int(count)), **dict.fromkeys(names))
    except TypeError:
        return False
    return True

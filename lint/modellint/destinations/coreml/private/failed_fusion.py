"""Failed fusion: the optimization pass of coremltools that an exception comes out of, which a conversion does without."""

from __future__ import annotations


def failed_fusion(error: BaseException | None) -> str | None:
    """The name of the pass, as in ``common::fuse_stack_split``; None where the exception comes out of nothing that fuses operations.

    What fuses makes a program faster, and not another one (coremltools 8.3 and 9.0: `fuse_stack_split` falls over a `split` of
    which one part is not used).
    """
    trace = None if error is None else error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_locals.get("pass_name") if trace.tb_frame.f_code.co_name == "apply_pipeline" else None
        if isinstance(name, str):
            return name if name.startswith("common::fuse_") else None
        trace = trace.tb_next
    return None

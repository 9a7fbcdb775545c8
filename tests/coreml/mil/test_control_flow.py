"""Choice, branches, loops and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from programs import agree, executed, mb, program, types

from modellint.destinations.coreml.mil.executor import ExecutionError, Executor
from modellint.destinations.coreml.private.entry_points import ct

X = np.array([1.0, 2.0], dtype=np.float32)


def test_select() -> None:
    cond = np.array([[True], [False]])
    agree(lambda cond, a, b: mb.select(cond=cond, a=a, b=b), cond=cond, a=np.tile(X, (2, 1)), b=-np.tile(X, (2, 1)))
    agree(lambda cond: mb.select(cond=cond, a=np.array([[1], [2]]), b=np.array([[3], [4]])), cond=cond)


@pytest.mark.parametrize("flag", [True, False])
def test_cond(flag: bool) -> None:
    def build(flag: Any, x: Any) -> Any:
        return mb.cond(pred=flag, _true_fn=lambda: mb.add(x=x, y=1.0), _false_fn=lambda: mb.mul(x=x, y=10.0))

    assert executed(build, flag=np.bool_(flag), x=X).tolist() == ([2, 3] if flag else [10, 20])


def test_cond_with_two_results_one_of_them_from_outside() -> None:
    def build(flag: Any, x: Any) -> Any:
        doubled = mb.add(x=x, y=x)
        return mb.cond(
            pred=flag, _true_fn=lambda: (doubled, mb.identity(x=x)), _false_fn=lambda: (x, mb.sub(x=doubled, y=1.0))
        )

    assert [one.tolist() for one in executed(build, flag=np.bool_(True), x=X)] == [[2, 4], [1, 2]]
    assert [one.tolist() for one in executed(build, flag=np.bool_(False), x=X)] == [[1, 2], [1, 3]]


def test_while_loop() -> None:
    def build(count: Any, x: Any) -> Any:
        return mb.while_loop(
            _cond=lambda count, x: mb.greater(x=count, y=0),
            _body=lambda count, x: (mb.sub(x=count, y=1), mb.mul(x=x, y=2.0)),
            loop_vars=(count, x),
        )

    made = Executor(program(build, 15, count=np.int32(0), x=X))
    for count in (3, 0, 1):
        _, result = made({"count": torch.tensor(count, dtype=torch.int32), "x": torch.from_numpy(X)}).values()
        assert result.tolist() == (X * 2**count).tolist()


def test_a_loop_in_a_loop_reads_what_is_outside() -> None:
    def build(rows: Any, columns: Any, step: Any) -> Any:
        def inner(total: Any) -> Any:
            _, sums = mb.while_loop(
                _cond=lambda j, sums: mb.less(x=j, y=columns),
                _body=lambda j, sums: (mb.add(x=j, y=1), mb.add(x=sums, y=step)),
                loop_vars=(0, total),
            )
            return sums

        return mb.while_loop(
            _cond=lambda i, total: mb.less(x=i, y=rows),
            _body=lambda i, total: (mb.add(x=i, y=1), inner(total)),
            loop_vars=(0, 0),
        )

    assert executed(build, rows=np.int32(3), columns=np.int32(4), step=np.int32(5))[1] == 60


def test_loop_variables_that_change_places() -> None:
    def build(count: Any, x: Any, y: Any) -> Any:
        return mb.while_loop(
            _cond=lambda count, x, y: mb.greater(x=count, y=0),
            _body=lambda count, x, y: (mb.sub(x=count, y=1), y, x),
            loop_vars=(count, x, y),
        )

    _, first, second = executed(build, count=np.int32(3), x=X, y=-X)
    assert first.tolist() == [-1, -2]
    assert second.tolist() == [1, 2]


def test_every_operation_in_a_branch_is_observed() -> None:
    def build(flag: Any, x: Any) -> Any:
        return mb.cond(pred=flag, _true_fn=lambda: mb.exp(x=x), _false_fn=lambda: mb.tanh(x=x))

    seen = []
    made = Executor(program(build, 15, flag=np.bool_(True), x=X))
    made(
        {"flag": torch.tensor(True), "x": torch.from_numpy(X)},
        observe=lambda operation, variable, value: seen.append(operation.op_type),
    )
    assert seen == ["exp", "cond"]


def test_lists() -> None:
    def build(a: Any, b: Any) -> Any:
        ls = mb.make_list(init_length=2, elem_shape=(2,))
        first = mb.list_read(ls=ls, index=0)
        ls = mb.list_write(ls=ls, index=0, value=a)
        ls = mb.list_write(ls=ls, index=4, value=b)
        ls = mb.list_scatter(ls=ls, indices=[2, 1], value=np.array([[-1, -2], [-4, -5]], dtype=np.float32))
        return first, mb.list_read(ls=ls, index=0), mb.list_gather(ls=ls, indices=[4, 2, 3]), mb.list_length(ls=ls)

    first, read, gathered, length = executed(build, a=X, b=-X)
    assert first.tolist() == [0, 0]
    assert read.tolist() == [1, 2]
    assert gathered.tolist() == [[-1, -2], [-1, -2], [0, 0]]
    assert length == 5


def test_a_list_is_not_changed_by_writing_to_it() -> None:
    def build(a: Any) -> Any:
        ls = mb.make_list(init_length=1, elem_shape=(2,))
        written = mb.list_write(ls=ls, index=0, value=a)
        return mb.list_read(ls=ls, index=0), mb.list_read(ls=written, index=0)

    assert [one.tolist() for one in executed(build, a=X)] == [[0, 0], [1, 2]]


def test_a_list_that_grows_in_a_loop() -> None:
    def build(count: Any, x: Any) -> Any:
        _, ls = mb.while_loop(
            _cond=lambda i, ls: mb.less(x=i, y=count),
            _body=lambda i, ls: (
                mb.add(x=i, y=1),
                mb.list_write(ls=ls, index=i, value=mb.mul(x=x, y=mb.cast(x=i, dtype="fp32"))),
            ),
            loop_vars=(0, mb.make_list(init_length=1, elem_shape=(2,))),
        )
        return mb.list_gather(ls=ls, indices=mb.range_1d(start=0, end=mb.list_length(ls=ls), step=1))

    assert executed(build, count=np.int32(3), x=X).tolist() == [[0, 0], [1, 2], [2, 4]]


def test_reading_beyond_a_list_is_refused() -> None:
    with pytest.raises(ExecutionError, match="element 3 of a list of 2"):
        executed(lambda i: mb.list_read(ls=mb.make_list(init_length=2, elem_shape=(2,)), index=i), i=np.int32(3))


def test_a_state_written_in_a_branch_keeps_its_value() -> None:
    specs = [mb.TensorSpec((1,), dtype=types.int32), mb.StateTensorSpec((2,), dtype=types.fp16)]

    @mb.program(input_specs=specs, opset_version=ct.target.iOS18)
    def made(step: Any, total: Any) -> Any:
        written = mb.greater(x=mb.squeeze(x=step), y=0)
        held = mb.read_state(input=total)
        return mb.cond(
            pred=written,
            _true_fn=lambda: mb.coreml_update_state(state=total, value=mb.add(x=held, y=np.float16(1))),
            _false_fn=lambda: mb.identity(x=held),
        )

    executor = Executor(made)
    totals = [next(iter(executor({"step": torch.tensor([step])}).values())).tolist() for step in (0, 1, 1, 0, 1)]
    assert totals == [[0, 0], [1, 1], [2, 2], [2, 2], [3, 3]]
    assert executor.states["total"].tolist() == [3, 3]

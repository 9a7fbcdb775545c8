"""Records: objects of plain classes of the project that are built with tensors, and whose methods and attributes give parts of them."""

from __future__ import annotations

import pytest
from nets import HEAD, codes

RECORD = """
class Boxes:
    def __init__(self, box, size):
        self.box = box
        self.fields = {{}}

    def add(self, name, value):
        self.fields[name] = value

    def field(self, name):
        return self.fields[name]


class Net(nn.Module):
    def forward(self, x, n):
        boxes = self.boxed(x)
        {body}

    def boxed(self, x):
        boxes = Boxes({given}, 3)
        boxes.add("scores", x)
        return boxes
"""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            "scores = boxes.field('scores').reshape(-1, 4)\n        return x * torch.kthvalue(scores, 5)[0].item()",
            "FLW002",
        ),
        ("valid = (boxes.field('scores') > 0.5).nonzero()\n        return [x[i] for i in valid]", "FLW004"),
        (
            "kept = torch.sort(boxes.box)[1]\n        if kept.sum() > 2:\n            return x\n        return -x",
            "FLW001",
        ),
    ],
)
def test_what_a_record_gives_depends_on_what_it_was_built_with(body: str, code: str) -> None:
    assert codes(HEAD + RECORD.format(body=body, given="x"), code) == [code]
    assert codes(HEAD + RECORD.format(body=body, given="3"), code) == []


@pytest.mark.parametrize(
    "body",
    [
        "return x[: len(boxes.fields)]",
        "if boxes.size:\n            return x\n        return -x",
        "for name in boxes.names():\n            x = x + boxes.field(name)\n        return x",
    ],
)
def test_what_a_record_gives_is_no_tensor_for_all_that(body: str) -> None:
    assert codes(HEAD + RECORD.format(body=body, given="x"), "FLW", "OPS") == []

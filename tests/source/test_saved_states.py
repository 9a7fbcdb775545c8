"""DEV002: a checkpoint that every `torch.save` of the project saves from the CPU loads everywhere."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from modellint.cli import cli

NETS = """
    from torch import nn

    class Small(nn.Module):
        pass

    class Large(nn.Module):
        pass
"""
LOAD = """
    import torch

    def restore(net, folder, step):
        net.load_state_dict(torch.load(f"{folder}/{step}_small.pth"))
"""
KEEP = """
    import torch

    use_cuda = torch.cuda.is_available()

    class Keeper:
        def keep(self, net, folder, step, wanted):
            path = "%s/%d_small.pth" % (folder, step)
            BODY
"""


def loads(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> list[str]:
    """The files with a DEV002."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), "utf-8")
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(cli, ["check", "--output-format", "json", "--select", "DEV002", "--no-cache", "."])
    return [Path(finding["filename"]).stem for finding in json.loads(result.stdout)]


def keeping(*lines: str) -> str:
    return textwrap.dedent(KEEP).replace("        BODY", textwrap.indent("\n".join(lines), " " * 8))


@pytest.mark.parametrize(
    "body",
    [
        ("net.cpu()", "torch.save(net.state_dict(), path)"),
        ("net.module.to('cpu').eval()", "torch.save(net.module.state_dict(), path)", "net.cuda()"),
        ("net = net.to(torch.device('cpu'))", "torch.save(obj=net.state_dict(), f=path)"),
        ("if use_cuda:", "    net.cpu()", "torch.save(net.state_dict(), path)", "if use_cuda:", "    net.cuda()"),
        ("torch.save(net.to(device='cpu').state_dict(), path)",),
        ("state = {k: v.cpu() for k, v in net.state_dict().items()}", "torch.save(state, path)"),
        ("torch.save(dict((k, v.cpu()) for k, v in net.state_dict().items()), path)",),
        (
            "state = net.state_dict()",
            "for key in state:",
            "    state[key] = state[key].cpu()",
            "torch.save(state, path)",
        ),
        ("net.cpu()", "state = net.state_dict()", "if wanted:", "    torch.save({'net': state, 'version': 1}, path)"),
        ("with torch.no_grad():", "    net.cpu()", "torch.save(net.state_dict(), path)"),
    ],
)
def test_moved_before_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: tuple[str, ...]) -> None:
    assert loads(tmp_path, monkeypatch, keeper=keeping(*body), net=LOAD) == []


@pytest.mark.parametrize(
    "body",
    [
        ("torch.save(net.state_dict(), path)", "net.cpu()"),
        ("net.cpu()", "net.cuda()", "torch.save(net.state_dict(), path)"),
        ("if wanted:", "    net.cpu()", "torch.save(net.state_dict(), path)"),
        ("if use_cuda:", "    pass", "else:", "    net.cpu()", "torch.save(net.state_dict(), path)"),
        ("net.cpu()", "if wanted:", "    net.cuda()", "torch.save(net.state_dict(), path)"),
        ("wanted.cpu()", "torch.save(net.state_dict(), path)"),
        ("net.cpu()", "net = wanted", "torch.save(net.state_dict(), path)"),
        ("state = net.state_dict()", "net.cpu()", "torch.save(state, path)"),
        ("net.cpu()", "torch.save({'net': net.state_dict(), 'optimizer': wanted.state_dict()}, path)"),
        ("torch.save({k: v.to(wanted) for k, v in net.state_dict().items()}, path)",),
        (
            "state = net.state_dict()",
            "for key in wanted:",
            "    state[key] = state[key].cpu()",
            "torch.save(state, path)",
        ),
        ("net.cpu()", "torch.save(net.state_dict(), f'{folder}/{step}_large.pth')"),
        ("net.cpu()", "torch.save(net.state_dict(), f'{folder}/{step}_small.txt')"),
        ("net.cpu()", "torch.save(net.state_dict(), folder)"),
    ],
)
def test_not_moved_or_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: tuple[str, ...]) -> None:
    assert loads(tmp_path, monkeypatch, keeper=keeping(*body), net=LOAD) == ["net"]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("f'{place}/last_large.pth'", []),
        ("f'{place}/last_small.pth'", ["net"]),
        ("place", ["net"]),
        ("place + '.pth'", ["net"]),
        ("place + '.txt'", []),
    ],
)
def test_all_that_save_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, found: list[str]) -> None:
    keeper = keeping("net.cpu()", "torch.save(net.state_dict(), path)")
    also = f"import torch\n\n\ndef also(net, place):\n    torch.save(net.state_dict(), {path})\n"
    assert loads(tmp_path, monkeypatch, keeper=keeper, also=also, net=LOAD) == found


RESTORE = """
    import torch

    from nets import CLASS

    def restore(path):
        net = CLASS()
        net.load_state_dict(torch.load(path))
        return net.eval()
"""
TRAIN = """
    import torch

    from nets import Small

    class Trainer:
        def __init__(self):
            self.net = Small().cuda()

        def keep(self, path):
            MOVE
            torch.save(self.net.state_dict(), path)
"""


@pytest.mark.parametrize(
    ("name", "move", "also", "found"),
    [
        ("Small", "self.net.cpu()", "", []),
        ("Small", "self.net.eval()", "", ["net"]),
        ("Large", "self.net.cpu()", "", ["net"]),
        ("Small", "self.net.cpu()", "net = Large()\ntorch.save(net.state_dict(), 'large.pth')\n", []),
        ("Small", "self.net.cpu()", "net = Small()\ntorch.save(net.state_dict(), 'large.pth')\n", ["net"]),
        ("Small", "self.net.cpu()", "torch.save(make().state_dict(), 'large.pth')\n", ["net"]),
    ],
)
def test_modules_made_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, move: str, also: str, found: list[str]
) -> None:
    files = {"net": RESTORE.replace("CLASS", name), "train": TRAIN.replace("MOVE", move), "nets": NETS}
    also = "import torch\n\nfrom nets import Large, Small\n\n" + also
    assert loads(tmp_path, monkeypatch, **files, also=also) == found


def test_a_notebook_may_save_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = keeping("net.cpu()", "torch.save(net.state_dict(), path)")
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "import torch\ntorch.save(net, path)\n"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "try.ipynb").write_text(json.dumps(notebook), "utf-8")
    assert loads(tmp_path, monkeypatch, keeper=keeper, net=LOAD) == ["net"]


ANY = """
    import torch

    def restore(net, path):
        net.load_state_dict(torch.load(path))
        return net
"""
KEPT = "import torch\n\n\ndef keep(net, epoch):\n    torch.save(net{move}.state_dict(), f'out/net_{{epoch}}.pth')\n"


@pytest.mark.parametrize(
    ("move", "also", "found"),
    [
        (".cpu()", "", []),
        ("", "", ["net"]),
        (".cpu()", "torch.save(make().state_dict(), 'large.pth')", ["net"]),
        (".cpu()", "restore(make(), arguments.path)", []),
        (".cpu()", "restore(make(), path='out/net_3.pth')", []),
        (".cpu()", "restore(make(), 'published.pth')", ["net"]),
        (".cpu()", "lightning.Trainer().fit(make())", ["net"]),
    ],
)
def test_a_path_that_may_lead_to_all_that_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: str, also: str, found: list[str]
) -> None:
    files = {"keeper": KEPT.format(move=move), "also": f"import torch\n\nfrom net import restore\n\n{also}\n"}
    assert loads(tmp_path, monkeypatch, **files, net=ANY) == found
    named = ANY.replace("load(path)", "load(path + '/published.pth')")
    assert loads(tmp_path, monkeypatch, **files, net=named) == ["net"]

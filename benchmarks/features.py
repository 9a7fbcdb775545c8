"""What linters offer, feature by feature: a command for each cell of a table, run on small files, and what it has to print.

    python -m venv others && others/bin/pip install ruff fixit pylint flake8 libcst PyYAML
    others/bin/pip install --no-deps torchfix torch-audit
    python benchmarks/features.py --others others/bin

A cell is "yes" where the command does what the feature is, "no" where it does not, and empty where the tool has no words for it.
torch-audit runs models, and is run by this Python, which has torch. The table is written in Markdown. Ends with 1 where a cell of
modellint's is "no".
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS = ("modellint", "ruff", "fixit", "TorchFix", "torch-audit", "pylint")

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4) for _ in range(2)]
        self.mean = torch.zeros(4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x - self.mean)
        return x.transpose(0, 1).view(-1)
"""
FILES = {
    "modellint": {"net.py": NET},
    "ruff": {"net.py": "import os\n\n\ndef f():\n    x = 1\n"},
    "fixit": {"net.py": "def f(x):\n    return isinstance(x, int) or isinstance(x, str)\n"},
    "TorchFix": {"net.py": "import torch\n\n\ndef f(x, y):\n    return torch.ger(x, y)\n"},
    "torch-audit": {
        "net.py": "from torch import nn\n\n\nclass Net(nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(nn.Conv2d(3, 7, 3, bias=True), nn.BatchNorm2d(7))\n"
    },
    "pylint": {"net.py": '"""Doc."""\nimport os\n'},
}
CODES = {
    "modellint": "REG001",
    "ruff": "F401",
    "fixit": "CollapseIsinstanceChecks",
    "TorchFix": "TOR101",
    "torch-audit": "TA",
    "pylint": "W0611",
}
CHECK = {
    "modellint": "modellint check --no-cache",
    "ruff": "ruff check --no-cache --isolated",
    "fixit": "fixit lint",
    "TorchFix": "torchfix",
    "torch-audit": "torch-audit net:Net",
    "pylint": "pylint",
}
NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {}, "outputs": [], "source": %s}], '
    '"metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}'
)

Trial = tuple[str, str]
"""A shell command, and a pattern that what it prints has to hold; `{check}` is the tool's command that checks, `{code}` its finding."""

SERVE = """import json, subprocess, sys
params = {"processId": None, "rootUri": None, "capabilities": {}}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
server.stdin.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
server.stdin.flush()
length = int(server.stdout.readline().split()[1])
while server.stdout.readline().strip():
    pass
print(server.stdout.read(length).decode())
server.kill()
"""
OWN_OF_PYLINT = """from pylint.checkers import BaseChecker


class Own(BaseChecker):
    name = "own"
    msgs = {"W9901": ("own", "own-rule", "own")}

    def visit_import(self, node):
        self.add_message("own-rule", node=node)


def register(linter):
    linter.register_checker(Own(linter))
"""
OWN = '''"""OWN001: a class."""

from collections.abc import Iterator

import libcst as cst

from modellint.authoring import CstFile, Diagnostic, Rule, Severity


class Own(Rule):
    """A class.

    Why: It is an example.

    Bad:
        ```python
        class A:
            pass
        ```

    Good:
        ```python
        a = 1
        ```
    """

    code = "OWN001"
    name = "own"
    severity = Severity.WARNING

    def source(self, node: cst.ClassDef, file: CstFile) -> Iterator[Diagnostic]:
        yield file.finding(self, node, "a class")
'''

NO_LISTS = r"(?s)\A(?!.*REG001[ :]+(\[\*\] )?`)"
NO_IMPORTS = r"(?s)\A(?!.*F401 )"

FEATURES: dict[str, dict[str, Trial]] = {
    "check": {tool: (("{check}" if tool == "torch-audit" else "{check} net.py"), "{code}") for tool in TOOLS},
    "fix": {
        "modellint": ("{check} --fix net.py; cat net.py", "ModuleList"),
        "ruff": ("{check} --fix net.py; cat net.py", r"(?s)\A(?!.*import os)"),
        "fixit": ("fixit fix -a net.py; cat net.py", r"\(int, str\)"),
        "TorchFix": ("yes | {check} --fix net.py; cat net.py", r"torch\.outer"),
    },
    "unsafe fixes apart": {
        "modellint": ("{check} --fix --unsafe-fixes net.py; cat net.py", "register_buffer|reshape"),
        "ruff": ("{check} --fix --unsafe-fixes net.py; cat net.py", r"(?s)\A(?!.*x = 1)"),
    },
    "diff": {
        "modellint": ("{check} --diff net.py", r"(?m)^\+.*ModuleList"),
        "ruff": ("{check} --diff net.py", r"(?m)^-import os"),
        "fixit": ("fixit lint -d net.py", r"(?m)^\+.*\(int, str\)"),
        "TorchFix": ("{check} net.py", r"(?m)^\+.*torch\.outer"),
    },
    "coloured diff": {
        "modellint": ("{check} --diff --color always net.py", r"\x1b\["),
        "ruff": ("{check} --diff --color always net.py", r"\x1b\["),
        "fixit": ("script -qec 'fixit lint -d net.py' /dev/null", r"\x1b\[\d+m\+"),
        "TorchFix": ("script -qec 'torchfix net.py' /dev/null", r"\x1b\[\d+m\+"),
    },
    "noqa": {
        "modellint": (
            "sed -i 's/range(2)\\]/range(2)]  # noqa: REG001/' net.py; {check} net.py",
            NO_LISTS,
        ),
        "ruff": ("sed -i '1s/$/  # noqa: F401/' net.py; {check} net.py", NO_IMPORTS),
        # As a plug-in of flake8.
        "TorchFix": (
            "sed -i 's/ger(x, y)/ger(x, y)  # noqa: TOR101/' net.py; flake8 --select TOR net.py; echo status $?",
            "status 0",
        ),
        "pylint": ("sed -i '2s/$/  # noqa: W0611/' net.py; {check} net.py", r"(?s)\A(?!.*W0611)"),
        "fixit": ("sed -i '2s/$/  # noqa: CollapseIsinstanceChecks/' net.py; {check} net.py", r"(?s)\A(?!.*Collapse)"),
    },
    "own directive": {
        "modellint": (
            "sed -i 's/range(2)\\]/range(2)]  # modellint: ignore[REG001]/' net.py; {check} net.py",
            NO_LISTS,
        ),
        "ruff": ("sed -i '1s/$/  # ruff: ignore[F401]/' net.py; {check} net.py", NO_IMPORTS),
        "fixit": (
            "sed -i '2s/$/  # lint-ignore: CollapseIsinstanceChecks/' net.py; {check} net.py",
            r"(?s)\A(?!.*Multiple)",
        ),
        "pylint": ("sed -i '2s/$/  # pylint: disable=W0611/' net.py; {check} net.py", r"(?s)\A(?!.*W0611)"),
    },
    "block directive": {
        "modellint": (
            "sed -i 's/Module):/Module):  # modellint: ignore[REG001]/' net.py; {check} net.py",
            NO_LISTS,
        ),
        "ruff": (
            "sed -i '1s/^/# ruff: disable[F401]\\n/;1s/$/\\n# ruff: enable[F401]/' net.py; {check} net.py",
            NO_IMPORTS,
        ),
        "pylint": (
            'printf \'"""Doc."""\\n\\n\\ndef f():\\n    """Doc."""\\n    # pylint: disable=W0612\\n    x = 1\\n\' > net.py; {check} net.py',
            r"(?s)\A(?!.*W0612)",
        ),
        "fixit": (
            "sed -i '1s/$/  # lint-ignore: CollapseIsinstanceChecks/' net.py; {check} net.py",
            r"(?s)\A(?!.*Multiple)",
        ),
    },
    "file directive": {
        "modellint": (
            "sed -i '1s/^/# modellint: file-ignore[REG001]\\n/' net.py; {check} net.py",
            NO_LISTS,
        ),
        "ruff": ("sed -i '1s/^/# ruff: noqa: F401\\n/' net.py; {check} net.py", NO_IMPORTS),
        "pylint": ("sed -i '1s/^/# pylint: disable=W0611\\n/' net.py; {check} net.py", r"(?s)\A(?!.*W0611)"),
    },
    "unused suppressions": {
        "modellint": ("echo 'x = 1  # modellint: ignore[REG001]' > net.py; {check} net.py", "LNT001"),
        "ruff": ("echo 'x = 1  # noqa: F401' > net.py; {check} --select RUF100,F net.py", "RUF100"),
        "pylint": (
            "echo 'X = 1  # pylint: disable=W0611' > net.py; {check} --enable=useless-suppression net.py",
            "I0021",
        ),
    },
    "add-ignore": {
        "modellint": ("{check} --add-ignore net.py; cat net.py", r"modellint: ignore\["),
        "ruff": ("{check} --add-ignore net.py; cat net.py", r"ruff: ignore\["),
    },
    "baseline": {
        "modellint": (
            "{check} --baseline b.json --write-baseline net.py; {check} --baseline b.json net.py; echo status $?",
            "status 0",
        ),
        "torch-audit": (
            "{check} --baseline b.json --update-baseline; {check} --baseline b.json; echo status $?",
            "status 0",
        ),
    },
    "per-file-ignores": {
        "modellint": (
            'printf \'[per-file-ignores]\\n"net.py" = ["REG001"]\\n\' > modellint.toml; {check} net.py',
            NO_LISTS,
        ),
        "ruff": ("{check} --per-file-ignores net.py:F401 net.py", NO_IMPORTS),
        "fixit": (
            "printf '[tool.fixit]\\nroot = true\\n[[tool.fixit.overrides]]\\npath = \"net.py\"\\n' > pyproject.toml; "
            "echo 'disable = [\"fixit.rules\"]' >> pyproject.toml; {check} net.py",
            r"(?s)\A(?!.*Multiple)",
        ),
    },
    "nested settings": {
        "modellint": (
            "mkdir sub; cp net.py sub; echo 'ignore = [\"REG001\"]' > sub/modellint.toml; touch modellint.toml; "
            "{check} . --output-format concise",
            r"(?s)\A(?!.*sub/net\.py\S* REG001)(?=.*REG001)",
        ),
        "ruff": (
            "mkdir sub; cp net.py sub; echo 'lint.ignore = [\"F401\"]' > sub/ruff.toml; touch ruff.toml; "
            "ruff check --no-cache . --output-format concise",
            r"(?s)\A(?!.*sub/net\.py\S* F401)(?=.*F401)",
        ),
        "fixit": (
            "mkdir sub; cp net.py sub; printf '[tool.fixit]\\nroot = true\\n' > pyproject.toml; "
            "printf '[tool.fixit]\\ndisable = [\"fixit.rules\"]\\n' > sub/pyproject.toml; {check} .",
            r"(?s)\A(?!.*sub/net\.py@)(?=.*Collapse)",
        ),
    },
    "extend": {
        "modellint": (
            "echo 'ignore = [\"REG001\"]' > base.toml; echo 'extend = \"base.toml\"' > modellint.toml; {check} net.py",
            NO_LISTS,
        ),
        "ruff": (
            "echo 'lint.ignore = [\"F401\"]' > base.toml; echo 'extend = \"base.toml\"' > ruff.toml; ruff check --no-cache net.py",
            NO_IMPORTS,
        ),
    },
    "schema of the settings": {
        "modellint": ("modellint config --schema", '"\\$schema"'),
    },
    "show settings": {
        "modellint": ("modellint config", "fail-level"),
        "ruff": ("{check} --show-settings net.py", "linter"),
        "fixit": ("fixit debug net.py", "enable|Config"),
        "pylint": ("pylint --generate-toml-config", "max-args"),
    },
    "show files": {
        "modellint": ("{check} --show-files .", r"net\.py"),
        "ruff": ("{check} --show-files .", r"net\.py"),
    },
    "exclude": {
        "modellint": ("{check} --exclude net.py .", NO_LISTS),
        "ruff": ("{check} --exclude net.py .", NO_IMPORTS),
        "pylint": ("{check} --recursive y --ignore net.py .", r"(?s)\A(?!.*W0611)"),
    },
    "stdin": {
        "modellint": ("{check} --stdin-filename net.py - < net.py", "REG001"),
        "ruff": ("{check} --stdin-filename net.py - < net.py", "F401"),
        "fixit": ("{check} - net.py < net.py", "Collapse"),
        "pylint": ("{check} --from-stdin net.py < net.py", "W0611"),
    },
    "statistics": {
        "modellint": ("{check} --statistics net.py", r"1.*REG001"),
        "ruff": ("{check} --statistics net.py", r"1.*F401"),
        "pylint": ("{check} --reports y net.py", "unused-import *.1"),
        "fixit": ("fixit --print-metrics lint net.py", "Count"),
    },
    "explain a rule": {
        "modellint": ("modellint rule REG001", "ModuleList"),
        "ruff": ("ruff rule F401", "unused-import"),
        "torch-audit": ("torch-audit --explain TA100", "TA100"),
        "pylint": ("pylint --help-msg W0611", "unused-import"),
    },
    "list of rules": {
        "modellint": ("modellint rule", "REG001"),
        "ruff": ("ruff rule --all", "F401"),
        "TorchFix": ("torchfix --help", "TOR101"),
        "torch-audit": ("torch-audit --list-rules", r"TA\d+"),
        "pylint": ("pylint --list-msgs", "W0611"),
    },
    "rule by name": {
        "modellint": ("modellint rule module-in-list", "REG001"),
        "ruff": ("ruff rule unused-import", "F401"),
        "pylint": ("pylint --help-msg unused-import", "W0611"),
    },
    "did you mean": {
        "modellint": ("modellint chek", "check"),
        "ruff": ("ruff chek", "'check'"),
        "fixit": ("fixit lnt", "lint'"),
        "pylint": ("pylint --disabel=W0611 net.py", "--disable"),
    },
    "full frames": {
        "modellint": ("{check} net.py", r"\n.*\|.*\[nn\.Linear"),
        "ruff": ("{check} net.py", r"\|.*import os"),
        "torch-audit": ("{check}", "─|│"),
    },
    "concise": {
        "modellint": ("{check} --output-format concise net.py", r"(?m)^net\.py:8:\d+: REG001"),
        "ruff": ("{check} --output-format concise net.py", r"(?m)^net\.py:1:8: F401"),
        "fixit": ("{check} net.py", r"net\.py@2"),
        "TorchFix": ("{check} net.py", r"net\.py:5:\d+: TOR101"),
        "pylint": ("{check} net.py", r"(?m)^net\.py:2:0: W0611"),
    },
    "json": {
        "modellint": ("{check} --output-format json net.py", '"code": "REG001"'),
        "ruff": ("{check} --output-format json net.py", '"code": "F401"'),
        "torch-audit": ("{check} --format json", '"TA'),
        "pylint": ("{check} -f json net.py", '"message-id": "W0611"'),
    },
    "json-lines": {
        "modellint": ("{check} --output-format json-lines net.py", r'(?m)^\{.*"REG001"'),
        "ruff": ("{check} --output-format json-lines net.py", r'(?m)^\{.*"F401"'),
    },
    "sarif": {
        "modellint": ("{check} --output-format sarif net.py", '"runs"'),
        "ruff": ("{check} --output-format sarif net.py", '"runs"'),
        "torch-audit": ("{check} --format sarif --output o.sarif; cat o.sarif", '"runs"'),
    },
    "github": {
        "modellint": ("{check} --output-format github net.py", "(?m)^::error"),
        "ruff": ("{check} --output-format github net.py", "(?m)^::error"),
        "pylint": ("{check} -f github net.py", "(?m)^::"),
    },
    "gitlab": {
        "modellint": ("{check} --output-format gitlab net.py", '"fingerprint"'),
        "ruff": ("{check} --output-format gitlab net.py", '"fingerprint"'),
    },
    "junit": {
        "modellint": ("{check} --output-format junit net.py", "<testsuite"),
        "ruff": ("{check} --output-format junit net.py", "<testsuite"),
    },
    "html": {
        "modellint": ("{check} --output-format html net.py", "<!doctype html|<!DOCTYPE html"),
    },
    "several outputs": {
        "modellint": (
            "{check} --output-format sarif=a.sarif --output-format junit=b.xml net.py; cat a.sarif b.xml",
            '(?s)"runs".*<testsuite',
        ),
        "torch-audit": ("{check} --format rich --format json --output o.json; cat o.json", '"TA'),
        "pylint": ("{check} -f json:a.json,text:b.txt net.py; cat a.json b.txt", r'(?s)"W0611".*net\.py:2'),
    },
    "progress on a terminal": {
        "modellint": (
            "mkdir m; for i in $(seq 300); do cp net.py m/n$i.py; done; script -qec 'modellint check --no-cache m' /dev/null",
            r"checking: \d+/300",
        ),
    },
    "live model": {
        "modellint": ("{check} net.py:Net --input 2x4", "(?i)core ml"),
        "torch-audit": ("{check}", "TA"),
    },
    "notebooks": {
        "modellint": ("python3 note.py; {check} n.ipynb", r"(?i)REG001[^\n]*\n[^\n]*cell"),
        "ruff": ("python3 note.py; {check} n.ipynb", "(?i)F401.*\n?.*cell"),
    },
    "language server": {
        "modellint": ("python3 serve.py modellint server", '"capabilities"'),
        "ruff": ("python3 serve.py ruff server", '"capabilities"'),
        "fixit": ("python3 serve.py fixit lsp", '"capabilities"'),
    },
    "code actions": {
        "modellint": ("python3 serve.py modellint server", '"codeActionProvider"'),
        "ruff": ("python3 serve.py ruff server", '"codeActionProvider"'),
        "fixit": ("python3 serve.py fixit lsp", '"codeActionProvider"'),
    },
    "completion": {
        "modellint": ("modellint completion bash", "complete"),
        "ruff": ("ruff generate-shell-completion bash", "complete"),
        "fixit": ("_FIXIT_COMPLETE=bash_source fixit", "complete"),
        "torch-audit": ("_TORCH_AUDIT_COMPLETE=bash_source torch-audit", "complete"),
    },
    "rules of one's own": {
        "modellint": ("modellint check --plugin rules net.py", "OWN001"),
        "fixit": (
            "mkdir own; touch own/__init__.py; printf 'import libcst as cst\\nfrom fixit import LintRule\\n\\n\\nclass Own(LintRule):\\n"
            '    def visit_FunctionDef(self, node):\\n        self.report(node, "own")\\n\' > own/own.py; '
            "printf '[tool.fixit]\\nroot = true\\nenable = [\".own\"]\\n' > pyproject.toml; {check} net.py",
            "own",
        ),
        "pylint": (
            "PYTHONPATH=. {check} --load-plugins own net.py",
            "W9901",
        ),
    },
    "version": {
        "modellint": ("modellint --version", r"\d+\.\d+"),
        "ruff": ("ruff --version", r"\d+\.\d+"),
        "fixit": ("fixit --version", r"\d+\.\d+"),
        "TorchFix": ("torchfix --version", r"\d+\.\d+"),
        "torch-audit": ("torch-audit --version", r"\d+\.\d+"),
        "pylint": ("pylint --version", r"\d+\.\d+"),
    },
}


def main() -> int:
    """Run the trials, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--others", type=Path, required=True, help="the folder with the other tools' commands")
    parser.add_argument("--show", action="store_true", help="print what a trial that fails has printed")
    parser.add_argument("only", nargs="*", help="features, or tools; default: all")
    options = parser.parse_args()
    missing = []
    print("| | " + " | ".join(TOOLS) + " |")
    print("|---" * (len(TOOLS) + 1) + "|")
    for feature, trials in FEATURES.items():
        if options.only and feature not in options.only and not set(options.only) & set(TOOLS):
            continue
        cells = []
        for tool in TOOLS:
            if tool not in trials or (set(options.only) & set(TOOLS) and tool not in options.only):
                cells.append("")
                continue
            printed = tried(tool, trials[tool][0], options.others.absolute())
            works = re.search(trials[tool][1].replace("{code}", CODES[tool]), printed) is not None
            cells.append("yes" if works else "no")
            if not works and options.show:
                print(f"--- {feature}, {tool}: {trials[tool][0]}\n{printed}\n---", file=sys.stderr)
        if cells[0] == "no":
            missing.append(feature)
        print(f"| {feature} | " + " | ".join(cells) + " |", flush=True)
    for feature in missing:
        print(f"modellint: not as expected: {feature}", file=sys.stderr)
    return bool(missing)


def tried(tool: str, command: str, others: Path) -> str:
    """What a command prints in a folder of its own with the tool's small files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "work")
        path.mkdir()
        for name, text in FILES[tool].items():
            Path(path, name).write_text(text, "utf-8")
        Path(path, "serve.py").write_text(SERVE, "utf-8") if "serve.py" in command else None
        if "note.py" in command:
            import json

            source = json.dumps((FILES[tool]["net.py"]).splitlines(keepends=True))
            Path(path, "n.ipynb").write_text(NOTEBOOK % source, "utf-8")
            command = command.replace("python3 note.py; ", "")
        if "--load-plugins own" in command:
            Path(path, "own.py").write_text(OWN_OF_PYLINT, "utf-8")
        if "--plugin rules" in command:
            Path(path, "rules").mkdir()
            Path(path, "rules", "own.py").write_text(OWN, "utf-8")
        shims = Path(folder, "bin")
        shims.mkdir()
        site = next(others.parent.glob("lib/python*/site-packages"))
        audit = f"import sys; sys.path[:0] = ['.']; sys.path.append('{site}'); from torch_audit.cli import *; import torch_audit.cli as c; "
        Path(shims, "torch-audit").write_text(
            f'#!/bin/sh\nPYTHONPATH=".:$PYTHONPATH" exec {sys.executable} -W ignore -c "{audit}'
            "import runpy; sys.argv[0] = 'torch-audit'; runpy.run_module('torch_audit', run_name='__main__')\" \"$@\"\n",
            "utf-8",
        )
        Path(shims, "torch-audit").chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{shims}:{Path(sys.executable).parent}:{others}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": folder,
            "HOME": folder,
        }
        environment.pop("PYTHONUNBUFFERED", None)
        # The other tools have an interpreter of their own.
        shell = command.replace("{check}", CHECK[tool])
        done = subprocess.run(
            ["bash", "-c", shell],
            cwd=path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())

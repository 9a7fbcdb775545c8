"""Elements that displays are made of: their style, and tables that screen readers can walk through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from html import escape

from modellint.report.style import visible

_DARK = "--bad: #ff8a80; --good: #6fd08c; --weak: #e3b341; --line: rgba(160,160,160,.4); --single: #6cb6ff; --half: #f0883e;"
_LIGHT = "--bad: #b42318; --good: #1a7f37; --weak: #8a5a00; --line: rgba(110,110,110,.35); --single: #0b5cad; --half: #c2570c;"
STYLE = f"""
.modellint {{ {_LIGHT} font: 14px/1.5 system-ui, sans-serif; max-width: 76em; }}
@media (prefers-color-scheme: dark) {{ .modellint {{ {_DARK} }} }}
[data-jp-theme-light="true"] .modellint, .vscode-light .modellint, .notebook_app .modellint {{ {_LIGHT} }}
[data-jp-theme-light="false"] .modellint, .vscode-dark .modellint {{ {_DARK} }}
.modellint table {{ border-collapse: collapse; margin: .6em 0 1.4em; background: transparent; color: inherit; }}
.modellint caption {{ text-align: left; font-weight: 600; padding: 2px 0; }}
.modellint th, .modellint td {{ text-align: left; vertical-align: top; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--line); }}
.modellint tbody th {{ font-weight: 400; }}
.modellint td.n {{ text-align: right; font-variant-numeric: tabular-nums; }}
.modellint p {{ margin: 4px 0; }}
.modellint .bad {{ color: var(--bad); }} .modellint .good {{ color: var(--good); }} .modellint .weak {{ color: var(--weak); }}
.modellint code, .modellint .m {{ font-family: ui-monospace, monospace; font-size: 13px; }}
.modellint .nowrap {{ white-space: nowrap; }} .modellint .wrap {{ white-space: normal; }} .modellint .help {{ opacity: .8; }}
.modellint .badge {{ color: #fff; border-radius: 3px; padding: 1px 6px; }}
.modellint .badge.error {{ background: #b42318; }} .modellint .badge.warning {{ background: #8a5a00; }}
.modellint .badge.info {{ background: #0b5cad; }}
.modellint svg {{ width: 100%; height: auto; }} .modellint svg text {{ font: 11px system-ui, sans-serif; fill: currentColor; }}
.modellint svg .single {{ fill: var(--single); }} .modellint svg .half {{ fill: var(--half); }}
.modellint .scroll {{ max-height: 32em; overflow: auto; }}
""".strip()


def element(*parts: str) -> str:
    """One element with its style, of parts that are HTML."""
    return f'<div class="modellint"><style>{STYLE}</style>{"".join(filter(None, parts))}</div>'


def text(plain: str) -> str:
    """Text as HTML, whatever it holds."""
    return escape(visible(plain))


def paragraph(plain: str, look: str = "") -> str:
    """A paragraph of text; nothing of none."""
    return f"<p{f' class={chr(34)}{look}{chr(34)}' if look else ''}>{text(plain)}</p>" if plain else ""


def table(caption: str, heads: Sequence[str], rows: Iterable[str]) -> str:
    """A table with its title and the heads of its columns; it scrolls by itself where it is long."""
    cells = "".join(f'<th scope="col">{text(head)}</th>' for head in heads)
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    label = f' role="region" aria-label="{text(caption)}"' if caption else ""
    body = f"{title}<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll" tabindex="0"{label}><table>{body}</table></div>'


def row(cells: Sequence[str], look: str = "", numbers: Set[int] = frozenset()) -> str:
    """A row of text; the first cell is its head."""
    first, *rest = cells
    content = f'<th scope="row" class="m">{text(first)}</th>'
    content += "".join(
        f'<td class="{"n" if at in numbers else "m"}">{text(cell)}</td>' for at, cell in enumerate(rest, 1)
    )
    return f'<tr class="{look}">{content}</tr>' if look else f"<tr>{content}</tr>"

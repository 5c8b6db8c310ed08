"""Results as a notebook shows them: the verdict in words, the numbers in a table, and charts as SVG.

Colours are the page's own for text and lines (``currentColor``), and two of middle lightness for what is compared, so that light and dark
themes are both read. No script, no style sheet, nothing from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

__all__ = ["of_head", "of_scores", "of_threshold"]

_COLORS = ("#2f7fe0", "#cf6a12")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 380, 190, 44, 30, 24
#: Points of a line that are drawn.
_POINTS = 300

Line = tuple[str, Sequence[float], Sequence[float]]


def _text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor" font-size="11" {more}>{escape(words)}</text>'


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _thinned(values: Sequence[float]) -> list[float]:
    step = max(1, -(-len(values) // _POINTS))
    kept = list(values[::step])
    return kept if (len(values) - 1) % step == 0 else [*kept, values[-1]]


def _chart(title: str, across: str, lines: Sequence[Line], bounds: tuple[float, float] | None = None, mark: float | None = None) -> str:
    """Lines over one axis, each with its name beside the title; ``mark`` is a place on the axis."""
    xs = [x for _, line, _ in lines for x in line]
    ys = [y for _, _, line in lines for y in line]
    if not xs:
        return ""
    (low, high), (first, last) = bounds or (min(ys), max(ys)), (min(xs), max(xs))
    high, last = high if high > low else low + 1, last if last > first else first + 1
    right, floor = _WIDTH - 10, _HEIGHT - _BOTTOM

    def at_x(x: float) -> float:
        return _LEFT + (x - first) / (last - first) * (right - _LEFT)

    def at_y(y: float) -> float:
        return floor - (y - low) / (high - low) * (floor - _TOP)

    parts = [_text(_LEFT, 14, title, "start", 'font-weight="600"')]
    for y in (low, (low + high) / 2, high):
        parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="currentColor" stroke-opacity="0.2"/>')
        parts.append(_text(_LEFT - 5, at_y(y) + 4, _short(y), "end"))
    for x, anchor in ((first, "start"), (last, "end")):
        parts.append(_text(at_x(x), floor + 14, _short(x), anchor))
    parts.append(_text((_LEFT + right) / 2, floor + 24, across))
    if mark is not None:
        parts.append(
            f'<line x1="{at_x(mark):.1f}" x2="{at_x(mark):.1f}" y1="{_TOP}" y2="{floor}" stroke="currentColor" stroke-dasharray="4 3"/>'
        )
    beside = float(right)
    for number, (name, line_xs, line_ys) in reversed(list(enumerate(lines))):
        color, dash = _COLORS[number % 2], ' stroke-dasharray="6 3"' if number else ""
        points = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in zip(_thinned(line_xs), _thinned(line_ys), strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
        if len(lines) > 1:
            beside -= sum(9 if letter.isupper() or letter == "@" else 5.8 for letter in name)
            parts.append(_text(beside, 14, name, "start"))
            parts.append(f'<line x1="{beside - 24:.1f}" x2="{beside - 4:.1f}" y1="10" y2="10" stroke="{color}" stroke-width="2"{dash}/>')
            beside -= 34
    label = f"{title}: {', '.join(f'{name} {_short(ys[0])} to {_short(ys[-1])}' for name, _, ys in lines)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(label)}" style="font-family: sans-serif; max-width: 100%">{"".join(parts)}</svg>'
    )


def _table(columns: Sequence[str], rows: Sequence[tuple[str, Sequence[float | None]]]) -> str:
    cell = 'style="text-align: right; padding: 2px 10px"'
    head = "".join(f"<th {cell}>{escape(name)}</th>" for name in ("", *columns))
    body = "".join(
        f'<tr><th style="text-align: left; padding: 2px 10px 2px 0">{escape(name)}</th>'
        + "".join(f"<td {cell}>{'' if value is None else f'{value:.4f}'}</td>" for value in values)
        + "</tr>"
        for name, values in rows
    )
    return f'<table style="border-collapse: collapse; margin: 4px 0"><tr>{head}</tr>{body}</table>'


def _block(words: str, *parts: str) -> str:
    said = f'<p style="max-width: 46em; margin: 4px 0">{escape(words)}</p>' if words else ""
    return f"<div>{said}{''.join(parts)}</div>"


_COLUMNS = {
    "precision@1": "precision_at_1",
    "R-precision": "r_precision",
    "MAP@R": "mean_average_precision_at_r",
    "MAP": "mean_average_precision",
    "MRR": "mean_reciprocal_rank",
}


def _scores(found: dict[str, Any]) -> list[float | None]:
    return [found.get(name) for name in _COLUMNS.values()]


def of_head(report: dict[str, Any]) -> str:
    """The verdict of a training, its scores beside the rows as they are and a linear map, the loss and the validated precision."""
    if "final" not in report:
        return _block("A head; how it was trained is not stored with it.")
    baseline = report["baseline"]
    sides = [("this head", report["final"]), ("rows as they are", baseline["raw"]), ("a linear map", baseline.get("linear"))]
    rows = [(name, _scores(side["test"])) for name, side in sides if side and side.get("test")]
    steps = [step for step in report["history"] if step.get("loss") is not None]
    loss = _chart("loss", "step", [("loss", [step["step"] for step in steps], [step["loss"] for step in steps])])
    known = [entry for entry in report["evaluations"] if entry.get("validation")]
    at = [entry["step"] for entry in known]
    lines = [
        (name, at, [entry["validation"][key] for entry in known])
        for name, key in (("precision@1", "precision_at_1"), ("MAP@R", "mean_average_precision_at_r"))
    ]
    validated = _chart("validation", "step", lines, (min((y for _, _, ys in lines for y in ys), default=0.0), 1.0)) if known else ""
    return _block(report.get("verdict") or "", _table(list(_COLUMNS), rows), loss, validated)


def of_scores(found: dict[str, Any]) -> str:
    """Retrieval metrics, over queries and over classes, and recall by k."""
    rows = [("over queries", _scores(found)), ("over classes", _scores(found["over_classes"]))]
    lone = f", {found['lone_queries']:,} more have no other row of their class" if found["lone_queries"] else ""
    ks = sorted(found["recall_at"])
    lines = [("recall@k", ks, [found["recall_at"][k] for k in ks]), ("precision@k", ks, [found["precision_at"][k] for k in ks])]
    low = math.floor(10 * min((y for _, _, ys in lines for y in ys), default=0)) / 10
    chart = _chart("of the nearest k", "k", lines, (min(low, 0.9), 1)) if len(ks) > 1 else ""
    return _block(f"{found['queries']:,} queries{lone}.", _table(list(_COLUMNS), rows), chart)


def of_threshold(found: dict[str, Any]) -> str:
    """The threshold in words, and both error rates by similarity."""
    curve = found["curve"]
    side = "test" if curve["test_false_match_rate"] else "fit"
    names = {"false matches": "false_match_rate", "false non-matches": "false_non_match_rate"}
    lines = [(name, curve["threshold"], curve[f"{side}_{key}"]) for name, key in names.items()]
    return _block(" ".join([found["sentence"], *found["notes"]]), _chart("error rates", "similarity", lines, (0, 1), found["threshold"]))

"""Draws docs/overview.svg, the way from text to an application: python docs/overview.py"""

from pathlib import Path

FILE = Path(__file__).with_suffix(".svg")
# Row and column of each box, its title, and what it holds.
BOXES = (
    (0, 0, "text", ("txt, jsonl, Parquet,", "TFRecord, tfds:")),
    (0, 1, "examples", ("sentence order,", "n-gram masks")),
    (1, 1, "pretrained model", ("weights, vocabulary,", "learning curve")),
    (1, 0, "fine-tuned model", ("metrics,", "predictions")),
    (2, 0, "application", ("SavedModel, ONNX,", "LiteRT")),
    (2, 1, "other formats", ("Google's TF1, TF-Hub,", "Hugging Face, KerasHub")),
)
# The smallest letters are 13 units high: 10 pixels where a phone shows the picture 390 pixels wide.
WIDTH, MARGIN, BOX, TALL, BETWEEN = 490, 10, 194, 88, 54  # BETWEEN: two rows
HEIGHT = 2 * MARGIN + 3 * TALL + 2 * BETWEEN
ROOM = 5  # between an arrow and a box


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{words}</text>'


def corner(row: int, column: int) -> tuple[int, int]:
    """The left upper corner of a box."""
    return MARGIN + column * (WIDTH - 2 * MARGIN - BOX), MARGIN + row * (TALL + BETWEEN)


def box(row: int, column: int, title: str, lines: tuple[str, ...]) -> list[str]:
    (x, y), center = corner(row, column), corner(row, column)[0] + BOX / 2
    return [
        f'<rect x="{x}" y="{y}" width="{BOX}" height="{TALL}" rx="8" class="box"/>',
        text(center, y + 28, title, "title"),
        *(text(center, y + 52 + 20 * number, line) for number, line in enumerate(lines)),
    ]


def across(row: int, command: str, tip: str) -> list[str]:
    """An arrow between the boxes of a row, with its tip at the "start" or the "end"."""
    begin, end, y = MARGIN + BOX + ROOM, WIDTH - MARGIN - BOX - ROOM, corner(row, 0)[1] + TALL / 2
    return [
        f'<path d="M{begin} {y:g}H{end}" class="line" marker-{tip}="url(#tip)"/>',
        text(WIDTH / 2, y - 12, "albert", "code"),
        text(WIDTH / 2, y + 22, command, "code"),
    ]


def down(row: int, column: int, command: str, is_both_ways: bool = False) -> list[str]:
    """An arrow from a box to the one below; the words are on the side where there is room."""
    (x, y), both = corner(row, column), ' marker-start="url(#tip)"' if is_both_ways else ""
    x, begin, side = x + BOX // 2, y + TALL, ("after", "before")[column]
    path = f"M{x} {begin + ROOM}V{begin + BETWEEN - ROOM}"
    return [
        f'<path d="{path}" class="line" marker-end="url(#tip)"{both}/>',
        text(x + (12, -12)[column], begin + BETWEEN / 2 + 5, f"albert {command}", f"code {side}"),
    ]


def drawing() -> str:
    """The SVG."""
    shapes = [shape for each in BOXES for shape in box(*each)]
    shapes += across(0, "prepare", "end") + down(0, 1, "pretrain") + across(1, "finetune", "start")
    shapes += down(1, 0, "export") + down(1, 1, "convert", is_both_ways=True)
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
<title>text, examples, pretrained model, fine-tuned model, application</title>
<style>
text {{ font: 14px system-ui, sans-serif; text-anchor: middle; fill: #444 }}
.title {{ font-size: 16px; font-weight: 600; fill: #111 }}
.code {{ font: 13px ui-monospace, monospace; fill: #3949ab }}
.after {{ text-anchor: start }}
.before {{ text-anchor: end }}
.box {{ fill: #eef0fa; stroke: #3949ab }}
.line {{ stroke: #3949ab; stroke-width: 1.5; fill: none }}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
 orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#3949ab"/></marker></defs>
<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fff"/>
{chr(10).join(shapes)}
</svg>
"""


if __name__ == "__main__":
    FILE.write_text(drawing(), encoding="utf-8")

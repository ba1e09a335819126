"""Draws docs/overview.svg, the way from text to an application: python docs/overview.py"""

from pathlib import Path

FILE = Path(__file__).with_suffix(".svg")
# Each stage: its title and what it holds; then the command that leads to the next one.
STAGES = (
    ("text", ("txt, jsonl, Parquet,", "TFRecord, tfds:"), "prepare"),
    ("examples", ("sentence order,", "n-gram masks"), "pretrain"),
    ("pretrained model", ("weights, vocabulary,", "learning curve"), "finetune"),
    ("fine-tuned model", ("metrics,", "predictions"), "export"),
    ("application", ("SavedModel, ONNX,", "LiteRT"), ""),
)
FORMATS = "Google's TF1 files · TF-Hub · Hugging Face · KerasHub"
WIDTH, HEIGHT = 960, 226
BOX, GAP, TOP, TALL = 142, 58, 26, 86  # a stage's width, the arrow's length, the stages' place and height


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{words}</text>'


def box(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="box"/>'


def drawing() -> str:
    """The SVG."""
    left = (WIDTH - len(STAGES) * BOX - (len(STAGES) - 1) * GAP) / 2
    shapes = []
    for number, (title, lines, command) in enumerate(STAGES):
        x, middle = left + number * (BOX + GAP), TOP + TALL / 2
        shapes += [box(x, TOP, BOX, TALL), text(x + BOX / 2, TOP + 28, title, "title")]
        shapes += [text(x + BOX / 2, TOP + 50 + 18 * i, line) for i, line in enumerate(lines)]
        if command:
            begin, end = x + BOX + 4, x + BOX + GAP - 4
            shapes.append(f'<path d="M{begin:g} {middle:g}H{end:g}" class="line" marker-end="url(#tip)"/>')
            shapes.append(text(x + BOX + GAP / 2, middle - 22, "albert", "code"))
            shapes.append(text(x + BOX + GAP / 2, middle - 8, command, "code"))
    center, low = WIDTH / 2, TOP + TALL + 48
    shapes += [
        f'<path d="M{center:g} {TOP + TALL + 5}V{low - 5}" class="line" marker-start="url(#tip)" '
        'marker-end="url(#tip)"/>',
        text(center + 62, (TOP + TALL + low) / 2 + 4, "albert convert", "code"),
        box(center - 210, low, 420, 44),
        text(center, low + 27, FORMATS),
    ]
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">
<title>text, examples, pretrained model, fine-tuned model, application</title>
<style>
text {{ font: 12px system-ui, sans-serif; text-anchor: middle; fill: #444 }}
.title {{ font-size: 14px; font-weight: 600; fill: #111 }}
.code {{ font: 11px ui-monospace, monospace; fill: #3949ab }}
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

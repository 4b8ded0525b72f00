"""What the pictures of docs/ are drawn with, and written by: cells, labels and whole SVG files."""
import pathlib
import sys

HUES = (0, 45, 90, 135, 180, 225, 270, 315)


def cell(x, y, width, text, fill, height=20):
    return (f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" fill="{fill}" stroke="#888"/>'
            f'<text x="{x + width / 2:g}" y="{y + height - 6:g}" text-anchor="middle">{text}</text>')


def label(x, y, text, weight="normal"):
    return f'<text x="{x:g}" y="{y:g}" font-weight="{weight}">{text}</text>'


def picture(width, height, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def write(pictures):
    """{file's name: text}, into the folder that the command line gives, or docs."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "docs")
    for name, text in pictures.items():
        (folder / name).write_text(text)

"""The last picture of every notebook, for the gallery."""

import base64
import json
from pathlib import Path


def last_picture(notebook: Path) -> bytes:
    """The last PNG among the outputs of a notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    pictures = [
        output["data"]["image/png"]
        for cell in cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    return base64.b64decode(pictures[-1])


def write_pictures(app):
    folder = Path(app.srcdir) / "_gallery"
    folder.mkdir(exist_ok=True)
    for notebook in sorted((Path(app.srcdir) / "notebooks").glob("*.ipynb")):
        (folder / f"{notebook.stem}.png").write_bytes(last_picture(notebook))


def setup(app):
    app.connect("builder-inited", write_pictures)
    return {"version": "1", "parallel_read_safe": True}

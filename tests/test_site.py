"""The built documentation in a real browser; skipped where it is not built or there is none."""

import os
import re
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

SITE = Path(os.environ.get("PMALA_SITE", Path(__file__).parents[1] / "docs" / "_build" / "html"))
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

pytestmark = [
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the documentation is not built"),
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium or Chrome"),
]

PAGES = [
    "index.html",
    "quickstart.html",
    "how_it_works.html",
    "gallery.html",
    "notebooks/logistic_regression.html",
    "api/index.html",
]


class Server(SimpleHTTPRequestHandler):
    """Serves the site, and keeps what was asked for in vain."""

    missing: ClassVar[list[str]] = []

    def log_message(self, *arguments):
        pass

    def send_error(self, code, message=None, explain=None):
        self.missing.append(self.path)
        super().send_error(code, message, explain)


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def browse(address, tmp_path):
    """Open a page; what the browser made of it, and what it complained of or missed."""

    def browse(page):
        command = [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--enable-logging=stderr", f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=10000", "--dump-dom", f"{address}/{page}",
        ]  # fmt: skip
        Server.missing.clear()
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        errors = re.findall(r"CONSOLE.*(?:Uncaught|Error).*", result.stderr)
        # The one thing that a browser asks for unbidden.
        missing = [path for path in Server.missing if path != "/favicon.ico"]
        return result.stdout, errors + missing

    return browse


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_without_errors(page, browse):
    document, complaints = browse(page)
    assert "pymc-pmala" in document
    assert complaints == []


def test_formulas_are_typeset_without_a_network(browse):
    document, _ = browse("how_it_works.html")
    assert "<mjx-container" in document


def test_the_search_finds_a_page(browse):
    document, complaints = browse("search.html?q=funnel")
    assert re.search(r'<a [^>]*href="[^"]*notebooks/funnel', document)
    assert complaints == []


each_page = pytest.mark.parametrize(
    "page", sorted(SITE.rglob("*.html")), ids=lambda page: page.stem
)


@each_page
def test_every_picture_of_a_page_is_there(page):
    sources = re.findall(r'<img[^>]* src="([^":]+)"', page.read_text(encoding="utf-8"))
    missing = [source for source in sources if not (page.parent / source).exists()]
    assert missing == []


@each_page
def test_no_sentence_has_become_a_list(page):
    """A line that starts with a number and a full stop is read as the item of a list."""
    lists = re.findall(r"<ol.*?</ol>", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [text for text in lists if text.count("<li") < 2] == []

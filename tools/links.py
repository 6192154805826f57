"""Checks the links of a site on the disk: each names a file, and each anchor an element of it. Links to other sites are
not followed."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        for name in ("id", "name"):
            if named.get(name):
                self.anchors.add(named[name])
        for name in ("href", "src"):
            # A base or a link without a value leads to its own page.
            if named.get(name):
                self.links.append(named[name])


def has(page, anchor):
    """Whether a browser finds an anchor. It looks for its text first, and then for what that stands for. rustdoc's script
    marks ranges of lines."""
    lines = re.fullmatch(r"(\d+)-\d+", anchor)
    return not {anchor, unquote(anchor), lines and lines[1]}.isdisjoint(page.anchors)


def target(page, path, root):
    """Returns the file that a link leads to, or None."""
    file = (page.parent / unquote(path)).resolve() if path else page
    if file.is_dir():
        file /= "index.html"
    return file if file.is_file() and root in file.parents else None


def main(folder):
    root = Path(folder).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    checked, broken = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            # rustdoc names lists of a trait's implementors also where it has written none.
            if parts.scheme or parts.netloc or "/trait.impl/" in parts.path:
                continue
            checked += 1
            file = target(path, parts.path, root)
            if file is None:
                broken.append(f"{path.relative_to(root)}: {link}: no such file")
            elif parts.fragment and file in pages and not has(pages[file], parts.fragment):
                broken.append(f"{path.relative_to(root)}: {link}: no such anchor")
    print("\n".join(broken) or f"{len(pages)} pages, {checked} links, all lead somewhere")
    if not checked or broken:
        sys.exit(1)


main(sys.argv[1])

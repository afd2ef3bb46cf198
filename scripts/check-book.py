#!/usr/bin/env python3
"""Follows every link of a built book that stays in it: files, and parts of pages.

Prints what leads nowhere, and fails; or says how many pages and links there are.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Made by mdBook for a page that is not there: its links are those of the root.
SKIPPED = {"404.html", "toc.html"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.parts, self.links = {"", "top"}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.parts.add(found["id"])
        for name in ("href", "src"):
            if found.get(name):
                self.links.append(found[name])


def main():
    root = Path(sys.argv[1]).resolve()
    paths = [path for path in sorted(root.rglob("*.html")) if path.name not in SKIPPED]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    followed, broken = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if file in pages and unquote(parts.fragment) not in pages[file].parts:
                broken.append(f"{path.relative_to(root)}: there is no part {link}")
            elif not file.exists():
                broken.append(f"{path.relative_to(root)}: there is no {link}")
    if broken:
        sys.exit("\n".join(broken))
    print(f"{len(pages)} pages, {followed} links within the book")


main()

#!/usr/bin/env python3
"""Prepares pages for mdBook: a preprocessor, which reads the book as JSON and writes it back.

Pages of docs/ link to files beside docs/, as they have to on a forge. In the book such a
link leads to the repository's page of the file, and a picture is put into the page, for
mdBook copies nothing that stands outside its source.
"""

import base64
import json
import posixpath
import re
import sys
from pathlib import Path

# [text](target), ![text](target), with a part of the page after # if there is one.
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def rewritten(match, page, root, source, repository):
    """Returns the link as the book has it."""
    picture, text, target = match.groups()
    file, _, part = target.partition("#")
    if not file or "://" in file or file.startswith("mailto:"):
        return match.group(0)
    path = posixpath.normpath(posixpath.join(source, posixpath.dirname(page), file))
    inside = path.startswith(source + "/")
    if picture:
        if inside:
            return match.group(0)
        kind = TYPES[posixpath.splitext(path)[1]]
        data = base64.b64encode((root / path).read_bytes()).decode()
        return f"![{text}](data:{kind};base64,{data})"
    if inside and path.endswith(".md"):
        # mdBook has a directory's README.md as its index.
        return re.sub(r"\bREADME\.md\b", "index.md", match.group(0))
    kind = "tree" if (root / path).is_dir() else "blob"
    return f"[{text}]({repository}/{kind}/main/{path}" + (f"#{part})" if part else ")")


def walk(items, change):
    """Calls the function for each chapter that has a file."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("path"):
                change(chapter)
            walk(chapter["sub_items"], change)


def main():
    repository = sys.argv[1]
    if sys.argv[2:3] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    root, source = Path(context["root"]), context["config"]["book"]["src"]

    def change(chapter):
        page = chapter["source_path"]
        fences = chapter["content"].split("```")
        # What stands between fences is code, and stays as it is.
        for index in range(0, len(fences), 2):
            fences[index] = LINK.sub(
                lambda match: rewritten(match, page, root, source, repository), fences[index]
            )
        chapter["content"] = "```".join(fences)

    walk(book.get("items", book.get("sections", [])), change)
    json.dump(book, sys.stdout)


main()

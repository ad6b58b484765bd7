#!/usr/bin/env python3
"""Reports links within a site that lead nowhere: files, and places in them.  usage: links.py SITE"""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        # The page of what is not found begins at the root of a server.
        if tag == "base":
            return
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.places.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def main(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            to = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            place = urllib.parse.unquote(url.fragment)
            if to.is_dir():
                to /= "index.html"
            if not to.exists() or (place and to in pages and place not in pages[to].places):
                broken.append(f"{path.relative_to(site)}: {link}")
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links, {len(broken)} broken")
    print("\n".join(broken))
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

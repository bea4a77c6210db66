#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the prose of the tree: hits per 1000 words of clauses with "what", verbs of speech, "those of" and coined terms, and line width.

    words.py ROOT [--all]      --all prints every group, not only HELD and the sums

A group is README.md, a page of docs/, all td files (summaries, descriptions, options), all texts of --help, or all comments of headers.
Code blocks, code spans, targets of links and headers of tables are left out. Exit status 1 where a group of HELD has more hits than its
bound allows.
"""

import math
import pathlib
import re
import sys

# The groups that are no pages.
CODE = ["td", "--help", "headers"]

# Groups whose bounds hold. A new page joins when it meets them.
HELD = [
    "README.md",
    *(f"docs/howto/{page}.md" for page in "add_op add_pass from_pytorch fuzz save_memory split_model test".split()),
    *(f"docs/{page}.md" for page in (
        "attention benchmarks blocks checkpoints communication convolution cuda data explain faults gpu history kernels layouts machine matrix_products "
        "memory_plan numbers onnx optimizer_parallel overlap overview pipeline plan plan_page plugins recompute runtime search security semantics trace").split()),
    *CODE,
]

# Name -> (hits allowed per 1000 words, pattern).
BOUNDS = {
    "what": (1.5, r"\bwhat\b"),
    "say": (0.5, r"\b(?:say|says|said|tell|tells|told)\b"),
    "those": (0.3, r"\b(?:those|that) of\b|\bthose (?:that|which|who)\b"),
    "coined": (0.0, "|".join([
        r"\bmeetings? of (?:the )?ranks\b", r"\bcomputed again\b", r"\bcomputes? (?:it|them) again\b", r"\bin (?:the|its|their) place of\b",
        r"\bbe it\b", r"\bbut for\b", r"\bahead of\b", r"\bwithout a word\b", r"\bnothing is sent\b", r"\bknows? of\b", r"\bof which\b",
        r"\bas much as\b", r"\b(?:is|are) of\b", r"\bmoves? beside\b", r"\bruns? beside\b", r"\bhands? over\b", r"\bhanding (?:\w+ )+over\b",
        r"\bpric(?:e|es|ed|ing)\b", r"\bdelays? sums?\b", r"\bdelayed sums?\b", r"\bhow far from the best\b", r"\bhalf its time more\b",
        r"\bwrit(?:e|es|ten) down\b", r"\blooks? whether\b"])),
}
# The coined terms are ordinary words, too ("the price of a byte"): comments, which nobody proofreads as a page, may have some.
CODE_BOUNDS = {name: 0.5 if name == "coined" else allowed for name, (allowed, _) in BOUNDS.items()}
WIDTH = 120


def prose_of_page(text):
    """Yields (line number, prose, width) of each line outside code blocks; width without targets of links, 0 in tables."""
    fenced, after_blank, in_code = False, True, False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            continue
        if not line.strip():
            after_blank = True
            continue
        indented = line.startswith("    ")
        if indented and (after_blank or in_code):
            in_code, after_blank = True, False
            continue
        in_code, after_blank = False, line.startswith("#")
        table = line.lstrip().startswith("|")
        if table and number < len(lines) and re.match(r"\s*\|[-| :]+\|\s*$", lines[number]):
            continue
        plain = re.sub(r"\]\([^)]*\)", "]", line)
        yield number, re.sub(r"`[^`]*`|<!--.*?-->|https?://\S+", " ", plain), 0 if table else len(plain)


def strings_of(text, start):
    """The string literals from `start` on that follow one another, as one, and the place behind them."""
    parts, place = [], start
    while True:
        found = re.compile(r'\s*"((?:[^"\\]|\\.)*)"').match(text, place)
        if not found:
            return " ".join(parts), place
        parts.append(found.group(1))
        place = found.end()


def prose_of_td(text):
    """Yields (line number, prose, 0) of summaries, descriptions and options."""
    for found in re.finditer(r"let summary\s*=", text):
        yield text.count("\n", 0, found.end()) + 1, strings_of(text, found.end())[0], 0
    for found in re.finditer(r"let description\s*=\s*\[\{(.*?)\}\]", text, re.S):
        first = text.count("\n", 0, found.start(1)) + 1
        lines = found.group(1).splitlines()
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        for number, prose, _ in prose_of_page("\n".join(line[margin:] for line in lines)):
            yield first + number - 1, prose, 0
    for found in re.finditer(r'\bOption<"\w+",\s*"[\w-]+",\s*"[^"]*",\s*(?:/\*.*?\*/)?\s*"[^"]*",', text):
        yield text.count("\n", 0, found.end()) + 1, strings_of(text, found.end())[0], 0


def prose_of_header(text):
    """Yields (line number, prose, 0) of comments."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.search(r"(?:^|\s)//+!?<?\s?(.*)", line)
        if found and "SPDX" not in line:
            yield number, re.sub(r"`[^`]*`|https?://\S+", " ", found.group(1)), 0


def prose_of_help(text):
    """Yields (line number, prose, 0) of the texts with a space in calls that declare options, flags and subcommands."""
    for found in re.finditer(r"\b(?:add\w*|description|desc|App app)\(", text):
        place, depth, strings = found.end(), 1, []
        while depth and place < len(text):
            literal = re.compile(r'"((?:[^"\\]|\\.)*)"').match(text, place)
            if literal:
                strings.append((literal.start(), literal.group(1)))
                place = literal.end()
                continue
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            place += 1
        for start, prose in strings:
            # A call within a call has its strings once, at the inner one.
            if " " in prose and not re.search(r"\b(?:add\w*|description|desc)\(", text[found.end():start]):
                yield text.count("\n", 0, start) + 1, prose, 0


class Group:
    def __init__(self, name):
        self.bounds = CODE_BOUNDS if name in CODE else {bound: allowed for bound, (allowed, _) in BOUNDS.items()}
        self.name, self.words, self.wide, self.hits, self.lines = name, 0, [], {name: 0 for name in BOUNDS}, []

    def add(self, path, prose):
        for number, text, width in prose:
            self.words += len(re.findall(r"[A-Za-z][\w'-]*", text))
            found = [hit for bound, (_, pattern) in BOUNDS.items() for hit in re.findall(pattern, text, re.I)]
            for bound, (_, pattern) in BOUNDS.items():
                self.hits[bound] += len(re.findall(pattern, text, re.I))
            if found:
                self.lines.append((len(found), f"{path}:{number}", ", ".join(hit.lower() for hit in found)))
            if width > WIDTH:
                self.wide.append(f"{path}:{number}")

    def density(self, bound):
        return 1000 * self.hits[bound] / max(self.words, 1)

    def faults(self):
        """The bounds that are exceeded. Hits are whole, so of a short page the allowed number is rounded up."""
        found = [f"{self.hits[bound]} hits of \"{bound}\" in {self.words} words, at most {math.ceil(allowed * self.words / 1000)} are allowed"
                 for bound, allowed in self.bounds.items() if self.hits[bound] > math.ceil(allowed * self.words / 1000)]
        return found + [f"{place}: longer than {WIDTH} characters" for place in self.wide]

    def row(self):
        return f"{self.name:<34} {self.words:>6} " + "".join(f"{self.density(bound):>8.2f}" for bound in BOUNDS) + f"{len(self.wide):>6}"


def main():
    root = pathlib.Path(sys.argv[1])
    groups = []

    def read(name, paths, prose_of):
        groups.append(Group(name))
        for path in paths:
            groups[-1].add(path.relative_to(root).as_posix(), prose_of(path.read_text()))

    pages = [root / "README.md"] + sorted(page for page in (root / "docs").rglob("*.md") if root / "docs/reference" not in page.parents)
    for page in pages:
        read(page.relative_to(root).as_posix(), [page], prose_of_page)
    numPages = len(groups)

    def files(suffix):
        folders = ("compiler", "dialects", "passes", "runtime", "test", "tools")
        return [path for folder in folders for path in sorted((root / folder).rglob("*" + suffix))]

    read("td", files(".td"), prose_of_td)
    read("--help", [path for path in files(".cpp") if re.search(r"\badd_option\(|\bcl::desc\(", path.read_text())], prose_of_help)
    read("headers", files(".h"), prose_of_header)

    def sum_of(name, members):
        total = Group(name)
        for each in members:
            total.words += each.words
            total.wide += each.wide
            total.hits = {bound: total.hits[bound] + each.hits[bound] for bound in BOUNDS}
        return total

    missing = set(HELD) - {each.name for each in groups}
    held = [each for each in groups if each.name in HELD]
    others = [each for each in groups[:numPages] if each.name not in HELD]
    print(f"{'hits per 1000 words':<34} {'words':>6} " + "".join(f"{bound:>8}" for bound in BOUNDS) + f"{'wide':>6}")
    print(f"{'bound':<41} " + "".join(f"{allowed:>8.2f}" for allowed, _ in BOUNDS.values()) + f"{0:>6}")
    for each in (groups[:numPages] if "--all" in sys.argv else [each for each in held if each.name not in CODE]):
        print(each.row())
    for each in [sum_of("all pages that are held", [each for each in held if each.name not in CODE]), sum_of("all other pages", others)]:
        print(each.row())
    print(f"{'bound':<41} " + "".join(f"{allowed:>8.2f}" for allowed in CODE_BOUNDS.values()) + f"{0:>6}")
    for each in groups[numPages:]:
        print(each.row())

    faulty = [each for each in held if each.faults()]
    worst = sorted((line for each in faulty or groups for line in each.lines), key=lambda line: -line[0])[:10]
    print("\nworst lines" + (" of held groups above a bound" if faulty else "") + ":")
    for count, place, found in worst:
        print(f"  {place}: {found}")
    for each in faulty:
        for fault in each.faults():
            print(f"error: {each.name}: {fault}")
    for name in sorted(missing):
        print(f"error: {name} is held, but there is no such group")
    return 1 if faulty or missing else 0


if __name__ == "__main__":
    sys.exit(main())

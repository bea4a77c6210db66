#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Applies the patches of test/mutations, one at a time or many at once; for tools/mutate.sh.

    mutants.py apply ORIGINALS PATCH       writes the source with the patch
    mutants.py file PATCH                  prints the source that a patch changes
    mutants.py join ORIGINALS PATCH...     writes all sources with all patches that can be joined, prints a line "ID<tab>PATCH" for each
    mutants.py blame ORIGINALS LOG         prints the joined patches whose code the errors in the log of a build name

A joined function holds its body once for each patch, and as it was:

    int half(int x) { if (ashlarMutant() == 0x1b2f7a90u) {
      return x / 3;
    } else {
      return x / 2;
    }}

The environment variable ASHLAR_MUTANT selects the ID of a patch, a hash of its file's name; without it nothing is broken. Only code inside
functions can be joined; constants, members, declarations and constexpr functions are patched one by one. An `if` of whole bodies, unlike `?:` of
expressions, needs no equal types and takes statements and constructors too. ORIGINALS holds the sources before they were joined. Sources are
relative to the current directory."""

import collections
import os
import pathlib
import re
import sys
import zlib

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/            # comments
    |^[ \t]*\#(?:\\\n|[^\n])*                        # preprocessor
    |R"(?P<end>[^(\n]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
    |\d(?:'?[\w.])*|[A-Za-z_]\w*|::|->|[^\s\w]""", re.S | re.M | re.X)
LINES_OF_A_MUTANT = 100000  # the n-th joined mutant of a file has its lines from n times that on, so that errors name it
Body = collections.namedtuple("Body", "name begin end is_constexpr")
HEADER = """#pragma once
#pragma clang diagnostic ignored "-Weverything"
#include <cstdlib>
inline unsigned ashlarMutant() {
  static const unsigned id = [] {
    const char *text = std::getenv("ASHLAR_MUTANT");
    return text ? static_cast<unsigned>(std::strtoul(text, nullptr, 16)) : 0u;
  }();
  return id;
}
"""


class Mutation:
    """A patch of one place in one file: its lines with context, as they are and as they should be."""

    def __init__(self, path):
        self.path = path
        self.id = zlib.crc32(pathlib.Path(path).name.encode())
        text = pathlib.Path(path).read_text()
        place = re.search(r"^# in: (\S+)(?: (\S+))?\n()|^--- .*\n\+\+\+ b/(\S+)\n@@ -(\d+).*@@.*\n", text, re.M)
        if not place or re.search("^@@ ", text[place.end():], re.M):
            raise ValueError("is not of one place in one file")
        self.file, self.function = place[1] or place[4], place[2]
        self.line = int(place[5]) if place[5] else None
        # Each line is its kind, " ", "-" or "+", and its text.
        self.lines = [(line[:1] or " ", line[1:]) for line in text[place.end():].splitlines()]
        changed = [i for i, (kind, _) in enumerate(self.lines) if kind in "-+"]
        if not changed:
            raise ValueError("changes nothing")
        self.first, self.last = changed[0], changed[-1]

    def place(self, text):
        """Returns the first and last offset of what changes in a text, and the change. The indentation does not matter. Context that has
        changed itself is left out, the outermost lines first, as long as the place is the only one that fits."""
        most = max(self.first, len(self.lines) - 1 - self.last)
        ranges = [(0, len(text))]
        if self.function:  # the lines of the bodies
            ranges = [(text.rfind("\n", 0, b.begin) + 1, text.find("\n", b.end) + 1) for b in function_bodies(text) if b.name == self.function]
        for context in range(most, -1, -1):
            part = self.lines[max(0, self.first - context):self.last + 1 + context]
            old = [line.strip() for kind, line in part if kind != "+"]
            if not old:
                continue
            found = [m for m in re.finditer("".join(rf"(?:^[ \t]*{re.escape(line)}[ \t]*\n)" for line in old), text, re.M)
                     if any(begin <= m.start() and m.end() <= end for begin, end in ranges)]
            if len(found) > 1 and context == most and self.line:
                found = [min(found, key=lambda m: abs(text.count("\n", 0, m.start()) + 1 - self.line))]
            if len(found) == 1:
                old, new = found[0].group(), changed_lines(part, found[0].group().splitlines(keepends=True))
                same = len(os.path.commonprefix([old, new]))
                tail = len(os.path.commonprefix([old[same:][::-1], new[same:][::-1]]))
                return found[0].start() + same, found[0].end() - tail, new[same:len(new) - tail]
            if len(found) > 1:
                raise ValueError("fits several places")
        raise ValueError("no longer applies")


def indentation(line):
    return len(line) - len(line.lstrip(" "))


def changed_lines(part, lines):
    """Returns the new text of lines of a source to which part of a patch applies, indented as they are."""
    old = [line for kind, line in part if kind != "+"]
    at = min(next(i for i, (kind, _) in enumerate(part) if kind != " "), len(old) - 1)  # the line at the change
    shift = indentation(lines[at]) - indentation(old[at])
    text, rest = "", iter(lines)
    for kind, line in part:
        if kind == "+":
            text += " " * max(0, indentation(line) + shift) + line.lstrip(" ") + "\n"
        else:
            kept = next(rest)
            text += kept if kind == " " else ""
    return text


def head_kind(head):
    """Returns the kind of the brace behind a declaration of these tokens: "scope", "function", "constant" (a constexpr function), "value"."""
    words, depth, angle, prefix = [], 0, 0, False
    for i, token in enumerate(head):  # without template parameters and what is in parentheses
        if token == "template" and head[i + 1:i + 2] == ["<"]:
            prefix = True
        elif prefix:
            angle += (token == "<") - (token == ">")
            prefix = angle > 0
        elif token in "()":
            depth += 1 if token == "(" else -1
            words.append(token)
        elif depth == 0:
            words.append(token)
    if "namespace" in words or words[:1] == ["extern"] and len(words) == 2:
        return "scope"
    if "enum" in words:
        return "value"
    if any(key in words and "(" not in words[words.index(key):] for key in ("class", "struct", "union")):
        return "scope"
    if "operator" in words:
        at = words.index("operator") + 1
        words[at:] = words[words.index("(", at + 1):]
    if ")" not in words or "=" in words:
        return "value"
    rest = words[words.index(")"):]
    if ":" in rest and words[-1] not in (")", "}"):  # a member of a constructor's list
        return "value"
    return "constant" if "constexpr" in words else "function"


def name_of(head):
    """Returns the name of a function as its definition has it, "CudaMessages::create"."""
    depth = angle = 0
    for i, token in enumerate(head):
        if token == "(" and depth == 0 and angle <= 0 and i > 0 and head[i - 1] not in ("__attribute__", "alignas", "decltype"):
            begin = max(at for at in range(i) if head[at] == "operator") if "operator" in head[:i] else i - 1
            while head[begin - 1:begin] == ["~"] or begin > 1 and head[begin - 1] == "::" and head[begin - 2].isidentifier():
                begin -= 1 if head[begin - 1] == "~" else 2
            return "".join(head[begin:i])
        depth += (token == "(") - (token == ")")
        angle += (token == "<") - (token == ">")
    return ""


def function_bodies(text):
    """Returns the name of each function, the offsets behind the opening and at the closing brace of its body, and whether it is constexpr."""
    tokens = [m for m in TOKEN.finditer(text) if not re.match(r"//|/\*|\s*#", m.group())]
    bodies, head, i = [], [], 0
    while i < len(tokens):
        token = tokens[i].group()
        if token == "{":
            kind = head_kind(head)
            if kind == "scope":
                head = []
            else:
                name, begin, depth = name_of(head), tokens[i].end(), 1
                while depth > 0 and i + 1 < len(tokens):
                    i += 1
                    depth += (tokens[i].group() == "{") - (tokens[i].group() == "}")
                if kind == "value":
                    head.append("}")
                else:
                    head = []
                    bodies.append(Body(name, begin, tokens[i].start(), kind == "constant"))
        elif token in ("}", ";"):
            head = []
        elif token == ":" and head[-1:] in (["public"], ["private"], ["protected"]):
            head = []
        else:
            head.append(token)
        i += 1
    return bodies


def is_balanced(text):
    depth = 0
    for match in TOKEN.finditer(text):
        depth += (match.group() == "{") - (match.group() == "}")
        if depth < 0:
            return False
    return depth == 0


def original(originals, file):
    """Returns the text of a source before it was joined."""
    kept = pathlib.Path(originals, file)
    return (kept if kept.exists() else pathlib.Path(file)).read_text()


def joined_text(text, mutants, header):
    """Returns a text in which each of the mutants, (number, id, place) of one file, can be selected; and the numbers of those."""
    bodies, chosen = {}, []
    for number, mutant, (begin, end, change) in mutants:
        for _, first, last, is_constexpr in function_bodies(text):
            if is_constexpr or begin < first or end > last:
                continue
            body = text[first:begin] + change + text[end:last]
            if is_balanced(body):
                bodies.setdefault((first, last), []).append((number, mutant, body))
                chosen.append(number)
    for (first, last), variants in sorted(bodies.items(), reverse=True):
        line = text.count("\n", 0, first) + 1
        code = ""
        for number, mutant, body in variants:
            code += f" if (ashlarMutant() == {mutant:#010x}u) {{\n#line {number * LINES_OF_A_MUTANT + line}\n{body}\n}} else"
        text = f"{text[:first]}{code} {{\n#line {line}\n{text[first:last]}}}{text[last:]}"
    return f'#include "{header}"\n#line 1\n{text}', chosen


def joined_numbers(originals):
    """Returns the patch of each source and number of the last join."""
    file = pathlib.Path(originals, "numbers.tsv")
    lines = [line.split("\t") for line in file.read_text().splitlines()] if file.exists() else []
    return {(source, int(number)): path for source, number, path in lines}


def join(originals, paths):
    sources = {}  # the patches and places of each
    for path in paths:
        try:
            mutation = Mutation(path)
            text = original(originals, mutation.file)
            if pathlib.Path(mutation.file).suffix in (".cpp", ".h"):
                sources.setdefault(mutation.file, []).append((mutation, mutation.place(text)))
        except (OSError, ValueError):
            pass  # mutate.sh reports it when its turn comes
    header = pathlib.Path(originals, "mutant.h").resolve()
    header.parent.mkdir(parents=True, exist_ok=True)
    if not header.exists():
        header.write_text(HEADER)
    numbers = []
    for file in sorted(set(sources) | {file for file, _ in joined_numbers(originals)}):
        text = original(originals, file)
        mutants = sorted(sources.get(file, []), key=lambda mutant: pathlib.Path(mutant[0].path).name)
        joined, chosen = joined_text(text, [(n, m.id, place) for n, (m, place) in enumerate(mutants, 1)], header)
        kept = pathlib.Path(originals, file)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
        joined = joined if chosen else text
        if pathlib.Path(file).read_text() != joined:
            pathlib.Path(file).write_text(joined)
        for number in chosen:
            mutation = mutants[number - 1][0]
            numbers.append(f"{file}\t{number}\t{mutation.path}\n")
            print(f"{mutation.id:#010x}\t{mutation.path}")
    pathlib.Path(originals, "numbers.tsv").write_text("".join(numbers))


def blame(originals, log):
    numbers, blamed = joined_numbers(originals), set()
    for file, line in re.findall(r"([\w./-]+):(\d+):\d+: (?:fatal )?(?:error|note):", pathlib.Path(log).read_text(errors="replace")):
        for (source, number), path in numbers.items():
            if number == int(line) // LINES_OF_A_MUTANT and file.endswith("/" + source):
                blamed.add(path)
    print("".join(f"{path}\n" for path in sorted(blamed)), end="")


def apply(originals, path):
    mutation = Mutation(path)
    text = original(originals, mutation.file)
    begin, end, change = mutation.place(text)
    pathlib.Path(mutation.file).write_text(text[:begin] + change + text[end:])


def main(action, *arguments):
    try:
        if action == "file":
            print(Mutation(arguments[0]).file)
        elif action == "join":
            join(arguments[0], arguments[1:])
        else:
            {"apply": apply, "blame": blame}[action](*arguments)
    except (OSError, ValueError) as fault:
        sys.exit(f"error: {fault}")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Applies the patches of test/mutations, one at a time or many at once; for tools/mutate.sh.

    mutants.py apply ORIGINALS PATCH       writes the source with the patch
    mutants.py join ORIGINALS PATCH...     writes all sources with all patches that can be joined, prints a line "ID<tab>PATCH" for each
    mutants.py blame ORIGINALS LOG         prints the joined patches whose code the errors in the log of a build name

A joined function holds its body once for each patch, and as it was:

    int half(int x) { if (ashlarMutant() == 0x1b2f7a90u) {
      return x / 3;
    } else {
      return x / 2;
    }}

The environment variable ASHLAR_MUTANT selects the ID of a patch, a hash of its file's name; without it nothing is broken. Only code inside
functions can be joined; constants, members, declarations and constexpr functions are patched one by one. ORIGINALS holds the sources before they
were joined. Sources are relative to the current directory."""

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
        text = pathlib.Path(path).read_text()
        self.id = zlib.crc32(pathlib.Path(path).name.encode())
        files = re.findall(r"^\+\+\+ b/(\S+)$", text, re.M)
        hunks = re.findall(r"^@@ -(\d+).*@@.*\n((?:[-+ ].*\n|\n)+)", text, re.M)
        if len(files) != 1 or len(hunks) != 1:
            raise ValueError("is not one hunk of one file")
        self.file = files[0]
        self.line = int(hunks[0][0])
        # Each line is its kind, " ", "-" or "+", and its text.
        self.lines = [(line[:1] or " ", line[1:]) for line in hunks[0][1].splitlines()]
        while self.lines[-1] == (" ", ""):  # the end of a file
            self.lines.pop()

    def place(self, text):
        """Returns the first and last offset of what changes in a text, and the change. Context that has changed itself is left out,
        the outermost lines first, as long as the place is the only one that fits."""
        changed = [i for i, (kind, _) in enumerate(self.lines) if kind != " "]
        before, after = changed[0], len(self.lines) - 1 - changed[-1]
        for context in range(max(before, after), -1, -1):
            part = self.lines[max(0, before - context):len(self.lines) - max(0, after - context)]
            old = "".join(f"{line}\n" for kind, line in part if kind != "+")
            new = "".join(f"{line}\n" for kind, line in part if kind != "-")
            found = [m.start() for m in re.finditer("^" + re.escape(old), text, re.M)] if old else []
            if len(found) > 1 and context == max(before, after):
                found = [min(found, key=lambda at: abs(text.count("\n", 0, at) + 1 - self.line))]
            if len(found) == 1:
                begin, end = found[0], found[0] + len(old)
                same = len(os.path.commonprefix([old, new]))
                tail = len(os.path.commonprefix([old[same:][::-1], new[same:][::-1]]))
                return begin + same, end - tail, new[same:len(new) - tail]
        raise ValueError("no longer applies")


def head_kind(head):
    """Returns what a brace opens whose declaration has these tokens: "scope", "function", "constant" (a constexpr function) or "value"."""
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


def function_bodies(text):
    """Returns the offsets behind the opening and at the closing brace of each function's body that is not constexpr."""
    tokens = [m for m in TOKEN.finditer(text) if not re.match(r"//|/\*|\s*#", m.group())]
    bodies, head, scopes, i = [], [], 0, 0
    while i < len(tokens):
        token = tokens[i].group()
        if token == "{":
            kind = head_kind(head)
            if kind == "scope":
                scopes += 1
                head = []
            else:
                begin, depth = tokens[i].end(), 1
                while depth > 0 and i + 1 < len(tokens):
                    i += 1
                    depth += (tokens[i].group() == "{") - (tokens[i].group() == "}")
                if kind == "value":
                    head.append("}")
                else:
                    head = []
                    if kind == "function":
                        bodies.append((begin, tokens[i].start()))
        elif token == "}":
            head = []
        elif token == ";":
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
        for first, last in function_bodies(text):
            if first <= begin and end <= last and is_balanced(body := text[first:begin] + change + text[end:last]):
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
    sources = {}
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
    blamed = set()
    for file, line in re.findall(r"([\w./-]+):(\d+):\d+: (?:fatal )?(?:error|note):", pathlib.Path(log).read_text(errors="replace")):
        for (source, number), path in joined_numbers(originals).items():
            if number == int(line) // LINES_OF_A_MUTANT and file.endswith("/" + source):
                blamed.add(path)
    print("".join(f"{path}\n" for path in sorted(blamed)), end="")


def apply(originals, path):
    mutation = Mutation(path)
    text = original(originals, mutation.file)
    begin, end, change = mutation.place(text)
    pathlib.Path(mutation.file).write_text(text[:begin] + change + text[end:])


def main(action, originals, *arguments):
    try:
        if action == "join":
            join(originals, arguments)
        else:
            {"apply": apply, "blame": blame}[action](originals, arguments[0])
    except (OSError, ValueError) as fault:
        sys.exit(f"error: {fault}")


if __name__ == "__main__":
    main(*sys.argv[1:])

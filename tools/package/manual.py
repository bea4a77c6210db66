#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes manual pages, and completions for bash and zsh, from what the programs print for --help:
#   manual.py VERSION BIN OUT      OUT/share/man/man1/NAME.1, OUT/share/bash-completion/completions/NAME, OUT/share/zsh/site-functions/_NAME
import re
import subprocess
import sys
from pathlib import Path

PROGRAMS = ["ashlarc", "ashlar-ckpt", "ashlar-data", "ashlar-sim", "ashlar-zoo"]
SEE_ALSO = "The documentation is in share/ashlar/docs of the installation."


class Command:
    """What --help prints: a summary, options [(names, value, text)] and subcommands [(name, text)]."""

    def __init__(self, text):
        lines = text.splitlines()
        usage = next(i for i, line in enumerate(lines) if line.startswith("Usage:"))
        self.summary = " ".join(line.strip() for line in lines[:usage] if line.strip())
        self.usage = lines[usage].removeprefix("Usage:").strip()
        self.positionals, self.options, self.commands = [], [], []
        part = None
        for line in lines[usage + 1:]:
            if line and not line.startswith(" "):
                part = {"Positionals": self.positionals, "Options": self.options, "Subcommands": self.commands}.get(line.split(":")[0])
            elif line.startswith("  ") and not line.startswith("   "):
                name, _, text = line.strip().partition("  ")
                part.append([name.strip().replace("{false}", ""), text.strip()])
            elif line.strip():
                part[-1][1] = f"{part[-1][1]} {line.strip()}".strip()

    def names(self):
        """Returns [(name, takes a value, text)] of all options, long and short names alike."""
        found = []
        for head, text in self.options:
            names, _, value = head.partition(" ")
            value = re.sub(r"(Excludes|Needs): .*", "", value).strip()
            found += [(name, bool(value), text) for name in re.split(r",\s*", names)]
        return found


def choices(text):
    """Returns the words of "form to stop at: nn, dist or exe", or []."""
    found = re.search(r": ((?:[\w-]+, )*[\w-]+ or [\w-]+)$", text)
    return re.split(r", | or ", found[1]) if found else []


def read_help(program, *command):
    run = subprocess.run([program, *command, "--help"], check=True, capture_output=True, text=True)
    return Command(run.stdout)


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def manual_page(name, version, command, subcommands):
    out = [f'.TH {name.upper()} 1 "" "Ashlar {version}"', ".SH NAME", f"{roff(name)} \\- {roff(command.summary[:1].lower() + command.summary[1:].rstrip('.'))}",
           ".SH SYNOPSIS", f".B {roff(command.usage)}"]

    def add(title, rows):
        if rows:
            out.append(f".SH {title}")
            for head, text in rows:
                out.extend([".TP", f".B {roff(head)}", roff(text)])

    add("ARGUMENTS", command.positionals)
    add("OPTIONS", command.options)
    add("COMMANDS", command.commands)
    for title, sub in subcommands.items():
        add(f"OPTIONS OF {title.upper()}", sub.positionals + sub.options)
    out.extend([".SH EXIT STATUS", "0 when all went well; otherwise one line that begins with \"error:\" goes to standard error.",
                ".SH SEE ALSO", roff(SEE_ALSO)])
    return "\n".join(out) + "\n"


def bash_completion(name, command, subcommands):
    function = "_" + name.replace("-", "_")
    words = " ".join([*(n for n, _, _ in command.names()), *(n for n, _ in command.commands)])
    cases = "\n".join(f'      {sub}) words="{" ".join(n for n, _, _ in c.names())}" ;;' for sub, c in subcommands.items())
    valued = {n: choices(text) for c in [command, *subcommands.values()] for n, has_value, text in c.names() if has_value}
    files = "|".join(sorted(n for n, words in valued.items() if not words))
    chosen = "\n".join(f'    {n}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word")); return ;;' for n, words in sorted(valued.items()) if words)
    return f"""# bash completion of {name}; made from its --help
{function}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words="{words}" each
  for each in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case $each in
{cases or "      -) ;;"}
    esac
  done
  case $before in
{chosen or "    -) ;;"}
    {files or "-"}) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "{" ".join(n for n, _ in command.commands)}" -- "$word") $(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F {function} {name}
"""


def zsh_completion(name, command, subcommands):
    def quote(text):
        return re.sub(r"([\[\]:\\'])", lambda m: "'\\''" if m[1] == "'" else "\\" + m[1], text)

    def arguments(c):
        values = {n: f":value:({' '.join(choices(text))})" if choices(text) else ":value:_files" for n, has_value, text in c.names() if has_value}
        rows = [f"'{n}[{quote(text)}]{values.get(n, '')}'" for n, _, text in c.names()]
        return " \\\n    ".join([*rows, "'*:file:_files'"])

    cases = "".join(f"  {sub})\n    _arguments \\\n    {arguments(c)}\n    return ;;\n" for sub, c in subcommands.items())
    return f"""#compdef {name}
# made from the --help of {name}
for word in ${{words[2,CURRENT-1]}}; do
  case $word in
{cases or "  -) ;;" + chr(10)}  esac
done
_arguments \\
    {arguments(command)}
"""


def main():
    version, programs, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    for name in PROGRAMS:
        command = read_help(programs / name)
        subcommands = {sub: read_help(programs / name, sub) for sub, _ in command.commands}
        for path, text in ((f"man/man1/{name}.1", manual_page(name, version, command, subcommands)),
                           (f"bash-completion/completions/{name}", bash_completion(name, command, subcommands)),
                           (f"zsh/site-functions/_{name}", zsh_completion(name, command, subcommands))):
            file = out / "share" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    (out / "done").touch()


main()

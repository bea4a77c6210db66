# SPDX-License-Identifier: Apache-2.0
"""Plays back what a run did to its checkpoints, cut off behind each operation: power_cut.py LOG FOLDER WHOLE [--broken]

LOG is that of record_files.cpp, of a run that wrote FOLDER; WHOLE holds a copy of each checkpoint that the run completed. Two things may be on
disk when the power goes: all that was done before; or nothing that was not synced, neither bytes of files nor names. In both, once the first
checkpoint was complete, there has to be one, and what has the name of a checkpoint has to be whole. A removal is taken as one step: what it
removes lost its name before. --broken leaves out all syncs, to see that the check can fail.
"""

import os
import pathlib
import re
import sys


class Tree:
    """Folders and files by path. A file is [bytes], shared by the names that it has."""

    def __init__(self, files=None, folders=None):
        self.files, self.folders = dict(files or {}), set(folders or ())

    def move(self, source, target):
        for path in [path for path in self.files if path == source or path.startswith(source + "/")]:
            self.files[target + path[len(source):]] = self.files.pop(path)
        for path in [path for path in self.folders if path == source or path.startswith(source + "/")]:
            self.folders.remove(path)
            self.folders.add(target + path[len(source):])

    def apply(self, kind, paths):
        if kind == "create":
            self.files[paths[0]] = [b""]
        elif kind == "mkdir":
            self.folders.add(paths[0])
        elif kind == "rename":
            self.move(*paths)
        elif kind == "exchange":
            self.move(paths[0], paths[0] + "\0")
            self.move(paths[1], paths[0])
            self.move(paths[0] + "\0", paths[1])


def checkpoints(tree, folder):
    """Returns the files of each folder with the name of a checkpoint, by name."""
    found = {}
    for path in tree.folders:
        if re.fullmatch(re.escape(folder) + r"/[^./][^/]*-\d+_\d+", path):
            found[os.path.basename(path)] = {file[len(path) + 1:]: content[0] for file, content in tree.files.items() if file.startswith(path + "/")}
    return found


def main():
    log, folder, whole = sys.argv[1:4]
    data = pathlib.Path(log + ".data").read_bytes()
    expected = [{file.name: file.read_bytes() for file in sorted(one.iterdir())} for one in sorted(pathlib.Path(whole).iterdir())]
    done, kept = Tree(folders={folder}), Tree(folders={folder})
    synced = {}  # id of a file -> bytes that are on disk
    waiting = []  # operations on names that are not on disk
    cuts, complete = 0, False
    for line in pathlib.Path(log).read_text().splitlines():
        kind, *paths = line.split(" ")
        if kind == "write":
            done.files[paths[0]][0] += data[int(paths[1]):int(paths[1]) + int(paths[2])]
        elif kind == "sync" and "--broken" not in sys.argv:
            if paths[0] in done.files:
                synced[id(done.files[paths[0]])] = done.files[paths[0]][0]
            # The sync of a folder makes the names in it last; a file system keeps the order of what was done to names.
            if paths[0] in done.folders:
                kept = Tree(done.files, done.folders)
        elif kind != "sync":
            done.apply(kind, paths)
        lost = Tree({path: [synced.get(id(content), b"")] for path, content in kept.files.items()}, kept.folders)
        for state, tree in (("all that was done", done), ("only what was synced", lost)):
            found = checkpoints(tree, folder)
            complete = complete or (state == "only what was synced" and bool(found))
            bad = [name for name, files in found.items() if files not in expected]
            if bad or (complete and not found):
                sys.exit(f"behind \"{line}\", with {state} on disk: {'no checkpoint' if not bad else bad[0] + ' is not whole'}")
        cuts += 1
    if not complete:
        sys.exit("no checkpoint was ever complete")
    print(f"{cuts} cuts, {len(expected)} checkpoints")


main()

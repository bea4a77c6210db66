# SPDX-License-Identifier: Apache-2.0
"""What the parts found: results.json and table.md, written anew after every part, and the logs as one archive."""

import io
import json
import pathlib
import tarfile
import threading
import time

OUTCOMES = ("passed", "measured", "FAILED", "skipped", "not run")
PRINTED = 11500  # characters of the table: some places keep only the last 12,000 of the output
LOG_CAPS = (1 << 18, 1 << 16, 1 << 14, 1 << 12)  # bytes kept of a log, the first that makes the archive small enough
ARCHIVE_BYTES = 700 << 10


class Row:
    """One line of the table. `value` is the figure of an outcome "measured"."""

    def __init__(self, kind, name, outcome, detail="", value=None, seconds=None):
        assert outcome in OUTCOMES
        self.kind, self.name, self.outcome, self.detail, self.value, self.seconds = kind, name, outcome, detail, value, seconds

    def cells(self, most):
        detail = " ".join(self.detail.replace("|", "/").split())
        if len(detail) > most:
            detail = detail[:most - 4] + " ..."
        value = "" if self.value is None else f"{self.value:.4g}" if abs(self.value) < 1e4 else f"{self.value:.0f}"
        seconds = "" if self.seconds is None else f"{self.seconds:.1f}"
        return f"| {self.kind} | {self.name} | {self.outcome} | {value} | {seconds} | {detail} |"


def write_whole(path, data):
    """Replaces a file at once: it is never half written, whenever the runner is killed."""
    part = path.with_name(f".{path.name}")
    part.write_bytes(data if isinstance(data, bytes) else data.encode())
    part.replace(path)


def middle_cut(data, most):
    """The begin and the end of a log that is longer."""
    if len(data) <= most:
        return data
    half = most // 2
    return data[:half] + f"\n... {len(data) - most} bytes left out ...\n".encode() + data[-half:]


def logs_archive(folder, most):
    """The logs as bytes of a .tgz, each cut to `most` bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.glob("*")):
            data = middle_cut(path.read_bytes(), most)
            info = tarfile.TarInfo(f"logs/{path.name}")
            info.size, info.mtime = len(data), int(path.stat().st_mtime)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class Results:
    """Thread-safe. `facts` are the version, device and so on that head both files; `pending` the parts that were not reached yet."""

    def __init__(self, out, logs, pending):
        self.out, self.logs = pathlib.Path(out), pathlib.Path(logs)
        self.lock = threading.Lock()
        self.rows, self.facts, self.pending, self.finished = [], {}, pending, False
        self.begin = time.monotonic()

    def add(self, rows, part=None):
        """Adds the rows of a part, and writes."""
        with self.lock:
            self.rows += rows
            if part in self.pending:
                self.pending.remove(part)
            self.write()

    def leave_out(self, reason):
        """Records all pending parts as not run, and writes."""
        with self.lock:
            self.rows += [Row("part", name, "not run", reason) for name in self.pending]
            self.pending = []
            self.write()

    def counts(self):
        return {outcome: sum(row.outcome == outcome for row in self.rows) for outcome in OUTCOMES}

    def summary(self):
        return ", ".join(f"{count} {outcome.lower()}" for outcome, count in self.counts().items()) + f"; {time.monotonic() - self.begin:.0f} s"

    def table(self, most=200):
        head = [", ".join(f"{value}" for value in self.facts.values()), "", "| | what | outcome | value | s | |", "|---|---|---|---|---|---|"]
        tail = ["", self.summary()] + ([f"not reached yet: {', '.join(self.pending)}"] if self.pending else [])
        return "\n".join(head + [row.cells(most) for row in self.rows] + tail) + "\n"

    def printed(self):
        """The table with details short enough for the whole of it to be kept, and without its begin where that is not enough."""
        for most in (200, 120, 80, 40, 10):
            text = self.table(most)
            if len(text) <= PRINTED:
                return text
        return text[-PRINTED:]

    def write(self):
        self.out.mkdir(parents=True, exist_ok=True)
        fields = ("kind", "name", "outcome", "value", "seconds", "detail")
        everything = {**self.facts, "finished": self.finished, "pending": self.pending, "counts": self.counts(),
                      "results": [{field: getattr(row, field) for field in fields} for row in self.rows]}
        write_whole(self.out / "table.md", self.table())
        write_whole(self.out / "results.json", json.dumps(everything, indent=1) + "\n")  # last: who finds a part there finds it everywhere

    def write_logs(self):
        for most in LOG_CAPS:
            data = logs_archive(self.logs, most)
            if len(data) <= ARCHIVE_BYTES:
                break
        write_whole(self.out / "logs.tgz", data)

    def finish(self):
        """Writes all for the last time."""
        self.finished = True
        self.write_logs()
        self.add([])

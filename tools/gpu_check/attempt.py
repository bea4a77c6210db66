# SPDX-License-Identifier: Apache-2.0
"""One run of a part: its limit, its processes, and how their ends become outcomes."""

import itertools
import os
import pathlib
import threading
import time
from dataclasses import dataclass, field

from processes import Processes
from results import Results

SKIPPED = 77  # the exit status of a program that says why it cannot run here
JOBS = itertools.count(1)
# For two ranks on one device: NCCL takes them for two hosts, and connects them over the loopback interface alone, whatever other interfaces,
# adapters or plugins the machine has.
SHARED_DEVICE = {
    "ASHLAR_SHARE_DEVICE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo", "NCCL_SOCKET_FAMILY": "AF_INET",
    "NCCL_IB_DISABLE": "1", "NCCL_NET_PLUGIN": "none", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0",
    "NCCL_RAS_ENABLE": "0",
}
UNLESS_SET = {"NCCL_DEBUG": "WARN", "ASHLAR_CONNECT_SECONDS": "20"}  # these, who starts the runner may choose


class Fault(Exception):
    """A part ended otherwise than it should: its outcome, and why."""

    def __init__(self, outcome, detail):
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail


@dataclass
class Context:
    """What all parts of a run of the runner share."""

    folder: pathlib.Path  # the pack
    manifest: dict
    processes: Processes
    results: Results
    scratch: pathlib.Path
    gpu: bool  # whether there is one, so that nothing may be skipped
    deadline: float
    ranks_meet: str = ""  # how the part ended that lets two ranks meet, which the others of two ranks depend on
    step_ms: dict = field(default_factory=dict)  # measured so far, by model
    lock: threading.Lock = field(default_factory=threading.Lock)  # of files in scratch

    def program(self, name):
        return self.folder / "bin" / name


def environments(ranks):
    """What mpirun would tell each rank; with several, they share the device."""
    if ranks == 1:
        return [{}]
    job = f"gpu-check-{os.getpid()}-{next(JOBS)}"
    chosen = {name: os.environ.get(name, value) for name, value in UNLESS_SET.items()}
    return [{**SHARED_DEVICE, **chosen, "OMPI_COMM_WORLD_SIZE": str(ranks), "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": str(ranks),
             "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "PMIX_NAMESPACE": job} for rank in range(ranks)]


def telling_line(text):
    """The line of a log that says most: the first error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("error:", "skipped", "not run:")) or "Error: " in line]
    return (errors or lines[-1:] or ["no output"])[0]


class Attempt:
    """A part that is running. Its limit is for all its processes together, and ends with the budget."""

    def __init__(self, context, part):
        now = time.monotonic()
        self.context, self.part, self.begin = context, part, now
        self.cut = context.deadline < now + part.limit
        self.deadline = min(context.deadline, now + part.limit)
        self.log = context.results.logs / f"{part.name}.log"

    def seconds(self):
        return time.monotonic() - self.begin

    def text(self, most=None):
        """The log, or its first bytes."""
        return self.log.read_bytes()[:most].decode("utf-8", "replace") if self.log.exists() else ""

    def run(self, command, ranks=1, environment=None, folder=None, renewed=0):
        """Runs a command, and returns what the log holds then. Raises Fault unless it ends with status 0. `renewed`: seconds that it may go
        on after each line, where lines come one by one, instead of what is left of the limit."""
        context = self.context
        limit = min(renewed, context.deadline - time.monotonic()) if renewed else max(0.1, self.deadline - time.monotonic())
        wanted = [{**one, **(environment or {})} for one in environments(ranks)]
        try:
            ended = context.processes.run(command, self.log, limit, wanted, folder or context.scratch, renewed=bool(renewed))
        except OSError as error:
            raise Fault("FAILED", f"cannot start {command[0]}: {error.strerror}") from error
        line = telling_line(self.text(ended.log_bytes if ended.timed_out else None))
        if ended.timed_out:
            if self.cut or time.monotonic() >= context.deadline:
                raise Fault("not run", f"ended after {self.seconds():.0f} s: the budget is spent; {line}")
            raise Fault("FAILED", f"killed after {limit:.0f} s: {line}")
        if ended.status == SKIPPED:
            raise Fault("FAILED" if context.gpu else "skipped", f"{'skipped where there is a GPU: ' if context.gpu else ''}{line}")
        if ended.status != 0:
            raise Fault("FAILED", f"status {ended.status}: {line}")
        return self.text()

# SPDX-License-Identifier: Apache-2.0
"""Processes with limits: each in a group of its own, which is killed as a whole when its time is over, when another rank failed, or when the
runner ends."""

import os
import signal
import subprocess
import threading
import time

GRACE_S = 2  # from the request to end to the kill
OTHERS_END_S = 5  # for the other ranks to report that one failed
POLL_S = 0.02


class Stopped(Exception):
    """The runner is ending: no process may start."""


class Ended:
    """How a run ended: `status` is the first failing exit status (negative: a signal), `timed_out` whether it was killed at its limit, when its log
    had `log_bytes`. Behind these stands what the kill caused."""

    def __init__(self, status, timed_out, log_bytes):
        self.status, self.timed_out, self.log_bytes = status, timed_out, log_bytes


def exit_of(process):
    """How a process ended, as os.waitid reports it; None while it runs. It is not reaped, so its group cannot become another one's."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def has_failed(process):
    ended = exit_of(process)
    return ended is not None and (ended.si_code != os.CLD_EXITED or ended.si_status != 0)


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # nothing is left of it


def end_groups(processes):
    """Asks the groups of all processes to end, kills what is left of them, and reaps. A process is ended once."""
    running = [process for process in processes if exit_of(process) is None]
    for process in running:
        signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while time.monotonic() < deadline and any(exit_of(process) is None for process in running):
        time.sleep(POLL_S)
    for process in processes:
        signal_group(process, signal.SIGKILL)
        process.wait()


class Processes:
    """All processes of the runner. Thread-safe: each run() ends its own processes, stop() the background ones."""

    def __init__(self, environment):
        self.environment = environment
        self.lock = threading.Lock()
        self.background = []
        self.stopped = False

    def start(self, command, log, environment=None, folder=None):
        """Starts a process in a new group; its output goes behind what the log holds."""
        with self.lock:
            if self.stopped:
                raise Stopped()
            with open(log, "ab") as stream:
                return subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, cwd=folder,
                                        env={**self.environment, **(environment or {})}, start_new_session=True)

    def start_background(self, command, log):
        """Starts a process that runs beside the parts until it ends, or stop() ends it."""
        self.background.append(self.start(command, log))

    def stop(self):
        """Lets no process start any more. Every run() that is waiting raises Stopped."""
        with self.lock:
            self.stopped = True
            background, self.background = self.background, []
        end_groups(background)

    def run(self, command, log, limit, environments=({},), folder=None, renewed=False):
        """Runs a command, once for each of the environments at the same time, for at most `limit` seconds; with `renewed` these begin again
        whenever the log grows. Raises OSError when it cannot be started."""
        processes = []
        try:
            for environment in environments:
                processes.append(self.start(command, log, environment, folder))
            timed_out = self.wait(processes, log, limit, renewed)
            log_bytes = os.path.getsize(log)
        finally:
            end_groups(processes)
        if self.stopped:
            raise Stopped()
        statuses = [process.returncode for process in processes if process.returncode != 0]
        # A rank that was ended here says less than the one that failed by itself.
        statuses.sort(key=lambda status: status in (-signal.SIGTERM, -signal.SIGKILL))
        return Ended(statuses[0] if statuses else 0, timed_out, log_bytes)

    def wait(self, processes, log, limit, renewed):
        """Waits until all have ended; returns whether they reached the limit. When one fails, the others get a few seconds to report it."""
        deadline = time.monotonic() + limit
        size, failing = 0, False
        while any(exit_of(process) is None for process in processes):
            now = time.monotonic()
            grown = os.path.getsize(log) if renewed else 0
            if grown > size:
                size, deadline = grown, now + limit
            if not failing and any(has_failed(process) for process in processes):
                failing, deadline = True, min(deadline, now + OTHERS_END_S)
            if self.stopped or now >= deadline:
                return not self.stopped and not failing
            time.sleep(POLL_S)
        return False

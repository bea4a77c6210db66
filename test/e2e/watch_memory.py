# SPDX-License-Identifier: Apache-2.0
"""Runs a command and prints the most memory that the processes of one program had at once, in bytes, each shared page counted once.

    watch_memory.py PROGRAM COMMAND...

A process belongs to the program when it runs the file PROGRAM. Its memory is what the kernel calls Pss: a page that n processes share counts
as 1/n for each, so the sum over all ranks is what the machine gives them. Pages of files (code, the constants of the image) are left out.
"""

import os
import subprocess
import sys
import time

POLL_S = 0.002


def processes(program):
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.path.samefile(f"/proc/{entry}/exe", program):
                yield entry
        except OSError:
            pass  # it has ended


def memory_of(process):
    """Returns the anonymous and shared bytes of a process."""
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            fields = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
    except OSError:
        return 0
    return sum(int(fields[name].split()[0]) * 1024 for name in ("Pss_Anon", "Pss_Shmem"))


def main():
    program, command = sys.argv[1], sys.argv[2:]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    most = 0
    while run.poll() is None:
        most = max(most, sum(memory_of(process) for process in processes(program)))
        time.sleep(POLL_S)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} ends with {run.returncode}")
    print(most)


main()

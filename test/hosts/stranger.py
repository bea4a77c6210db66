#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stranger on the network of a job: connects to its ports in all the ways below, and holds the connections.

    stranger.py COUNT KINDS ADDRESS:PORT...

makes COUNT connections, the kinds, given by their numbers like 0,2,3 or as "all", and then the ports in turns, prints how many were made and
refused, and holds them until it is ended.
"""

import random
import socket
import struct
import sys
import time

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset
KINDS = {
    "silent": b"",
    "one byte": b"O",
    "garbage": random.Random(1).randbytes(64),
    "request": b"GET / HTTP/1.0\r\n\r\n",
    "greeting": b"OPAL-TCP-BTL\0" + bytes(64),  # as a rank of Open MPI begins
    "closed": None,
    "half closed": b"\0\0\0\x10",
    "drops": b"\xff",  # one at a time, for ever
}
PATIENCE = 2


def connect(kind, target):
    """One connection; None where it is refused."""
    try:
        made = socket.create_connection(target, PATIENCE)
        if kind == "closed":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            made.close()
            return made
        made.sendall(KINDS[kind])
        if kind == "half closed":
            made.shutdown(socket.SHUT_WR)
        return made
    except OSError:
        return None


def main():
    count, targets = int(sys.argv[1]), [(text.rsplit(":", 1)[0], int(text.rsplit(":", 1)[1])) for text in sys.argv[3:]]
    kinds = list(KINDS) if sys.argv[2] == "all" else [list(KINDS)[int(number)] for number in sys.argv[2].split(",")]
    held = [(kinds[number % len(kinds)], connect(kinds[number % len(kinds)], targets[number // len(kinds) % len(targets)])) for number in range(count)]
    made = [(kind, connection) for kind, connection in held if connection is not None]
    print(f"{len(made)} connections to {len(targets)} ports, {count - len(made)} refused", flush=True)
    while True:
        time.sleep(0.1)
        for kind, connection in made:
            if kind == "drops":
                try:
                    connection.send(KINDS[kind])
                except OSError:
                    continue  # the other side closed it


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cable between two network cards that holds every frame for a time and loses some; kernels without netem have no other.

    wire.py FROM TO DELAY LOSS

carries frames both ways. Frames to the card TO are DELAY seconds late, and each is lost with the probability LOSS (always the same ones); the way back is
a plain one. Frames keep the offloads of the cards, so one holds up to 64 KB, as in a queue of the kernel.
"""

import collections
import random
import select
import socket
import struct
import sys
import time

SOL_PACKET, ADD_MEMBERSHIP, VNET_HEADER, IGNORE_OUTGOING = 263, 1, 15, 23
RECEIVE_BUFFER_FORCE = 33
ALL_PROTOCOLS = 3
PROMISCUOUS = 1
LONGEST = 1 << 17
BUFFER = 1 << 26


def open_card(name):
    """Takes all frames that arrive at a card, each behind its header of offloads."""
    card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    card.setsockopt(SOL_PACKET, VNET_HEADER, 1)
    card.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    card.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, BUFFER)
    card.bind((name, ALL_PROTOCOLS))
    card.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, struct.pack("iHH8s", socket.if_nametoindex(name), PROMISCUOUS, 0, b""))
    card.setblocking(False)
    return card


def send(card, frame):
    try:
        card.send(frame)
    except OSError:
        return  # the queue is full, or the cable is pulled: lost


def carry(source, target, delay, loss):
    chance, late = random.Random(1), collections.deque()
    while True:
        wait = max(0, late[0][0] - time.monotonic()) if late else None
        ready = select.select([source, target], [], [], wait)[0]
        for card, other in ((source, target), (target, source)):
            if card not in ready:
                continue
            try:
                frame = card.recv(LONGEST)
            except OSError:
                continue  # the card went down
            if other is source:
                send(source, frame)
            elif chance.random() >= loss:
                late.append((time.monotonic() + delay, frame))
        while late and late[0][0] <= time.monotonic():
            send(target, late.popleft()[1])


def main():
    source, target = (open_card(name) for name in sys.argv[1:3])
    print("ready", flush=True)
    carry(source, target, float(sys.argv[3]), float(sys.argv[4]))


main()

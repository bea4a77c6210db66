# SPDX-License-Identifier: Apache-2.0
"""Links between the hosts of a lab (test/hosts/lab.py), as benches name them."""

import re

SOFTWARE_US = 50  # of a message between two hosts, besides the link
PAYLOAD = 0.95  # share of the link that is left by headers
MBIT = {"gbit": 1000, "mbit": 1}


class Link:
    """A rate as tc takes it, and seconds of delay one way: "1gbit+0.02"."""

    def __init__(self, text):
        self.rate, _, delay = text.partition("+")
        number, unit = re.fullmatch(r"([0-9.]+)(gbit|mbit)", self.rate).groups()
        self.bytes_a_second, self.delay = float(number) * MBIT[unit] * 1e6 / 8, float(delay or 0)
        self.name = self.rate + (f", {self.delay * 1e3:.0f} ms" if delay else "")

    def fields(self, ranks):
        """Fields of a job's machine whose hosts have so many ranks each."""
        latency, gbytes = SOFTWARE_US + 1e6 * self.delay, PAYLOAD * self.bytes_a_second / 1e9
        return f"ranks_per_host: {ranks} inter_host {{ latency_us: {latency:.0f} bandwidth_gb_per_s: {gbytes:.6f} }}"

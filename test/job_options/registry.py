# SPDX-License-Identifier: Apache-2.0
"""Which case shows the effect of which field of the job: a case names its fields where it is defined."""

CASES = []  # (function, fields), in the order of definition


def case(*fields):
    """Registers a function of a bench as the case of these fields of job.proto, or of values of an enum, "mode=HYBRID"."""
    def register(function):
        CASES.append((function, fields))
        return function
    return register

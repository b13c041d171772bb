"""Every kind of accident, in the order of the table."""

from tests.faults import clock, damage, decoding, disk, kills, oddities, processes, ranks, stops

__all__ = ["KINDS"]

KINDS = [
    *kills.KINDS,
    *disk.KINDS,
    *damage.KINDS,
    *clock.KINDS,
    *processes.KINDS,
    *decoding.KINDS,
    *ranks.KINDS,
    *stops.KINDS,
    *oddities.KINDS,
]

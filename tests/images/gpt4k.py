#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a GPT with 4096-byte sectors: gpt4k.py FILE FIRST COUNT [FIRST COUNT]...

sfdisk and sgdisk can do that on a loop device only, which needs root.
"""
import os, struct, sys, uuid, zlib

S = 4096
path, numbers = sys.argv[1], [int(a) for a in sys.argv[2:]]
last = os.path.getsize(path) // S - 1

def entry(i, first, count):
    return struct.pack("<16s16sQQQ72s", uuid.UUID("0FC63DAF-8483-4772-8E79-3D69D8477DE4").bytes_le,
                       uuid.UUID("5EED0004-0000-4000-8000-%012X" % i).bytes_le, first, first + count - 1, 0,
                       ("store" if i == 1 else "store %d" % i).encode("utf-16le"))

pairs = zip(numbers[::2], numbers[1::2])
entries = b"".join(entry(i, *p) for i, p in enumerate(pairs, 1)).ljust(128 * 128, b"\0")

def header(me, other, table):
    h = struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, me, other, 6, last - 5,
                    uuid.UUID("5EED0004-0000-4000-8000-000000000000").bytes_le, table, 128, 128, zlib.crc32(entries))
    return h[:16] + struct.pack("<I", zlib.crc32(h)) + h[20:]

with open(path, "r+b") as f:
    f.seek(446)
    f.write(struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, last).ljust(64, b"\0") + b"\x55\xaa")
    for me, other, table in ((1, last, 2), (last, 1, last - 4)):
        f.seek(table * S); f.write(entries)
        f.seek(me * S); f.write(header(me, other, table))

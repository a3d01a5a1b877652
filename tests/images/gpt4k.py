#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a GPT with 4096-byte sectors and one partition: gpt4k.py FILE FIRST COUNT.

sfdisk and sgdisk can do that on a loop device only, which needs root.
"""
import os, struct, sys, uuid, zlib

S = 4096
path, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
last = os.path.getsize(path) // S - 1
entry = struct.pack("<16s16sQQQ72s", uuid.UUID("0FC63DAF-8483-4772-8E79-3D69D8477DE4").bytes_le,
                    uuid.UUID("5EED0004-0000-4000-8000-000000000001").bytes_le, first, first + count - 1, 0,
                    "store".encode("utf-16le"))
entries = entry.ljust(128 * 128, b"\0")

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

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The start of partition 2 was overwritten; its backups are whole.
. "$(dirname "$0")/lib.sh"
blank disk.img 96M
table disk.img <<T
label: dos
label-id: 0x7a7a0001
d1 : start=2048, size=65536, type=83
d2 : start=67584, size=98304, type=83
T
tree files 5000
ext disk.img $MIB 32768 ext4 4096 files
ext disk.img $((33 * MIB)) 49152 ext3 1024 files
imagetool noise junk 8192 | dd of=disk.img bs=1M seek=33 conv=notrunc status=none
rm -rf files

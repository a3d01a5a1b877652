#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The disk that the program was begun for: 80 GB, MBR; a system partition, and
# in the extended one logical 5 (swap), 6 (/home, full of files) and 7 (unused),
# which 6 shall take over.  Sparse: about 800 MB on the medium.
. "$(dirname "$0")/lib.sh"
blank disk.img 80026361856
at() { echo $(($1 * 2048)); } # MiB to sectors
table disk.img <<T
label: dos
label-id: 0x5eed0080
d1 : start=2048, size=$(at 34000), type=83, bootable
d2 : start=$(at 34002), size=$(at 41800), type=5
d5 : start=$(at 34003), size=$(at 2000), type=82
d6 : start=$(at 36004), size=$(at 30848), type=83
d7 : start=$(at 66853), size=$(at 8848), type=83
T
boot_code disk.img
tree system 4000
tree home 300000 3000
ext disk.img $MIB $((34000 * 1024)) ext3 4096 system
ext disk.img $((36004 * MIB)) $((30848 * 1024)) ext3 4096 home
own disk.img $((36004 * MIB))
ext disk.img $((66853 * MIB)) $((8848 * 1024)) ext3 4096 unused
blank swap 2000M
mkswap -q -L swap -U f11e5000-0000-4000-8000-00000000005a swap
imagetool put swap disk.img $((34003 * MIB))
rm -rf system home swap

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Damaged and contradictory MBR tables, one image a kind.
. "$(dirname "$0")/lib.sh"
blank inside.img 96M
table inside.img <<T
label: dos
label-id: 0x5eed0a07
d1 : start=2048, size=32768, type=83
d2 : start=34816, size=131072, type=f
d5 : start=36864, size=32768, type=83
T
tree files 2000
for at in 2048 36864 100352; do ext inside.img $((at * 512)) 16384 ext4 1024 files; done

# The EBR of logical 6 stands in the last sectors of logical 5.
cp --sparse=always inside.img ebr.img
imagetool copy ebr.img $((34816 * 512)) 512 sector
imagetool poke ebr.img $((34816 * 512 + 462)) 00feffff05feffff0080000000840000    # link: +32768
imagetool poke ebr.img $((67584 * 512 + 446)) 00feffff83feffff0008000000800000    # logical: +2048
imagetool poke ebr.img $((67584 * 512 + 510)) 55aa

# The EBR chain leads back to its beginning; and out of the disk.
cp --sparse=always inside.img loop.img
imagetool poke loop.img $((34816 * 512 + 462)) 00feffff05feffff0000000000000200
cp --sparse=always inside.img outside.img
imagetool poke outside.img $((34816 * 512 + 462)) 00feffff05feffff00ffff7f00840000

# Primary 3 lies inside the extended partition.
imagetool poke inside.img 478 00feffff07feffff0088010000800000                    # 100352 + 32768
rm -rf files sector

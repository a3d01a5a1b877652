#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# A board's layout: PARTUUIDs from the disk signature, a loader in the gap.
# no-boot-code.img is the same with a first sector that holds only the table.
. "$(dirname "$0")/lib.sh"
blank disk.img 128M
table disk.img <<T
label: dos
label-id: 0xa8fe70f4
d1 : start=8192, size=32768, type=c
d2 : start=40960, size=81920, type=83
T
boot_code disk.img
imagetool noise loader 3000000 > loader
imagetool put loader disk.img 4096
blank fat 16M
mkfs.vfat -n boot -i 5EED0A05 fat > /dev/null
imagetool put fat disk.img $((4 * MIB))
tree root 8000
ext disk.img $((20 * MIB)) 40960 ext4 4096 root
cp --sparse=always disk.img no-boot-code.img
imagetool poke no-boot-code.img 0 "$(printf '00%.0s' {1..440})"
rm -rf fat loader root

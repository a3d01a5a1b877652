#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Board firmware reads the MBR, the system reads the GPT: a hybrid.
. "$(dirname "$0")/lib.sh"
blank disk.img 96M
sgdisk -o -n 1:2048:+16M -t 1:EF00 -n 2:34816:+8M -n 3:51200:+40M -c 3:data disk.img > /dev/null
blank fat 16M
mkfs.vfat -n BOOT -i 5EED0A04 fat > /dev/null
imagetool put fat disk.img $MIB
tree data 5000
ext disk.img $((25 * MIB)) 40960 ext4 4096 data
# 0x0c, active, 2048 + 32768; 0xee, 1 + 2047
imagetool poke disk.img 446 80feffff0cfeffff0008000000800000
imagetool poke disk.img 462 00feffffeefeffff01000000ff070000
rm -rf fat data

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# An installer's disk, enlarged: root | extended { swap } | new free space.
. "$(dirname "$0")/lib.sh"
blank disk.img 64M
table disk.img <<T
label: dos
label-id: 0x5eed0a01
d1 : start=2048, size=65536, type=83, bootable
d2 : start=69630, size=40962, type=5
d5 : start=69632, size=40960, type=82
T
boot_code disk.img
tree root 4000
ext disk.img $MIB 32768 ext4 4096 root
blank swap 20M
mkswap -q -L SWAP -U f11e5000-0000-4000-8000-00000000005a swap
imagetool put swap disk.img $((69632 * 512))
truncate -s 128M disk.img
rm -rf root swap

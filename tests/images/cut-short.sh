#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The copy stopped early: partition 2 and its filesystem reach past the end.
. "$(dirname "$0")/lib.sh"
blank disk.img 96M
table disk.img <<T
label: dos
label-id: 0x5eed0a08
d1 : start=8192, size=32768, type=c
d2 : start=40960, size=155648, type=83
T
tree root 8000
ext disk.img $((20 * MIB)) 77824 ext4 4096 root
truncate -s 90M disk.img
rm -rf root

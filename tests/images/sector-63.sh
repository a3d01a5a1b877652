#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Before 2010: starts at sector 63, odd length, ext3 that was not unmounted; enlarged since.
. "$(dirname "$0")/lib.sh"
blank disk.img 64M
table disk.img <<T
label: dos
label-id: 0x000c741d
d1 : start=63, size=98331, type=83, bootable
T
tree data 9000
ext disk.img $((63 * 512)) 49165 ext3 1024 data -I 128 -O ^dir_index
debugfs -w -R 'ssv state 0' "disk.img?offset=32256" 2> /dev/null
debugfs -w -R 'ssv mnt_count 40' "disk.img?offset=32256" 2> /dev/null
truncate -s 128M disk.img
rm -rf data

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Two backup superblocks only, the second in the last group, wherever that is.
. "$(dirname "$0")/lib.sh"
blank disk.img 96M
sgdisk -o -n 1:2048:+48M -t 1:8300 -c 1:root disk.img > /dev/null
tree root 6000
ext disk.img $MIB 49152 ext4 1024 root -E num_backup_sb=2 -O sparse_super2,^resize_inode
rm -rf root

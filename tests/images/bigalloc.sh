#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Clusters of 64 KiB: sizes must stay whole clusters.
. "$(dirname "$0")/lib.sh"
blank disk.img 128M
sgdisk -o -n 1:2048:+64M -t 1:8300 -c 1:vol disk.img > /dev/null
tree vol 8000
ext disk.img $MIB 65536 ext4 4096 vol -O bigalloc -C 65536
rm -rf vol

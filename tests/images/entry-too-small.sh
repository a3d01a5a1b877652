#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The filesystem was grown, its table entry was not: 56 MiB in an entry of 40.
. "$(dirname "$0")/lib.sh"
blank disk.img 128M
sgdisk -o -n 1:2048:+16M -c 1:esp -t 1:EF00 -n 2:34816:+40M -t 2:8300 -c 2:root \
	-u 2:5EED0A09-0000-4000-8000-000000000002 disk.img > /dev/null
tree root 46000
ext disk.img $((17 * MIB)) 57344 ext4 4096 root
rm -rf root

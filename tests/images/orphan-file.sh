#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# 1 KiB blocks with an orphan file, on a card far larger: grow.img.
# clean.img has the feature and nothing to clean up, present.img says it has.
. "$(dirname "$0")/lib.sh"
blank grow.img 24M
table grow.img <<T
label: dos
label-id: 0x5eed0a15
d1 : start=2048, size=8192, type=c, bootable
d2 : start=12288, size=32768, type=83
T
tree files 3000
ext grow.img $((6 * MIB)) 16384 ext4 1024 files -O orphan_file,metadata_csum,64bit,^resize_inode
truncate -s 1100M grow.img
blank clean.img 32M
ext clean.img 0 32768 ext4 4096 files -O orphan_file,metadata_csum,64bit
cp --sparse=always clean.img present.img
debugfs -w -R 'feature orphan_present' present.img > /dev/null 2>&1
rm -rf files

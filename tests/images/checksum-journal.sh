#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# A current ext4 whose journal carries checksums that an old kernel does not know.
. "$(dirname "$0")/lib.sh"
blank disk.img 64M
table disk.img <<T
label: dos
label-id: 0x5eed0a13
d1 : start=2048, size=98304, type=83
T
tree videos 7000
ext disk.img $MIB 49152 ext4 4096 videos -O metadata_csum,64bit,^orphan_file,^metadata_csum_seed
printf 'jo -c\njc\n' > commands
debugfs -w -f commands "disk.img?offset=$MIB" > /dev/null 2>&1
e2fsck -fy "disk.img?offset=$MIB" > /dev/null 2>&1 || true
dumpe2fs -h "disk.img?offset=$MIB" 2> /dev/null | grep -q journal_checksum_v3 || die "no checksums in the journal"
rm -rf videos commands

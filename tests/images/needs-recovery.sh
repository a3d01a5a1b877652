#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Taken from a running system: the newest content of a file is only in the journal.
# after.img is what a replay makes of the filesystem.
. "$(dirname "$0")/lib.sh"
blank disk.img 96M
table disk.img <<T
label: dos
label-id: 0x28f9a1c0
d1 : start=8192, size=8192, type=c
d2 : start=16384, size=180224, type=83
T
at=$((8 * MIB))
tree root 9000
ext disk.img $at 90112 ext4 4096 root
block=$(debugfs -R 'blocks /data/deep/er/small' "disk.img?offset=$at" 2> /dev/null | tr -d ' ')
{ imagetool noise newest 777; head -c 3319 /dev/zero; } > newest
printf 'jo -c\njw -b %s newest\njc\n' "$block" > commands
debugfs -w -f commands "disk.img?offset=$at" > /dev/null 2>&1
dumpe2fs -h "disk.img?offset=$at" 2> /dev/null | grep -q needs_recovery || die "no journal to replay"
cp --sparse=always disk.img after.img
e2fsck -fy "after.img?offset=$at" > /dev/null 2>&1 || true
rm -rf root newest commands

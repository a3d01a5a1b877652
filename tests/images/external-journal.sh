#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# fs.img keeps its journal in journal.img; dirty.img also needs recovery from it.
. "$(dirname "$0")/lib.sh"
blank journal.img 8M
mke2fs -q -F -O journal_dev -b 4096 -U 99999999-8888-4777-8666-555555555555 journal.img
tree data 6000
blank fs.img 64M
ext fs.img 0 65536 ext4 4096 data -O ^has_journal
# mke2fs takes a journal only from a block device; the superblock is all it would write.
printf '%s\n' 'feature has_journal' 'ssv journal_uuid 99999999-8888-4777-8666-555555555555' \
	'ssv journal_dev 0x0801' > commands
debugfs -w -f commands fs.img > /dev/null 2>&1
dumpe2fs -h fs.img 2> /dev/null | grep -q '^Journal UUID: *99999999' || die "no external journal"
cp --sparse=always fs.img dirty.img
debugfs -w -R 'feature needs_recovery' dirty.img > /dev/null 2>&1
rm -rf data commands

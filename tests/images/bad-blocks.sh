#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# An ext3 with a list of unreadable blocks, one of them near the end.
. "$(dirname "$0")/lib.sh"
blank disk.img 96M
table disk.img <<T
label: dos
label-id: 0x5eed0a20
d1 : start=2048, size=131072, type=83
T
printf '%s\n' 5000 5001 9000 15900 > list
tree old 9000
ext disk.img $MIB 65536 ext3 4096 old -l list
[ "$(dumpe2fs -b "disk.img?offset=$MIB" 2> /dev/null | xargs)" = "5000 5001 9000 15900" ] || die "the list is not there"
rm -rf old list

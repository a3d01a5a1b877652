#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# GPT numbers out of order and with gaps, attribute bits, a name beyond ASCII.
. "$(dirname "$0")/lib.sh"
blank disk.img 128M
sgdisk -o -U 5EED0A03-0000-4000-8000-000000000000 \
	-n 9:2048:+8M -t 9:8DA63339-0007-60C0-C436-083AC8230908 -c 9:reserved \
	-u 9:5EED0A03-0000-4000-8000-000000000009 -A 9:set:0 -A 9:set:60 \
	-n 1:20480:+24M -t 1:8300 -c 1:"$(printf 'syst\303\250me')" \
	-u 1:5EED0A03-0000-4000-8000-000000000001 -A 1:set:2 \
	-n 4:98304:+40M -t 4:FE3A2A5D-4F32-41A7-B725-ACCC3285A309 -c 4:STATE-B \
	-u 4:5EED0A03-0000-4000-8000-000000000004 -A 4:set:59 -A 4:set:63 disk.img > /dev/null
imagetool noise firmware $((8 * MIB)) > firmware
imagetool put firmware disk.img $MIB
tree one 3000
tree four 5000
ext disk.img $((20480 * 512)) 24576 ext4 4096 one
ext disk.img $((98304 * 512)) 40960 ext4 4096 four
rm -rf firmware one four

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Somebody's move of a partition from 48 MiB to 32 MiB was cut off.
# half.img: 12 MiB copied, the old place whole; half2.img: 24 MiB, its head overwritten.
. "$(dirname "$0")/lib.sh"
blank half.img 112M
sgdisk -o -n 2:98304:+48M -t 2:8300 -c 2:photos -u 2:5EED0A11-0000-4000-8000-000000000002 half.img > /dev/null
tree photos 20000
ext half.img $((48 * MIB)) 49152 ext4 4096 photos
cp --sparse=always half.img half2.img
imagetool copy half.img $((48 * MIB)) $((12 * MIB)) piece
dd if=piece of=half.img bs=1M seek=32 conv=notrunc status=none
imagetool copy half2.img $((48 * MIB)) $((24 * MIB)) piece
dd if=piece of=half2.img bs=1M seek=32 conv=notrunc status=none
rm -rf photos piece

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# KEEP, and behind it what one may not know: vfat, LUKS, LVM, noise, nothing.
. "$(dirname "$0")/lib.sh"
blank disk.img 72M
sgdisk -o -U 5EED0A40-0000-4000-8000-000000000000 -n 1:2048:+16M -c 1:keep -n 2:34816:+8M -c 2:fat \
	-n 3:51200:+17M -c 3:luks -n 4:86016:+8M -c 4:pv -n 5:102400:+8M -c 5:noise -n 6:118784:+8M -c 6:nothing \
	disk.img > /dev/null
tree keep 3000
ext disk.img $MIB 16384 ext4 4096 keep
blank fat 8M
mkfs.vfat -n FATTY -i 5EED0A40 fat > /dev/null
imagetool put fat disk.img $((17 * MIB))
blank luks 17M
printf secret | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 \
	--uuid f11e5000-0000-4000-8000-000000000135 luks - 2> /dev/null
imagetool put luks disk.img $((25 * MIB))
# LVM2's label: its checksum is CRC-32 with another start and no final inversion.
python3 - > pv <<'P'
import struct, sys, zlib
rest = struct.pack("<I8s32sQQQQQ", 32, b"LVM2 001", b"f11e50000000400080000000000000aa", 8 << 20, 1 << 20, 0, 0, 0)
rest = rest.ljust(512 - 20, b"\0")
crc = zlib.crc32(rest, 0xF597A6CF ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
sys.stdout.buffer.write(bytes(512) + struct.pack("<8sQI", b"LABELONE", 1, crc) + rest)
P
imagetool put pv disk.img $((42 * MIB))
imagetool noise noise $((2 * MIB)) > noise
imagetool put noise disk.img $((50 * MIB))
rm -rf keep fat luks pv noise

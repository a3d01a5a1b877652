#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# A GPT image on a larger disk: backup and protective MBR as of before.
. "$(dirname "$0")/lib.sh"
blank disk.img 64M
table disk.img <<T
label: gpt
label-id: 5EED0A02-0000-4000-8000-000000000000
d1 : start=2048, size=32768, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, uuid=5EED0A02-0000-4000-8000-000000000001, name="esp"
d2 : start=34816, size=94208, uuid=5EED0A02-0000-4000-8000-000000000002, name="rootfs"
T
blank esp 16M
mkfs.vfat -n ESP -i 5EED0A02 esp > /dev/null
imagetool put esp disk.img $MIB
tree root 6000
ext disk.img $((17 * MIB)) 47104 ext4 4096 root
truncate -s 160M disk.img
rm -rf esp root

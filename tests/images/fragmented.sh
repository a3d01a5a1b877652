#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# A sparse file in 3000 pieces at the end of the filesystem.
. "$(dirname "$0")/lib.sh"
blank fs.img 96M
ext fs.img 0 98304 ext4 4096 fs -O ^metadata_csum_seed
imagetool noise filler $((58 * MIB)) > filler
python3 - <<'P'
with open("pieces", "wb") as f:
    for i in range(3000):
        f.seek(i * 8192)
        f.write((b"piece %8d, " % i) * 256)
    f.truncate(3000 * 8192 + 123)
P
printf 'write filler filler\nwrite pieces pieces\nrm filler\n' > commands
debugfs -w -f commands fs.img > /dev/null 2>&1
e2fsck -fy fs.img > /dev/null 2>&1 || true
[ "$(debugfs -R 'ex pieces' fs.img 2> /dev/null | wc -l)" -gt 3000 ] || die "not in pieces"
rm filler pieces commands

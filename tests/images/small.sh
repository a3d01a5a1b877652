#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Small images for the crash and fault tests: small.sh KIND FILE
set -euo pipefail
kind=$1 image=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export E2FSPROGS_FAKE_TIME=1500000000
MIB=1048576
PATH=$PATH:/usr/sbin:/sbin

tree() {        # a few files, so that there is something to lose
	mkdir -p "$work/t/a/b"
	for i in 1 2 3 4 5 6 7 8; do seq "$i" 2000 > "$work/t/a/f$i"; done
	head -c 300000 /dev/zero | tr '\0' x > "$work/t/a/b/big"
	ln -sf a/f1 "$work/t/link"
	find "$work/t" -exec touch -h -d '2017-03-04 05:06:07 UTC' {} +
}

fs() {          # fs TYPE BLOCK OFFSET_MIB SIZE_MIB LABEL
	mke2fs -q -F -t "$1" -b "$2" -L "$5" -U "$(printf 0e57f5a2-0000-4000-8000-%012d "$3")" -d "$work/t" \
		-E offset=$(($3 * MIB)),hash_seed=0e57f5a2-0000-4000-8000-0000000000ff "$image" "$4"M
}

tree
rm -f "$image"
case $kind in
mbr|mbr-tail)
	truncate -s 48M "$image"
	sfdisk -q "$image" <<-T
		label: dos
		label-id: 0x5eed0001
		d1 : start=2048, size=20480, type=83, bootable
		d2 : start=22528, size=71680, type=5
		d5 : start=24576, size=2048, type=82
		d6 : start=28672, size=18432, type=83
		d7 : start=49152, size=18432, type=83
		d8 : start=69632, size=10240, type=83
	T
	fs ext2 1024 1 10 root; fs ext3 1024 14 9 home; fs ext3 1024 24 9 old
	printf 'boot code' | dd of="$image" conv=notrunc status=none
	if [ "$kind" = mbr-tail ]; then
		truncate -s 50M "$image"
		printf 'something behind' | dd of="$image" bs=1M seek=49 conv=notrunc status=none
	fi;;
gpt|gpt-grown)
	truncate -s 36M "$image"
	sfdisk -q "$image" <<-T
		label: gpt
		label-id: 5EED0002-0000-4000-8000-000000000000
		d1 : start=2048, size=22528, uuid=5EED0002-0000-4000-8000-000000000001, name="one"
		d2 : start=24576, size=20480, uuid=5EED0002-0000-4000-8000-000000000002, name="two"
	T
	fs ext4 1024 1 11 one; fs ext4 4096 12 10 two
	if [ "$kind" = gpt-grown ]; then truncate -s 44M "$image"; fi;;
gpt4k)
	truncate -s 32M "$image"
	python3 "$(dirname "$0")/gpt4k.py" "$image" 256 2560
	fs ext4 4096 1 10 store;;
whole)
	truncate -s 12M "$image"
	mke2fs -q -F -t ext4 -b 1024 -d "$work/t" -U 0e57f5a2-0000-4000-8000-000000000000 \
		-E hash_seed=0e57f5a2-0000-4000-8000-0000000000ff "$image" 12M;;
*)	echo "small.sh: no kind $kind" >&2; exit 2;;
esac

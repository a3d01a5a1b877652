#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# The plain disk.img that operations are tried on: plain.sh DIRECTORY [TABLE [TYPE [BLOCK]]]
# TABLE: mbr, logical, gpt or gpt4k (4096-byte sectors).  A boot partition, KEEP
# (TYPE, with files, 24 MiB), NEXT (ext3, with files, 14 MiB), SWAP (8 MiB), 13
# MiB free.  `layout` says which numbers they have.
. "$(dirname "$0")/lib.sh"
kind=${2:-logical} type=${3:-ext3} block=${4:-1024}
tree keep 6000
tree next 500
blank disk.img 66M
case $kind in
mbr)	keep=2 next=3 swap=4
	table disk.img <<-T
		label: dos
		label-id: 0x5eed0010
		d1 : start=2048, size=6144, type=83, bootable
		d2 : start=8192, size=49152, type=83
		d3 : start=57344, size=28672, type=83
		d4 : start=90112, size=16384, type=82
	T
	boot_code disk.img;;
logical)
	keep=5 next=6 swap=7
	table disk.img <<-T
		label: dos
		label-id: 0x5eed0011
		d1 : start=2048, size=4096, type=83, bootable
		d2 : start=6144, size=129024, type=5
		d5 : start=8192, size=49152, type=83
		d6 : start=59392, size=28672, type=83
		d7 : start=90112, size=16384, type=82
	T
	boot_code disk.img;;
gpt)	keep=2 next=3 swap=4
	table disk.img <<-T
		label: gpt
		label-id: 5EED0012-0000-4000-8000-000000000000
		d1 : start=2048, size=6144, uuid=5EED0012-0000-4000-8000-000000000001, name="boot"
		d2 : start=8192, size=49152, uuid=5EED0012-0000-4000-8000-000000000002, name="keep", attrs="LegacyBIOSBootable"
		d3 : start=57344, size=28672, uuid=5EED0012-0000-4000-8000-000000000003, name="next"
		d4 : start=90112, size=16384, uuid=5EED0012-0000-4000-8000-000000000004, name="swap"
	T
	imagetool noise boot 440 | dd of=disk.img conv=notrunc status=none;;
gpt4k)	keep=2 next=3 swap=4
	"$TOOLS/gpt4k.py" disk.img 256 768 1024 6144 7168 3584 11264 2048;;
*)	die "no table $kind";;
esac
next_at=$((57344 * 512))
[ "$kind" != logical ] || next_at=$((59392 * 512))
ext disk.img $((4 * MIB)) 24576 "$type" "$block" keep
own disk.img $((4 * MIB))
ext disk.img $next_at 14336 ext3 1024 next
blank swap 8M
mkswap -q -L swap -U f11e5000-0000-4000-8000-00000000005a swap
imagetool put swap disk.img $((44 * MIB))
printf 'keep=%s next=%s swap=%s keep_at=%s next_at=%s\n' $keep $next $swap $((4 * MIB)) "$next_at" > layout
rm -rf keep next swap

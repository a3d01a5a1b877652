# SPDX-License-Identifier: GPL-3.0-or-later
# What the image generators share: . "$(dirname "$0")/lib.sh"
# A generator is run as NAME.sh DIRECTORY and leaves its images there.  No
# root, no loop devices: filesystems are made in place by mke2fs.
set -euo pipefail
export LC_ALL=C TZ=UTC0 E2FSPROGS_FAKE_TIME=1500000000 PATH="$PATH:/usr/sbin:/sbin"
MIB=1048576
TOOLS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "${1:?usage: $0 DIRECTORY}"
cd "$1"

imagetool() { "$TOOLS/imagetool" "$@"; }
die() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }

# blank IMAGE SIZE: a sparse file
blank() { rm -f "$1"; truncate -s "$2" "$1"; }

# table IMAGE: an sfdisk script on stdin
table() { sfdisk -q "$1"; }

# boot_code IMAGE: something in the places that no operation may touch
boot_code() {
	imagetool noise boot 120000 > boot
	dd if=boot of="$1" bs=440 count=1 conv=notrunc status=none
	dd if=boot of="$1" bs=512 skip=40 seek=40 conv=notrunc status=none
	rm boot
}

# tree DIRECTORY [KIB [FILES]]: something to lose
tree() { "$TOOLS/maketree" "$@"; }

# ext IMAGE OFFSET SIZE(KIB) TYPE BLOCK LABEL [MKE2FS OPTIONS]: a filesystem in
# place, with the files of directory LABEL if there is one.  Its UUID comes from
# the offset.
ext() {
	local image=$1 offset=$2 kib=$3 type=$4 block=$5 label=$6 extra=
	shift 6
	case ${1-} in -E) extra=,$2; shift 2;; esac
	mke2fs -q -F -t "$type" -b "$block" -L "$label" -U "$(printf 'f11e5000-0000-4000-8000-%012x' "$offset")" \
		$([ ! -d "$label" ] || printf '%s %s' -d "$label") \
		-E "offset=$offset,hash_seed=f11e5000-0000-4000-8000-00000000feed$extra" "$@" \
		"$image" $((kib * 1024 / block)) 2> mke2fs.log || { cat mke2fs.log >&2; die "mke2fs failed"; }
	rm mke2fs.log
}

# own IMAGE OFFSET: owners, devices and privileged attributes, which mke2fs -d
# takes over only from a privileged user's tree
own() {
	local flags
	flags=$(debugfs -R 'stat /etc/hostname' "$1?offset=$2" 2> /dev/null | sed -n 's/.*Flags: //p')
	printf '%s\n' 'sif /data/empty uid 1001' 'sif /data/empty gid 100' 'sif /data/deep uid 70000' \
		'sif /data/hard uid 1234' "sif /etc/hostname flags $((flags | 0x10))" 'cd /data' 'mknod console c 5 1' \
		'mknod disk b 7 9' 'sif console mtime 20150601' 'sif disk mtime 20150601' \
		'ea_set /etc/tool security.selinux system_u:object_r:bin_t:s0' > own.cmd
	debugfs -w -f own.cmd "$1?offset=$2" > /dev/null 2>&1
	rm own.cmd
	e2fsck -fy "$1?offset=$2" > /dev/null 2>&1 || [ $? = 1 ]
	e2fsck -fn "$1?offset=$2" > own.log 2>&1 || { cat own.log >&2; die "the filesystem is not clean"; }
	rm own.log
}

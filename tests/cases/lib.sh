# SPDX-License-Identifier: GPL-3.0-or-later
# What the cases share: . "$(dirname "$0")/../lib.sh"
# A case is an executable that exits 0 (holds), 1 (does not) or 77 (cannot be
# tried here).  It starts in an empty directory of its own, removed at the end.
set -uo pipefail
export LC_ALL=C TZ=UTC0 NO_COLOR=1 PATH="$PATH:/usr/sbin:/sbin"
MIB=1048576
CASE=$(basename "$(dirname "$(realpath "$0")")")
TESTS=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")

# The program: $DISKWRIGHT, or the build beside the sources, or the installed one.
for DISKWRIGHT in "${DISKWRIGHT-}" "$TESTS/../build/diskwright" "$TESTS/../diskwright" "$(command -v diskwright)"; do
	[ ! -x "$DISKWRIGHT" ] || break
done
DISKWRIGHT=$(realpath "$DISKWRIGHT" 2> /dev/null) && [ -x "$DISKWRIGHT" ] || { echo "diskwright: not found; set DISKWRIGHT" >&2; exit 77; }

WORK=$(mktemp -d "${TMPDIR:-/tmp}/dw-case-XXXXXX")
trap 'chmod -R u+w "$WORK"; rm -rf "$WORK"' EXIT
cd "$WORK" || exit 1

say() { printf -- '-- %s\n' "$*"; }
skip() { printf 'skipped: %s\n' "$*"; exit 77; }
fail() {
	printf 'FAIL %s: %s\n' "$CASE" "$*"
	[ ! -s err ] || sed 's/^/    /' err
	exit 1
}
need() { for _ in "$@"; do command -v "$_" > /dev/null || skip "no $_"; done; }

imagetool() { "$TESTS/images/imagetool" "$@"; }
treedigest() { "$TESTS/images/treedigest" "$@"; }

# image NAME [ARGUMENTS]: run the generator of that name here
image() {
	local name=$1
	shift
	"$TESTS/images/$name.sh" "$WORK" "$@" || fail "the generator $name failed"
}

# ---- running the program -------------------------------------------------

# dw ARGUMENTS: its status is returned, its output in `out` and `err`
dw() { "$DISKWRIGHT" "$@" > out 2> err < /dev/null; }

# A run that takes this long hangs.
TIMEOUT=${TIMEOUT:-120}

# expect_status N COMMAND...: run it; any other status fails the case.  N may be
# several, "2|3", where the contract leaves it open
expect_status() {
	local want=$1
	shift
	if [ "$1" = dw ]; then
		shift
		timeout "$TIMEOUT" "$DISKWRIGHT" "$@" > out 2> err < /dev/null
		got=$?
		set -- diskwright "$@"
	else
		"$@" > out 2> err < /dev/null
		got=$?
	fi
	[ "$got" -ne 124 ] || fail "$*: still running after $TIMEOUT s"
	[ "$got" -lt 126 ] || fail "$*: died, status $got"
	[[ "$got" =~ ^($want)$ ]] || fail "$*: status $got, not $want"
}

# says PATTERN: the last run said so, in the output or in a message
says() { cat out err | grep -Eqi -- "$1" || { sed 's/^/    /' out; fail "nothing says \"$1\""; }; }

# ---- images before and after ---------------------------------------------

# What was remembered stays valid while the image is not written to.
remember() { [ "$1.before" -nt "$1" ] || imagetool digest "$1" > "$1.before"; }
unchanged() {
	[ "$(imagetool digest "$1")" = "$(cat "$1.before")" ] || fail "${2:-$1 was changed}"
}

# harmless N IMAGE ARGUMENTS: status N, and not a byte changed
harmless() {
	local want=$1 image=$2
	shift 2
	remember "$image"
	expect_status "$want" dw "$@"
	unchanged "$image" "diskwright $*: changed the image"
}

# refused N IMAGE ARGUMENTS: status N, not a byte changed, no journal left
refused() {
	local want=$1 image=$2
	shift 2
	harmless "$want" "$image" "$@"
	[ ! -e "$image.dwj" ] || fail "diskwright $*: refused, but left a journal"
	[ -s err ] || fail "diskwright $*: refused without a word"
}

# refused_or_right IMAGE CHECK ARGUMENTS: either refused (1 or 3) with nothing
# changed, or done, and then CHECK must hold
refused_or_right() {
	local image=$1 check=$2
	shift 2
	remember "$image"
	expect_status "0|1|3" dw "$@"
	if [ "$got" = 0 ]; then
		"$check"
		return
	fi
	unchanged "$image" "diskwright $*: refused, but the image was changed"
	[ -s err ] || fail "diskwright $*: refused without a word"
	say "refused: $(head -1 err)"
}

# done_as_said IMAGE ARGUMENTS: the dry run is accepted and changes nothing, the
# real run is done
done_as_said() {
	local image=$1
	shift
	remember "$image"
	expect_status 0 dw "$@" --dry-run
	unchanged "$image" "diskwright $* --dry-run: changed the image"
	[ ! -e "$image.dwj" ] || fail "diskwright $* --dry-run: left a journal"
	expect_status 0 dw "$@" --yes
	expect_status 0 dw status "$image"
}

# undone IMAGE: undo brings back what `remember` saw
undone() {
	expect_status 0 dw undo "$1"
	unchanged "$1" "undo of $1: not the image it was"
	expect_status 0 dw status "$1"
	rm -f "$1.dwj"
}

# ---- oracles -------------------------------------------------------------

# part IMAGE NUMBER: sets $start and $length (bytes), as sfdisk reads the table
part() { read -r start length < <(imagetool part "$1" "$2") || fail "$1 has no partition $2"; }

# fsck_clean IMAGE OFFSET [LENGTH]: e2fsck finds nothing, and with LENGTH the
# filesystem fits in there
fsck_clean() {
	local what="$1?offset=$2"
	if [ $# -gt 2 ]; then
		imagetool copy "$1" "$2" "$3" fsck.img
		what=fsck.img
	fi
	e2fsck -fn "$what" > fsck.log 2>&1 || { cat fsck.log; fail "e2fsck does not like the filesystem at $2 of $1"; }
	rm -f fsck.img fsck.log
}

# fs_clean IMAGE NUMBER: fsck_clean of a partition; leaves $start and $length
fs_clean() { part "$1" "$2"; fsck_clean "$1" "$start" "$length"; }

# remember_tree IMAGE OFFSET, same_tree IMAGE [OFFSET]: every file is what it was
remember_tree() { treedigest "$1" "$2" > tree.before || fail "no tree in $1 at $2"; tree_at=$2; }
same_tree() {
	[ "$(treedigest "$1" "${2:-$tree_at}")" = "$(cat tree.before)" ] || fail "the files at ${2:-$tree_at} of $1 are not what they were"
}

# super IMAGE OFFSET FIELD: a line of dumpe2fs -h
super() { dumpe2fs -h "$1?offset=$2" 2> /dev/null | sed -n "s/^$3:[[:space:]]*//p"; }
fs_bytes() { echo $(($(super "$1" "$2" 'Block count') * $(super "$1" "$2" 'Block size'))); }

# filled IMAGE NUMBER: the filesystem fills its partition but for less than a MiB
filled() {
	local size
	part "$1" "$2"
	size=$(fs_bytes "$1" "$start")
	[ "$size" -le "$length" ] || fail "partition $2: the filesystem ($size) is larger than it ($length)"
	[ $((length - size)) -lt $MIB ] || fail "partition $2: the filesystem ($size) does not fill it ($length)"
}

# boot_area IMAGE LENGTH: a digest of what is in front, but for the partition entries
boot_area() { imagetool front "$1" "$2"; }

# dump IMAGE: the table, a line a partition
dump() { sfdisk -d "$1" 2> /dev/null | sed 's/^[^ ]*\(img[0-9]* :\)/\1/'; }

# gpt_right IMAGE: sgdisk finds nothing wrong; it cannot read 4096-byte sectors from a file
gpt_right() { sgdisk -v "$1" > sgdisk.log 2>&1; grep -q '^No problems found' sgdisk.log || { cat sgdisk.log; fail "sgdisk does not like the table of $1"; }; }

# crash_at N ARGUMENTS: killed when it enters its N-th sync of a file
crash_at() {
	local n=$1
	shift
	{
		strace -qq -o /dev/null -e trace=fsync,fdatasync -e "inject=fsync,fdatasync:signal=SIGKILL:when=$n" \
			"$DISKWRIGHT" "$@" > out 2> err < /dev/null
	} 2> /dev/null
}
need_crash() {
	need strace
	strace -qq -o /dev/null true 2> /dev/null || skip "no ptrace here"
}

# run_counted ARGUMENTS: it must succeed; sets $syncs, how many syncs that took
run_counted() {
	strace -qq -o syncs.log -e trace=fsync,fdatasync "$DISKWRIGHT" "$@" > out 2> err < /dev/null || fail "$*: status $?"
	syncs=$(grep -c 'sync(' syncs.log)
}

# stopped_half_way IMAGE ARGUMENTS: leaves IMAGE with the operation unfinished
# and the disk partly written; sets $old, the digest from before
stopped_half_way() {
	local image=$1 n
	shift
	old=$(imagetool digest "$image")
	cp --sparse=always "$image" start.img
	run_counted "$@"
	# The last few only lift the guards.
	for ((n = syncs - 6; n > 1; n--)); do
		cp --sparse=always start.img "$image"
		rm -f "$image.dwj"
		crash_at $n "$@"
		dw status "$image"
		[ $? = 4 ] && [ "$(imagetool digest "$image")" != "$old" ] && break
	done
	rm -f start.img
	[ $n -gt 1 ] || fail "$*: could not be stopped half way"
}

# sense IMAGE: what is on it, but for what differs from run to run (times, and
# the checksums over them)
sense() {
	local offset
	stat -c %s "$1"
	case $(imagetool kind "$1") in gpt4k) imagetool gpt4k "$1";; *) dump "$1";; esac
	for offset in $(imagetool offsets "$1"); do
		blkid -p -O "$offset" -o value -s TYPE -s UUID -s LABEL "$1" || continue
		case $(blkid -p -O "$offset" -o value -s TYPE "$1") in
		ext?)	treedigest "$1" "$offset" && e2fsck -fn "$1?offset=$offset" 2>&1
			dumpe2fs "$1?offset=$offset" 2> /dev/null | grep -Ev 'time|[Cc]hecksum|Last|Lifetime|checked|sequence|csum';;
		esac
	done
}

# remember_new IMAGE, is_new IMAGE WHEN: the disk as a whole run leaves it
remember_new() { sense "$1" > new.sense; }
is_new() { sense "$1" | diff new.sense - || fail "$2: this is not the new disk"; }

# Nearly everything rehearses on a FUSE view; `no-fuse` tries what does not.
(: <> /dev/fuse) 2> /dev/null || skip "this user may not open /dev/fuse"

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# demo.sh [PROGRAM]: on an 80 GB disk, /home takes over the partition behind it;
# undone; done again, but killed in the middle, and resumed; undone again.
# Every claim is checked by other programs; exit 1 at the first that does not
# hold.  Ordinary user's rights, about a minute, about 1 GB in $TMPDIR.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
tests=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "${1:-$tests/../build/diskwright}")
[ -x "$program" ] || { echo "demo.sh: no program at $program" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/dw-demo-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
home=$((36004 * 1048576))
merge=(merge disk.img:6 --absorb 7 --yes)

if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then bold=$'\e[1m' good=$'\e[32m' bad=$'\e[31m' plain=$'\e[0m'; else bold= good= bad= plain=; fi
title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
holds() { printf '%s   ok: %s%s\n' "$good" "$*" "$plain"; }
broken() { printf '%s   DOES NOT HOLD: %s%s\n' "$bad" "$*" "$plain"; exit 1; }
run() {
	printf '\n$ diskwright %s\n' "$*"
	"$program" "$@" || broken "diskwright $1 ended with status $?"
}

image_is() {
	[ "$("$tests/images/imagetool" digest disk.img)" = "$1" ] || broken "the image is not $2"
	holds "the image is $2, to the byte"
}
home_is_whole() {
	local length
	read -r _ length < <("$tests/images/imagetool" part disk.img 6)
	"$tests/images/imagetool" copy disk.img $home "$length" home.img
	e2fsck -fn home.img > fsck.log 2>&1 || { cat fsck.log; broken "e2fsck does not call /home clean"; }
	holds "e2fsck -fn calls /home clean in its $((length / 1048576)) MiB"
	[ "$("$tests/images/treedigest" home.img)" = "$tree" ] || broken "the files of /home are not what they were"
	holds "all ${tree#* } files are what they were: names, owners, modes, times, links, attributes, content"
	rm home.img
}

# Run the merge and kill -9 it at the first progress line of the execution.  It
# may be done before the signal comes: then it is undone and tried again.
merge_cut_off() {
	local attempt pid line status
	mkfifo progress
	for attempt in {1..30}; do
		"$program" "${merge[@]}" --progress json > /dev/null 2> progress &
		pid=$!
		while read -r line; do
			case $line in *'"phase":"writing the filesystem"'*) kill -9 $pid; break;; esac
		done < progress
		wait $pid 2> /dev/null && status=0 || status=$?
		[ $status = 137 ] || [ $status = 0 ] || broken "the merge ended with status $status"
		"$program" status disk.img > /dev/null || { rm progress; return; }
		"$program" undo disk.img > /dev/null
	done
	broken "the merge could not be caught in its execution"
}

title "A disk of 80 GB, with 300 MB of files in /home"
"$tests/images/story.sh" "$work"
first=$("$tests/images/imagetool" digest disk.img)
tree=$("$tests/images/treedigest" disk.img $home)
run show disk.img

title "/home takes over the partition behind it"
time=$SECONDS
run "${merge[@]}"
holds "done in $((SECONDS - time)) s"
run show disk.img
home_is_whole

title "Undo"
run undo disk.img
image_is "$first" "what it was at first"

title "The same, killed in the middle"
printf '\n$ diskwright %s\n' "${merge[*]}"
merge_cut_off
holds "kill -9 during the execution"
printf '\n$ diskwright status disk.img\n'
status=0
"$program" status disk.img || status=$?
[ $status = 4 ] || broken "status ended with $status, not 4"
if dumpe2fs -h "disk.img?offset=$home" > /dev/null 2>&1; then
	holds "the filesystem was not being written yet"
else
	holds "nobody can mount the half-written filesystem: it is guarded"
fi

title "Resume"
run resume disk.img
home_is_whole

title "Undo, once more"
run undo disk.img
image_is "$first" "what it was at first"
printf '\n%sEverything held, in %d s.%s\n' "$good" $SECONDS "$plain"

#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# merge.sh [--json] [--cold] [--runs N] [PROGRAM]: what the safety of a merge costs.  On
# the story image: the bare sequence of e2fsprogs' programs on the filesystem as
# a file of its final size, against `diskwright merge`, alternately, medians.
# Needs about 3 GB in $TMPDIR, and strace for the bytes written.
set -euo pipefail
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
tests=$(cd "$(dirname "$0")/.." && pwd)
json= cold= runs=3 program=$tests/../build/diskwright
while [ $# -gt 0 ]; do
	case $1 in
	--json)	json=1;;
	--cold)	cold=1;;
	--runs)	runs=$2; shift;;
	-*)	echo "usage: merge.sh [--json] [--cold] [--runs N] [PROGRAM]" >&2; exit 2;;
	*)	program=$1;;
	esac
	shift
done
program=$(realpath "$program")
work=$(mktemp -d "${TMPDIR:-/tmp}/dw-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

cat > bare <<'SH'
e2fsck -f -y home.img || [ $? = 1 ]
tune2fs -O ^has_journal home.img && resize2fs home.img && tune2fs -j home.img && e2fsck -fn home.img
SH
"$tests/images/story.sh" "$work"
mv disk.img story.img
read -r start _ < <("$tests/images/imagetool" part story.img 6)
read -r start7 length7 < <("$tests/images/imagetool" part story.img 7)
"$tests/images/imagetool" copy story.img "$start" $((start7 + length7 - start)) home.story

fresh() { rm -f home.img disk.img disk.img.dwj; cp --sparse=always home.story home.img; cp --sparse=always story.img disk.img; sync -f .; [ -z "$cold" ] || uncache home.img disk.img; }

# A disk that nobody has read is not in the page cache.  (A tmpfs cannot show that.)
uncache() {
	python3 - "$@" <<-'PY'
	import os, sys
	for name in sys.argv[1:]:
	    os.posix_fadvise(os.open(name, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
	PY
}

bare=(sh bare)
ours=("$program" merge disk.img:6 --absorb 7 --yes)

# measure NAME COMMAND...: appends "seconds, KiB of the largest process" to NAME
measure() {
	local name=$1
	shift
	python3 - "$@" >> "$name" <<-'PY' || { echo "merge.sh: $* failed" >&2; exit 1; }
	import resource, subprocess, sys, time
	began = time.monotonic()
	status = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
	print(time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
	sys.exit(status)
	PY
}

# written NAME FILE COMMAND...: bytes written to FILE, and bytes made zero there by fallocate
written() {
	local name=$1 file=$2
	shift 2
	strace -f -qq -y -s 0 -o trace -e trace=write,pwrite64,pwritev,pwritev2,fallocate "$@" > /dev/null 2>&1 < /dev/null || { echo "merge.sh: $* failed" >&2; exit 1; }
	awk -v file="/$file>" 'index($0, file) && $NF ~ /^[0-9]+$/ {
		if ($0 ~ /fallocate\(/) { n = split($0, a, /[,)]/); zero += a[4] } else data += $NF
	} END { printf "%.0f %.0f\n", data, zero }' trace > "$name"
}

for ((i = 0; i < runs; i++)); do
	fresh
	measure bare.times "${bare[@]}"
	measure ours.times "${ours[@]}"
done
if strace -qq -o /dev/null true 2> /dev/null; then
	fresh
	written bare.bytes home.img "${bare[@]}"
	written ours.bytes disk.img "${ours[@]}"
	journal=$(stat -c %s disk.img.dwj)
fi

python3 - "${json:-0}" "${journal:-0}" <<'PY'
import json, os, statistics, sys
def side(name):
    rows = [[float(x) for x in line.split()] for line in open(name + ".times")]
    data, zero = (map(int, open(name + ".bytes").read().split()) if os.path.exists(name + ".bytes") else (None, None))
    return {"seconds": round(statistics.median(r[0] for r in rows), 3), "runs": [round(r[0], 3) for r in rows],
            "peak_kib": int(max(r[1] for r in rows)), "bytes_written": data, "bytes_zeroed": zero}
bare, ours = side("bare"), side("ours")
ours["journal_bytes"] = int(sys.argv[2])
ratio = round(ours["seconds"] / bare["seconds"], 2)
if sys.argv[1] == "1":
    print(json.dumps({"bare": bare, "diskwright": ours, "ratio": ratio}, indent=2))
else:
    show = lambda n: "?" if n is None else f"{n / 1024:,.0f} KiB"
    print(f"{'':24}{'bare programs':>16}{'diskwright':>16}")
    print(f"{'seconds, median':24}{bare['seconds']:>16}{ours['seconds']:>16}   ratio {ratio}")
    print(f"{'largest process':24}{show(bare['peak_kib'] * 1024):>16}{show(ours['peak_kib'] * 1024):>16}")
    print(f"{'written to the disk':24}{show(bare['bytes_written']):>16}{show(ours['bytes_written']):>16}")
    print(f"{'zeroed by ranges':24}{show(bare['bytes_zeroed']):>16}{show(ours['bytes_zeroed']):>16}")
    print(f"{'journal':24}{'':>16}{show(ours['journal_bytes']):>16}")
PY

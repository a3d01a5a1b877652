/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The journal's records: bytes in, structs out, and back.  No I/O.
 *
 * All numbers are little-endian.  D is an XXH3-128 digest in canonical form.
 *
 * FILE
 *	0        header slot 0 (64 KiB)
 *	65536    header slot 1 (64 KiB)
 *	131072   body: per step a chain of DATA frames, then one PROGRAM frame
 *	...      undo: per step room for a chain of PREIMAGE frames
 * Frames and areas start at multiples of 4096.
 *
 * HEADER SLOT (only the first `length` bytes count)
 *	0   8   magic "DWJHEAD1"          8   4   version (1)
 *	12  4   length, digest included   16  16  id of the journal (the salt)
 *	32  8   generation                40  4   state
 *	44  4   step                      48  4   number of steps
 *	52  4   flags (1: the way back is an undo)
 *	56  8   time of sealing           64  8   old size of the disk
 *	72  8   new size                  80  4   logical block size
 *	84  4   number of guards          88  4   number of samples
 *	92  4   length of the text        96  8   bytes that the program writes
 *	104 8   offset of the PROGRAM frame
 *	112 16  D of the PROGRAM frame    128 32  zero
 *	160     samples: u64 offset, u32 length, u32 zero, D[16]
 *	        guards: u64 offset, u32 length, u32 kind, u32 position, u32 zero,
 *	                old content[length], final content[length]
 *	        text (the command)
 *	        D over all that precedes
 * A slot is valid when magic, version, every length and D hold.  The valid
 * slot with the higher generation is the journal's state; the next one is
 * written to the other slot.
 *
 * FRAME
 *	0   8   magic "DWFRAME1"          8   4   type
 *	12  4   step                      16  16  id of the journal
 *	32  8   number in its chain       40  4   flags (1: last of its chain)
 *	44  4   number of entries         48  8   payload length
 *	56  8   zero
 *	64      payload, entries (u64 offset, u64 length, u32 kind, u32 zero, D[16])
 *	        D over the digest of the frame before (zero for the first) and
 *	        all that precedes
 * A DATA entry names what the range will hold (its bytes follow each other in
 * the payload; a ZERO entry has none) and the D of its old content.  PREIMAGE
 * entries cover the same ranges in the same order with the old content.
 */
#ifndef DW_RECORD_H
#define DW_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_SIZE 16
#define JOURNAL_ID_SIZE 16
#define JOURNAL_SLOT_SIZE 65536
#define JOURNAL_BODY_OFFSET (2 * JOURNAL_SLOT_SIZE)
#define JOURNAL_ALIGN 4096

#define GUARD_MAX 10
#define GUARD_LENGTH_MAX 4096
#define SAMPLE_MAX 16
#define STEP_MAX 16
#define STEP_NAME 64
#define TEXT_MAX 1024

/* The state machine; see journal.h. */
enum journal_state {
	JOURNAL_EMPTY = 0,
	JOURNAL_SEALED,
	JOURNAL_RUNNING,
	JOURNAL_FINALIZING,
	JOURNAL_DONE,
	JOURNAL_UNDOING,     /* the way back from DONE is sealed, nothing written yet */
	JOURNAL_ROLLING_BACK,
	JOURNAL_RESTORING,
	JOURNAL_ROLLED_BACK,
	JOURNAL_STATES,
};

#define JOURNAL_FLAG_UNDO 1u

enum guard_kind {
	GUARD_EXT = 1,   /* ext2/3/4 superblock at `position` in the region */
	GUARD_BLOCK = 2, /* any other signature: a block of text takes its place */
};

struct guard {
	uint64_t offset;   /* on the disk, bytes */
	uint32_t length;   /* bytes, whole logical blocks */
	enum guard_kind kind;
	uint32_t position;
	uint8_t *old, *final; /* LENGTH bytes each, owned */
};

struct sample {
	uint64_t offset;
	uint32_t length;
	uint8_t digest[DIGEST_SIZE];
};

struct journal_header {
	uint8_t id[JOURNAL_ID_SIZE];
	uint64_t generation;
	enum journal_state state;
	uint32_t step, steps, flags;
	int64_t sealed_at;
	uint64_t old_size, new_size;
	uint32_t block_size;
	uint64_t bytes;
	uint64_t program_offset;
	uint8_t program_digest[DIGEST_SIZE];
	struct sample samples[SAMPLE_MAX];
	uint32_t sample_count;
	struct guard guards[GUARD_MAX];
	uint32_t guard_count;
	char text[TEXT_MAX];
};

/* Encode into SLOT (JOURNAL_SLOT_SIZE bytes); returns the bytes to write, a
 * multiple of 4096 with zeros at the end, or 0 when it does not fit. */
size_t header_encode(const struct journal_header *header, uint8_t *slot);

/* Decode a slot.  0, -ENODATA (all zero), -EBADMSG (not valid), -ENOMEM.
 * The guards' content is owned by HEADER: free with header_free(). */
int header_decode(const uint8_t *slot, struct journal_header *header);
void header_free(struct journal_header *header);

/* What stands in the guard's place while it is up: LENGTH bytes into IMAGE. */
void guard_image(const struct guard *guard, const uint8_t id[JOURNAL_ID_SIZE], uint8_t *image);

/* Does a superblock or block look like a guard?  The journal's id into ID
 * (all zero when it cannot be told).  SUPER: 1024 bytes of an ext superblock. */
bool guard_super_id(const uint8_t *super, uint8_t id[JOURNAL_ID_SIZE]);

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
void journal_id_text(const uint8_t id[JOURNAL_ID_SIZE], char text[37]);

enum frame_type { FRAME_PROGRAM = 1, FRAME_DATA = 2, FRAME_PREIMAGE = 3 };

#define FRAME_FLAG_LAST 1u
#define FRAME_HEADER_SIZE 64
#define FRAME_ENTRY_SIZE 40
#define FRAME_ENTRIES 4096
#define FRAME_PAYLOAD (1024 * 1024)
#define FRAME_SIZE (FRAME_HEADER_SIZE + FRAME_PAYLOAD + FRAME_ENTRIES * FRAME_ENTRY_SIZE + DIGEST_SIZE)

enum content_kind {
	CONTENT_DATA = 1,
	CONTENT_ZERO = 2,
	CONTENT_GONE = 3, /* behind the new end of the disk: only saved, never written forward */
};

struct frame_entry {
	uint64_t offset, length;
	enum content_kind kind;
	uint8_t digest[DIGEST_SIZE];
};

struct frame {
	enum frame_type type;
	uint32_t step;
	uint64_t number;
	bool last;
	uint32_t entries;
	uint64_t payload;
};

/* Bytes that a frame with so much in it takes in the file, padding included. */
size_t frame_stored_size(uint64_t payload, uint32_t entries);

/*
 * Finish BUFFER (FRAME_SIZE + JOURNAL_ALIGN bytes), in which the payload
 * already stands at FRAME_HEADER_SIZE: writes header, entries, digest and
 * padding.  CHAIN: the digest of the frame before, replaced by this one's.
 * Returns frame_stored_size().
 */
size_t frame_encode(const struct frame *frame, const struct frame_entry *entries,
		    const uint8_t id[JOURNAL_ID_SIZE], uint8_t chain[DIGEST_SIZE],
		    uint8_t *buffer);

/* Look at a frame header (FRAME_HEADER_SIZE bytes): 0 or -EBADMSG. */
int frame_peek(const uint8_t *buffer, const uint8_t id[JOURNAL_ID_SIZE], struct frame *frame);

/*
 * Check the whole frame in BUFFER and its place in the chain, and decode its
 * entries into ENTRIES (FRAME_ENTRIES of them): their payload adds up, no
 * range overflows.  0 or -EBADMSG.
 */
int frame_decode(const uint8_t *buffer, const struct frame *frame, uint8_t chain[DIGEST_SIZE],
		 struct frame_entry *entries);

/* The PROGRAM frame's payload: what each step is and where its parts are. */
struct step {
	char name[STEP_NAME];
	uint32_t kind;             /* 1: apply */
	uint64_t bytes;            /* content written, zeros not counted */
	uint64_t body_offset, body_length;
	uint64_t undo_offset, undo_length; /* room */
	uint8_t body_digest[DIGEST_SIZE];  /* of the last DATA frame */
};

#define STEP_APPLY 1u
#define STEP_SIZE 128

void step_encode(const struct step *step, uint8_t bytes[STEP_SIZE]);
int step_decode(const uint8_t bytes[STEP_SIZE], struct step *step);

void digest_of(const void *data, size_t length, uint8_t digest[DIGEST_SIZE]);

#endif

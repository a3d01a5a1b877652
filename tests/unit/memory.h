/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A sparse device in memory for tests.  It aborts when the dispatcher hands it
 * a range that its block size or its end forbids.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

#include "device/device.h"

enum memory_op { MEMORY_READ, MEMORY_WRITE, MEMORY_ZERO, MEMORY_SYNC };

/* Asked before each operation; what it returns, if not 0, becomes the result. */
typedef int memory_hook(void *opaque, enum memory_op op, uint64_t offset, uint64_t length);

/* All zeros at first.  Set read_only in the device itself. */
int device_open_memory(uint64_t size, uint32_t block_size, struct device **out);

void memory_set_hook(struct device *memory, memory_hook *hook, void *opaque);

/* Bytes of memory that hold its content. */
uint64_t memory_stored(struct device *memory);

#endif

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A partition: the simplest row of pieces. */
#include "device/device.h"

int device_open_window(struct device *lower, uint64_t offset, uint64_t length, struct device **out)
{
	struct device_segment segment = { lower, offset, length };

	return device_open_linear(&segment, 1, out);
}

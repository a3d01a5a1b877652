/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "core/extents.h"
#include "random.h"

#define SPACE 400 /* bytes of the model */
#define NOTHING 255

/* What must hold of every list: ascending, disjoint, merged. */
static void assert_well_formed(const struct extents *x)
{
	assert_true(x->count <= x->capacity);
	for (size_t i = 0; i < x->count; i++) {
		const struct extent *e = &x->list[i];

		assert_true(e->length > 0);
		if (i == 0)
			continue;
		assert_true(e[-1].offset + e[-1].length <= e->offset);
		if (e[-1].offset + e[-1].length == e->offset)
			assert_int_not_equal(e[-1].value, e->value);
	}
}

static void assert_list(const struct extents *x, const struct extent *expected, size_t count)
{
	assert_well_formed(x);
	assert_int_equal(x->count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(x->list[i].offset, expected[i].offset);
		assert_int_equal(x->list[i].length, expected[i].length);
		assert_int_equal(x->list[i].value, expected[i].value);
	}
}
#define ASSERT_LIST(x, ...) \
	assert_list(x, (const struct extent[]){ __VA_ARGS__ }, \
		    sizeof((const struct extent[]){ __VA_ARGS__ }) / sizeof(struct extent))

static void neighbours_of_one_value_merge(void **state)
{
	struct extents x = { 0 };

	assert_int_equal(extents_set(&x, 10, 10, 1), 0);
	assert_int_equal(extents_set(&x, 30, 10, 1), 0);
	ASSERT_LIST(&x, { 10, 10, 1 }, { 30, 10, 1 });
	assert_int_equal(extents_set(&x, 20, 10, 1), 0);
	ASSERT_LIST(&x, { 10, 30, 1 });
	assert_int_equal(extents_set(&x, 40, 5, 2), 0);
	ASSERT_LIST(&x, { 10, 30, 1 }, { 40, 5, 2 });
	extents_free(&x);
	assert_int_equal(x.count, 0);
}

static void a_range_in_the_middle_splits(void **state)
{
	struct extents x = { 0 };

	extents_set(&x, 0, 100, 1);
	extents_set(&x, 40, 20, 2);
	ASSERT_LIST(&x, { 0, 40, 1 }, { 40, 20, 2 }, { 60, 40, 1 });
	extents_remove(&x, 50, 20);
	ASSERT_LIST(&x, { 0, 40, 1 }, { 40, 10, 2 }, { 70, 30, 1 });
	extents_set(&x, 0, 100, 3);
	ASSERT_LIST(&x, { 0, 100, 3 });
	extents_remove(&x, 0, 100);
	assert_int_equal(x.count, 0);
	extents_free(&x);
}

static void find_gives_the_first_that_ends_after(void **state)
{
	struct extents x = { 0 };

	assert_int_equal(extents_find(&x, 0), 0);
	extents_set(&x, 10, 10, 1);
	extents_set(&x, 30, 10, 2);
	assert_int_equal(extents_find(&x, 0), 0);
	assert_int_equal(extents_find(&x, 19), 0);
	assert_int_equal(extents_find(&x, 20), 1);
	assert_int_equal(extents_find(&x, 39), 1);
	assert_int_equal(extents_find(&x, 40), 2);
	assert_int_equal(extents_find(&x, UINT64_MAX), 2);
	extents_free(&x);
}

static void the_last_byte_of_64_bits(void **state)
{
	struct extents x = { 0 };

	assert_int_equal(extents_set(&x, UINT64_MAX - 10, 10, 1), 0);
	assert_int_equal(extents_set(&x, UINT64_MAX - 5, 5, 2), 0);
	ASSERT_LIST(&x, { UINT64_MAX - 10, 5, 1 }, { UINT64_MAX - 5, 5, 2 });
	assert_int_equal(extents_set(&x, UINT64_MAX - 5, 6, 3), -EOVERFLOW);
	assert_int_equal(extents_set(&x, 1, UINT64_MAX, 3), -EOVERFLOW);
	assert_int_equal(extents_remove(&x, UINT64_MAX, 1), -EOVERFLOW);
	ASSERT_LIST(&x, { UINT64_MAX - 10, 5, 1 }, { UINT64_MAX - 5, 5, 2 });
	assert_int_equal(extents_remove(&x, 0, UINT64_MAX), 0);
	assert_int_equal(x.count, 0);
	extents_free(&x);
}

static void nothing_to_set_or_remove(void **state)
{
	struct extents x = { 0 };

	assert_int_equal(extents_set(&x, 7, 0, 1), 0);
	assert_int_equal(extents_remove(&x, 7, 0), 0);
	assert_int_equal(extents_remove(&x, 0, 1000), 0);
	assert_int_equal(x.count, 0);
	extents_free(&x);
}

static void random_calls_equal_a_plain_array(void **state)
{
	struct random random = { 1 };
	uint8_t model[SPACE];
	struct extents x = { 0 };

	memset(model, NOTHING, sizeof(model));
	for (int i = 0; i < 20000; i++) {
		uint64_t offset = random_below(&random, SPACE);
		uint64_t length = random_below(&random, SPACE - offset + 1);
		uint32_t value = random_below(&random, 4);

		if (i % 4)
			length = length > 12 ? length % 12 : length;
		if (value == 3)
			assert_int_equal(extents_remove(&x, offset, length), 0);
		else
			assert_int_equal(extents_set(&x, offset, length, value), 0);
		memset(model + offset, value == 3 ? NOTHING : value, length);
		assert_well_formed(&x);
		for (uint64_t at = 0; at < SPACE; at++) {
			size_t found = extents_find(&x, at);
			bool in = found < x.count && x.list[found].offset <= at;

			assert_int_equal(in ? x.list[found].value : NOTHING, model[at]);
		}
	}
	extents_free(&x);
}

/* A list that is built front to back must not be copied at each step. */
static void ascending_inserts_are_cheap(void **state)
{
	const size_t count = 2000000;
	struct extents x = { 0 };
	size_t growths = 0, capacity = 0;
	clock_t start = clock();

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(extents_set(&x, i * 8192, 4096, 0), 0);
		growths += x.capacity != capacity;
		capacity = x.capacity;
	}
	assert_int_equal(x.count, count);
	assert_true(growths < 100);
	assert_true((clock() - start) / CLOCKS_PER_SEC < 20);
	extents_free(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_of_one_value_merge),
		cmocka_unit_test(a_range_in_the_middle_splits),
		cmocka_unit_test(find_gives_the_first_that_ends_after),
		cmocka_unit_test(the_last_byte_of_64_bits),
		cmocka_unit_test(nothing_to_set_or_remove),
		cmocka_unit_test(random_calls_equal_a_plain_array),
		cmocka_unit_test(ascending_inserts_are_cheap),
	};

	return cmocka_run_group_tests_name("extents", tests, NULL, NULL);
}

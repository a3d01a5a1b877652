/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "diskwright/size.h"

#define KIB 1024ull
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define PIB (1024 * TIB)
#define EIB (1024 * PIB)

/* Products of fractions: computed with exact rationals by another program. */
static const struct {
	const char *text;
	enum dw_size_kind kind;
	uint64_t value;
} good[] = {
	{ "0", DW_SIZE_BYTES, 0 },
	{ "512", DW_SIZE_BYTES, 512 },
	{ "0512", DW_SIZE_BYTES, 512 },
	{ "512B", DW_SIZE_BYTES, 512 },
	{ "18446744073709551615", DW_SIZE_BYTES, UINT64_MAX },
	{ "1K", DW_SIZE_BYTES, KIB },
	{ "1k", DW_SIZE_BYTES, KIB },
	{ "1KiB", DW_SIZE_BYTES, KIB },
	{ "1kB", DW_SIZE_BYTES, 1000 },
	{ "10M", DW_SIZE_BYTES, 10 * MIB },
	{ "10MiB", DW_SIZE_BYTES, 10 * MIB },
	{ "10MB", DW_SIZE_BYTES, 10000000 },
	{ "3G", DW_SIZE_BYTES, 3 * GIB },
	{ "3GB", DW_SIZE_BYTES, 3000000000 },
	{ "16T", DW_SIZE_BYTES, 16 * TIB },
	{ "2P", DW_SIZE_BYTES, 2 * PIB },
	{ "15E", DW_SIZE_BYTES, 15 * EIB },
	{ "18EB", DW_SIZE_BYTES, 18000000000000000000u },
	{ "1.5G", DW_SIZE_BYTES, 1610612736 },
	{ "1.50GiB", DW_SIZE_BYTES, 1610612736 },
	{ "2.5MB", DW_SIZE_BYTES, 2500000 },
	{ "0.1K", DW_SIZE_BYTES, 102 },
	{ "7.9E", DW_SIZE_BYTES, 9108079886394091110 },
	{ "15.999E", DW_SIZE_BYTES, 18445591152204944769u },
	{ "1.000000001GiB", DW_SIZE_BYTES, 1073741825 },
	{ "0.3333333333333333333333333T", DW_SIZE_BYTES, 366503875925 },
	{ "18.446744073709551615EB", DW_SIZE_BYTES, UINT64_MAX },
	{ "0.000000000000000001E", DW_SIZE_BYTES, 1 },
	{ "15.9999999999999999999999E", DW_SIZE_BYTES, UINT64_MAX },
	{ "+2G", DW_SIZE_PLUS, 2 * GIB },
	{ "+0.5M", DW_SIZE_PLUS, MIB / 2 },
	{ "-500M", DW_SIZE_MINUS, 500 * MIB },
	{ "-1", DW_SIZE_MINUS, 1 },
	{ "0%", DW_SIZE_PERCENT, 0 },
	{ "50%", DW_SIZE_PERCENT, 50 },
	{ "100%", DW_SIZE_PERCENT, 100 },
	{ "max", DW_SIZE_MAX, 0 },
	{ "min", DW_SIZE_MIN, 0 },
};

static const struct {
	const char *text;
	int error;
} bad[] = {
	{ "", -EINVAL }, { " ", -EINVAL }, { "G", -EINVAL }, { "ten", -EINVAL }, { "+", -EINVAL },
	{ "-", -EINVAL }, { "%", -EINVAL }, { ".5G", -EINVAL }, { "1.G", -EINVAL }, { "1.5", -EINVAL },
	{ "1.5B", -EINVAL }, { "1.0", -EINVAL }, { "1..5G", -EINVAL }, { "1,5G", -EINVAL },
	{ "10X", -EINVAL }, { "10MM", -EINVAL }, { "10Mib", -EINVAL }, { "10Mi", -EINVAL },
	{ "10iB", -EINVAL }, { "10 M", -EINVAL }, { " 10M", -EINVAL }, { "10M ", -EINVAL },
	{ "++1", -EINVAL }, { "+-1", -EINVAL }, { "--1", -EINVAL }, { "0x10", -EINVAL },
	{ "1e3", -EINVAL }, { "+50%", -EINVAL }, { "-50%", -EINVAL }, { "5K%", -EINVAL },
	{ "1B%", -EINVAL }, { "5.5%", -EINVAL }, { "50%%", -EINVAL }, { "50%x", -EINVAL },
	{ "maximum", -EINVAL }, { "MAX", -EINVAL }, { "+max", -EINVAL }, { "\xd9\xa1", -EINVAL },
	{ "101%", -ERANGE }, { "99999999999999999999%", -ERANGE },
	{ "18446744073709551616", -ERANGE }, { "16E", -ERANGE }, { "18.446744073709551616EB", -ERANGE },
	{ "17592186044416M", -ERANGE }, { "99999999999999999999999999999999999999999", -ERANGE },
	{ "99999999999999999999999999999999999999999999G", -ERANGE },
};

static void sizes_as_people_write_them(void **state)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct dw_size size;
		int r = dw_size_parse(good[i].text, &size);

		if (r != 0 || size.kind != good[i].kind || size.value != good[i].value)
			fail_msg("\"%s\": %d, kind %d, %llu", good[i].text, r, size.kind,
				 (unsigned long long)size.value);
	}
}

static void what_is_no_size(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct dw_size size;
		int r = dw_size_parse(bad[i].text, &size);

		if (r != bad[i].error)
			fail_msg("\"%s\": %d, not %d", bad[i].text, r, bad[i].error);
	}
}

/* As numfmt --to=iec-i --round=down prints them. */
static void sizes_as_people_read_them(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ 1024, "1 KiB" },
		{ 1536, "1.5 KiB" },
		{ MIB - 1, "1023.9 KiB" },
		{ MIB, "1 MiB" },
		{ 32319826329, "30.1 GiB" },
		{ 1099511627775, "1023.9 GiB" },
		{ 16 * TIB, "16 TiB" },
		{ 1125899906842623, "1023.9 TiB" },
		{ EIB, "1 EiB" },
		{ UINT64_MAX, "15.9 EiB" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[DW_SIZE_TEXT];

		assert_ptr_equal(dw_size_format(cases[i].bytes, text), text);
		assert_string_equal(text, cases[i].text);
		assert_true(strlen(text) < 12);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_as_people_write_them),
		cmocka_unit_test(what_is_no_size),
		cmocka_unit_test(sizes_as_people_read_them),
	};

	return cmocka_run_group_tests_name("size", tests, NULL, NULL);
}

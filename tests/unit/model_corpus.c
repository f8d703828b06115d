// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kept corpus of the fuzzing targets, replayed; and what comes of it by
 * cutting it short or changing a byte, here and there.
 */
#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLVMFuzzerTestOneInput fuzz_safetensors
#include "../fuzz/safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_manifest
#include "../fuzz/manifest.c"
#undef LLVMFuzzerTestOneInput

#define SIZE_MAX_KEPT 65536

typedef int (*target_t)(const uint8_t *data, size_t size);

/* In memory of just that size, so that the sanitizer sees every byte beyond. */
static void run(target_t target, const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	assert_non_null(copy);
	memcpy(copy, data, size);
	target(copy, size);
	free(copy);
}

static void run_changed(target_t target, uint8_t *data, size_t size)
{
	static const uint8_t changes[] = { 0x01, 0x80, 0xff };

	for (size_t i = 0; i < size; i += 1 + size / 64) {
		run(target, data, i);
		for (size_t j = 0; j < COUNT(changes); j++) {
			data[i] ^= changes[j];
			run(target, data, size);
			data[i] ^= changes[j];
		}
	}
}

static unsigned int replay(const char *directory, target_t target)
{
	static uint8_t data[SIZE_MAX_KEPT];
	DIR *entries = opendir(directory);
	struct dirent *entry;
	unsigned int count = 0;

	/* Tests run in the root of the tree. */
	if (!entries)
		fail_msg("there is no %s: run the test in the root of the tree", directory);
	while ((entry = readdir(entries))) {
		char path[512];
		FILE *file;
		size_t size;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		file = fopen(path, "r");
		assert_non_null(file);
		size = fread(data, 1, sizeof(data), file);
		fclose(file);
		run(target, data, size);
		run_changed(target, data, size);
		count++;
	}
	closedir(entries);
	return count;
}

static void safetensors_holds(void **state)
{
	(void)state;
	assert_true(replay("tests/fuzz/corpus/safetensors", fuzz_safetensors) > 0);
}

static void manifest_holds(void **state)
{
	(void)state;
	assert_true(replay("tests/fuzz/corpus/manifest", fuzz_manifest) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(safetensors_holds),
		cmocka_unit_test(manifest_holds),
	};

	return cmocka_run_group_tests_name("model_corpus", tests, NULL, NULL);
}

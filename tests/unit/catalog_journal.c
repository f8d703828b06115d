// SPDX-License-Identifier: GPL-2.0-or-later
/* The file of the embedded store, and what crashes, disks and people do to it. */
#include "../catalog/bed.h"

#include "../../userspace/catalog/journal.h"

#include <sys/resource.h>
#include <sys/stat.h>

static char error[CATALOG_ERROR_LEN];

static int open_journal(struct catalog_journal *journal, struct catalog_entries *entries,
			uint64_t *revision)
{
	error[0] = '\0';
	return catalog_journal_open(journal, bed.path, entries, revision, error);
}

static int append(struct catalog_journal *journal, uint64_t revision, const char *key,
		  const char *value)
{
	struct catalog_write write = { key, value, value ? strlen(value) : 0, 0 };

	return catalog_journal_append(journal, revision, &write, 1, error);
}

static char *read_all(size_t *size)
{
	FILE *file = fopen(bed.path, "r");
	char *text = malloc(1 << 20);

	assert_non_null(file);
	*size = fread(text, 1, 1 << 20, file);
	fclose(file);
	return text;
}

static void write_all(const char *text, size_t size)
{
	FILE *file = fopen(bed.path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, size, file), size);
	fclose(file);
}

static int remove_journal(void **state)
{
	(void)state;
	unlink(bed.path);
	return 0;
}

/* Five transactions after the header: a, b, c are put, b changed, a deleted. */
static void make_journal(void)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	uint64_t revision;

	assert_int_equal(open_journal(&journal, &entries, &revision), 0);
	assert_int_equal(append(&journal, 1, "a", "1"), 0);
	assert_int_equal(append(&journal, 2, "b", "2"), 0);
	assert_int_equal(append(&journal, 3, "c", ""), 0);
	assert_int_equal(append(&journal, 4, "b", "four"), 0);
	assert_int_equal(append(&journal, 5, "a", NULL), 0);
	catalog_journal_close(&journal);
	catalog_entries_clear(&entries);
}

static void check_state(const struct catalog_entries *entries, uint64_t revision, uint64_t lines)
{
	const struct catalog_entry *a = catalog_entries_find(entries, "a");
	const struct catalog_entry *b = catalog_entries_find(entries, "b");
	const struct catalog_entry *c = catalog_entries_find(entries, "c");

	assert_int_equal(revision, lines);
	assert_int_equal(!!a, lines >= 1 && lines < 5);
	assert_int_equal(!!b, lines >= 2);
	assert_int_equal(!!c, lines >= 3);
	if (b) {
		assert_string_equal(b->value, lines >= 4 ? "four" : "2");
		assert_int_equal(b->revision, lines >= 4 ? 4 : 2);
	}
}

static void a_file_torn_at_any_byte_is_what_it_was_before(void **state)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	uint64_t revision, lines;
	size_t size;
	char *text;

	(void)state;
	make_journal();
	text = read_all(&size);
	for (size_t cut = 0; cut <= size; cut++) {
		lines = 0;
		for (size_t i = 0; i < cut; i++)
			lines += text[i] == '\n';
		if (lines)
			lines--; /* the header */
		write_all(text, cut);
		assert_int_equal(open_journal(&journal, &entries, &revision), 0);
		check_state(&entries, revision, lines);
		/* And it can be continued. */
		assert_int_equal(append(&journal, revision + 1, "next", "x"), 0);
		catalog_journal_close(&journal);
		catalog_entries_clear(&entries);
		assert_int_equal(open_journal(&journal, &entries, &revision), 0);
		assert_int_equal(revision, lines + 1);
		assert_non_null(catalog_entries_find(&entries, "next"));
		catalog_journal_close(&journal);
		catalog_entries_clear(&entries);
	}
	free(text);
}

/* What some file systems leave after a crash: the length is there, the bytes are not. */
static void a_tail_of_zeros_is_cut_off(void **state)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	uint64_t revision;
	size_t size;
	char *text;

	(void)state;
	make_journal();
	text = read_all(&size);
	memset(text + size, 0, 100);
	write_all(text, size + 100);
	assert_int_equal(open_journal(&journal, &entries, &revision), 0);
	check_state(&entries, revision, 5);
	assert_int_equal(journal.bytes, size);
	catalog_journal_close(&journal);
	catalog_entries_clear(&entries);
	free(text);
}

static void damage_in_the_middle_is_told_not_hidden(void **state)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	uint64_t revision;
	char *text, *end;
	size_t size, last;

	(void)state;
	make_journal();
	text = read_all(&size);
	end = memrchr(text, '\n', size - 1);
	last = (size_t)(end - text);
	for (size_t i = 0; i < last; i++) {
		size_t line = 1;
		char before = text[i], where[160];

		for (size_t j = 0; j < i; j++)
			line += text[j] == '\n';
		text[i] ^= 1;
		write_all(text, size);
		assert_int_equal(open_journal(&journal, &entries, &revision), -EBADMSG);
		snprintf(where, sizeof(where), "%s:%zu: ", bed.path, line);
		assert_contains(error, where);
		text[i] = before;
	}
	/* And the file was left alone. */
	write_all(text, size);
	assert_int_equal(open_journal(&journal, &entries, &revision), 0);
	check_state(&entries, revision, 5);
	catalog_journal_close(&journal);
	catalog_entries_clear(&entries);
	free(text);
}

static void a_file_that_is_something_else_is_not_touched(void **state)
{
	static const char *const foreign[] = {
		"[section]\nkey = value\n", "no newline", "0123456789abcdef {\"format\":\"other\"",
		"\x7f\n\n\n", "{\"format\":\"distmind-catalog-1\",\"revision\":0}\n",
	};
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	uint64_t revision;
	size_t size;
	char *text;

	(void)state;
	for (size_t i = 0; i < COUNT(foreign); i++) {
		write_all(foreign[i], strlen(foreign[i]));
		assert_int_equal(open_journal(&journal, &entries, &revision), -EBADMSG);
		assert_contains(error, bed.path);
		text = read_all(&size);
		assert_int_equal(size, strlen(foreign[i]));
		assert_memory_equal(text, foreign[i], size);
		free(text);
	}
}

static void a_second_process_is_kept_out(void **state)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal, second;
	uint64_t revision;

	(void)state;
	assert_int_equal(open_journal(&journal, &entries, &revision), 0);
	assert_int_equal(open_journal(&second, &entries, &revision), -EBUSY);
	assert_contains(error, "another process uses");
	catalog_journal_close(&journal);
	assert_int_equal(open_journal(&second, &entries, &revision), 0);
	catalog_journal_close(&second);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	uint64_t revision;

	(void)state;
	assert_int_equal(catalog_journal_open(&journal, "/nowhere/at/all", &entries, &revision,
					      error), -ENOENT);
	assert_contains(error, "/nowhere/at/all");
}

static void put(struct catalog_store *store, const char *key, const void *value, size_t size,
		struct outcome *outcome)
{
	struct catalog_write write = { key, value, size, 0 };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };

	forget(outcome);
	assert_int_equal(catalog_store_txn(store, &txn, keep_outcome, outcome), 0);
	wait_until(outcome->calls);
}

static void get(const char *key, struct outcome *outcome)
{
	forget(outcome);
	assert_int_equal(catalog_store_range(bed.store, key, CATALOG_ONE, keep_outcome, outcome),
			 0);
	wait_until(outcome->calls);
}

static void history_does_not_grow_for_ever(void **state)
{
	struct outcome outcome = { 0 };
	char value[100000];
	struct stat status;

	(void)state;
	bed.store = bed_open();
	memset(value, 'v', sizeof(value));
	for (int i = 0; i < 60; i++) {
		value[0] = (char)('0' + i);
		put(bed.store, "often", value, sizeof(value), &outcome);
		assert_int_equal(outcome.err, 0);
	}
	assert_int_equal(stat(bed.path, &status), 0);
	assert_true(status.st_size < 2 << 20);
	catalog_store_close(bed.store);
	bed.store = bed_open();
	get("often", &outcome);
	assert_int_equal(outcome.entries.rows[0].revision, 60);
	assert_memory_equal(outcome.entries.rows[0].value, value, sizeof(value));
	catalog_store_close(bed.store);
	bed.store = NULL;
	forget(&outcome);
}

static void a_full_disk_loses_nothing(void **state)
{
	struct rlimit limit = { 1000, RLIM_INFINITY }, old;
	struct outcome outcome = { 0 };
	char value[4000];

	(void)state;
	memset(value, 'v', sizeof(value));
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	bed.store = bed_open();
	put(bed.store, "small", "1", 1, &outcome);
	assert_int_equal(outcome.err, 0);
	limit.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	put(bed.store, "large", value, sizeof(value), &outcome);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(outcome.err, -EIO);
	assert_contains(outcome.error, bed.path);
	get("large", &outcome);
	assert_int_equal(outcome.entries.count, 0);
	put(bed.store, "after", "2", 1, &outcome);
	assert_int_equal(outcome.err, 0);
	catalog_store_close(bed.store);
	bed.store = bed_open();
	get("small", &outcome);
	assert_int_equal(outcome.entries.count, 1);
	get("after", &outcome);
	assert_int_equal(outcome.entries.count, 1);
	catalog_store_close(bed.store);
	bed.store = NULL;
	forget(&outcome);
}

/* In the child: writes as fast as it can, and says what was acknowledged. */
_Noreturn static void write_until_killed(int fd)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	struct catalog_entry *entry;
	uint64_t revision;
	char key[32];

	if (open_journal(&journal, &entries, &revision))
		_exit(1);
	for (;;) {
		revision++;
		snprintf(key, sizeof(key), "k%04u", (unsigned int)(revision % 300));
		if (append(&journal, revision, key, key) ||
		    write(fd, &revision, sizeof(revision)) != sizeof(revision))
			_exit(1);
		entry = catalog_entries_put(&entries, key, key, strlen(key));
		if (!entry)
			_exit(1);
		entry->revision = revision;
		/* Often, so that kills fall into this too. */
		if (!(revision % 3) &&
		    catalog_journal_rewrite(&journal, revision, &entries, error))
			_exit(1);
	}
}

static void a_process_that_is_killed_loses_nothing_that_was_acknowledged(void **state)
{
	struct catalog_entries entries = { 0 };
	struct catalog_journal journal;
	uint64_t revision, acknowledged = 0, said;
	char key[32];

	(void)state;
	for (unsigned int round = 1; round < 20; round++) {
		int fds[2], status;
		pid_t child;

		assert_int_equal(pipe(fds), 0);
		child = fork();
		assert_true(child >= 0);
		if (!child) {
			close(fds[0]);
			write_until_killed(fds[1]);
		}
		close(fds[1]);
		for (unsigned int i = 0; i < round % 7; i++)
			if (read(fds[0], &said, sizeof(said)) == sizeof(said))
				acknowledged = said;
		kill(child, SIGKILL);
		while (read(fds[0], &said, sizeof(said)) == sizeof(said))
			acknowledged = said;
		close(fds[0]);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(open_journal(&journal, &entries, &revision), 0);
		/* One more may have been written and not yet said. */
		assert_true(revision >= acknowledged && revision <= acknowledged + 1);
		assert_int_equal(entries.count, revision < 300 ? revision : 300);
		for (uint64_t i = revision; i && i + 300 > revision; i--) {
			snprintf(key, sizeof(key), "k%04u", (unsigned int)(i % 300));
			assert_non_null(catalog_entries_find(&entries, key));
			assert_int_equal(catalog_entries_find(&entries, key)->revision, i);
		}
		catalog_journal_close(&journal);
		catalog_entries_clear(&entries);
		acknowledged = revision;
	}
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup_file, remove_journal)
	const struct CMUnitTest tests[] = {
		TEST(a_file_torn_at_any_byte_is_what_it_was_before),
		TEST(a_tail_of_zeros_is_cut_off),
		TEST(damage_in_the_middle_is_told_not_hidden),
		TEST(a_file_that_is_something_else_is_not_touched),
		TEST(a_second_process_is_kept_out),
		TEST(a_directory_that_is_not_there_is_named),
		TEST(history_does_not_grow_for_ever),
		TEST(a_full_disk_loses_nothing),
		TEST(a_process_that_is_killed_loses_nothing_that_was_acknowledged),
	};

	return cmocka_run_group_tests_name("catalog_journal", tests, setup_directory, teardown_bed);
}

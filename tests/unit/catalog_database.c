// SPDX-License-Identifier: GPL-2.0-or-later
/* The file of the embedded store, and what crashes, disks and people do to it. */
#include "../catalog/bed.h"

#include "../../userspace/catalog/database.h"

#include <grp.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char error[CATALOG_ERROR_LEN];

static int open_database(struct catalog_database **database)
{
	int err;

	error[0] = '\0';
	err = catalog_database_open(database, bed.path, error);
	if (err)
		return err;
	err = catalog_database_check(*database, error);
	if (err)
		catalog_database_close(*database);
	return err;
}

static int put(struct catalog_database *database, const char *key, const void *value, size_t size)
{
	struct catalog_write write = { key, value, size, 0 };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	struct catalog_entries changes = { 0 };
	int err = catalog_database_txn(database, &txn, &changes, error);

	catalog_entries_clear(&changes);
	return err;
}

static int put_text(struct catalog_database *database, const char *key, const char *value)
{
	return put(database, key, value, value ? strlen(value) : 0);
}

/* Everything that is there. */
static void read_all(struct catalog_database *database, struct catalog_entries *entries)
{
	catalog_entries_clear(entries);
	/* No key of these tests begins with anything else. */
	assert_int_equal(catalog_database_range(database, "k", CATALOG_BELOW, entries, error), 0);
}

static char *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "r");
	struct stat status;
	char *text;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &status), 0);
	*size = (size_t)status.st_size;
	text = malloc(*size + 1);
	assert_non_null(text);
	assert_int_equal(fread(text, 1, *size, file), *size);
	fclose(file);
	return text;
}

static void write_file(const char *path, const char *text, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static const char *log_path(void)
{
	static char path[sizeof(bed.path) + 8];

	snprintf(path, sizeof(path), "%s-wal", bed.path);
	return path;
}

static int remove_database(void **state)
{
	(void)state;
	unlink(bed.path);
	unlink(log_path());
	return 0;
}

/* Five transactions: a, b, c are put, b changed, a deleted. */
static void change_some(struct catalog_database *database)
{
	assert_int_equal(put_text(database, "ka", "1"), 0);
	assert_int_equal(put_text(database, "kb", "2"), 0);
	assert_int_equal(put_text(database, "kc", ""), 0);
	assert_int_equal(put_text(database, "kb", "four"), 0);
	assert_int_equal(put_text(database, "ka", NULL), 0);
	assert_int_equal(catalog_database_revision(database), 5);
}

/* As it was after so many of them. */
static void check_some(struct catalog_database *database, uint64_t done)
{
	struct catalog_entries entries = { 0 };
	const struct catalog_entry *a, *b, *c;

	read_all(database, &entries);
	a = catalog_entries_find(&entries, "ka");
	b = catalog_entries_find(&entries, "kb");
	c = catalog_entries_find(&entries, "kc");
	assert_int_equal(!!a, done >= 1 && done < 5);
	assert_int_equal(!!b, done >= 2);
	assert_int_equal(!!c, done >= 3);
	if (a)
		assert_int_equal(a->revision, 1);
	if (b) {
		assert_string_equal(b->value, done >= 4 ? "four" : "2");
		assert_int_equal(b->revision, done >= 4 ? 4 : 2);
	}
	if (c)
		assert_int_equal(c->size, 0);
	catalog_entries_clear(&entries);
}

/* What a machine leaves that lost its power in the middle of a write. */
static void a_log_torn_at_any_byte_is_what_it_was_before(void **state)
{
	struct catalog_database *database;
	size_t size, log_size;
	uint64_t last = 0;
	char *file, *log;

	(void)state;
	assert_int_equal(open_database(&database), 0);
	catalog_database_close(database);
	assert_int_equal(open_database(&database), 0);
	change_some(database);
	file = read_file(bed.path, &size);
	log = read_file(log_path(), &log_size);
	catalog_database_close(database);
	for (size_t cut = 0; last < 5; cut = cut + 317 < log_size ? cut + 317 : log_size) {
		uint64_t revision;

		write_file(bed.path, file, size);
		write_file(log_path(), log, cut);
		if (open_database(&database))
			fail_msg("at %zu: %s", cut, error);
		revision = catalog_database_revision(database);
		/* The longer the more, and nothing by halves. */
		assert_true(revision >= last && revision <= 5);
		check_some(database, revision);
		last = revision;
		/* And it can be continued. */
		assert_int_equal(put_text(database, "knext", "x"), 0);
		assert_int_equal(catalog_database_revision(database), revision + 1);
		catalog_database_close(database);
	}
	free(file);
	free(log);
}

static void damage_is_told_not_hidden(void **state)
{
	struct catalog_database *database;
	unsigned int told = 0, harmless = 0;
	char *file, key[16], value[300];
	size_t size;

	(void)state;
	assert_int_equal(open_database(&database), 0);
	memset(value, 'v', sizeof(value));
	change_some(database);
	for (int i = 0; i < 60; i++) {
		snprintf(key, sizeof(key), "l%03d", i);
		assert_int_equal(put(database, key, value, sizeof(value)), 0);
	}
	catalog_database_close(database);
	file = read_file(bed.path, &size);
	/* All of the file's header, and some of the rest: primes reach every place of a page. */
	for (size_t i = 0; i < size; i += i < 120 ? 1 : 31) {
		char before = file[i];
		int err;

		file[i] ^= (char)(1 << i % 8);
		write_file(bed.path, file, size);
		err = open_database(&database);
		file[i] = before;
		if (err) {
			assert_int_equal(err, -EBADMSG);
			assert_contains(error, bed.path);
			assert_contains(error, "move it away");
			told++;
			continue;
		}
		harmless++;
		check_some(database, 5);
		for (int j = 0; j < 60; j++) {
			struct catalog_entries entries = { 0 };

			snprintf(key, sizeof(key), "l%03d", j);
			assert_int_equal(catalog_database_range(database, key, CATALOG_ONE,
								&entries, error), 0);
			assert_int_equal(entries.count, 1);
			assert_int_equal(entries.rows[0].size, sizeof(value));
			assert_memory_equal(entries.rows[0].value, value, sizeof(value));
			catalog_entries_clear(&entries);
		}
		catalog_database_close(database);
		unlink(log_path());
	}
	/* Bytes that no row uses change nothing; there are fewer of the others than it seems. */
	print_message("# %u told, %u harmless\n", told, harmless);
	assert_true(told > 200);
	/* What was refused was left alone. */
	write_file(bed.path, file, size);
	assert_int_equal(open_database(&database), 0);
	check_some(database, 5);
	catalog_database_close(database);
	free(file);
}

static int write_in(struct catalog_store *store, const char *key, struct outcome *outcome)
{
	struct catalog_write write = { key, "x", 1, 0 };

	forget(outcome);
	assert_int_equal(catalog_store_txn(store, &(struct catalog_txn){
		.writes = &write, .write_count = 1,
	}, keep_outcome, outcome), 0);
	wait_until(outcome->calls);
	return outcome->err;
}

/* A file is open before all of it was read, and what is found then is told whoever asks. */
static void a_damaged_row_is_told_to_whoever_asks_and_left_alone(void **state)
{
	struct outcome outcome = { 0 };
	struct catalog_database *database;
	struct catalog_store *store;
	char *file, *after, *value;
	size_t size, after_size;

	(void)state;
	assert_int_equal(open_database(&database), 0);
	assert_int_equal(put_text(database, "ka", "this will be damaged"), 0);
	assert_int_equal(put_text(database, "kb", "this will not"), 0);
	catalog_database_close(database);
	file = read_file(bed.path, &size);
	value = memmem(file, size, "will be damaged", 15);
	assert_non_null(value);
	value[0] ^= 1;
	write_file(bed.path, file, size);
	store = bed_open();
	assert_int_equal(catalog_store_range(store, "kb", CATALOG_ONE, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -EIO);
	assert_contains(outcome.error, "is damaged (ka)");
	assert_contains(outcome.error, "restore it from a copy");
	assert_int_equal(write_in(store, "kc", &outcome), -EIO);
	assert_contains(outcome.error, "is damaged (ka)");
	forget(&outcome);
	catalog_store_close(store);
	after = read_file(bed.path, &after_size);
	assert_int_equal(after_size, size);
	assert_memory_equal(after, file, size);
	free(file);
	free(after);
}

static void a_file_that_is_something_else_is_not_touched(void **state)
{
	static const char *const foreign[] = {
		"[section]\nkey = value\n", "no newline", "\x7f\n\n\n", "SQLite format 2",
		"SQLite format 3", /* and nothing more */
	};
	struct catalog_database *database;
	size_t size, before_size;
	char *text, *before;
	sqlite3 *other;

	(void)state;
	for (size_t i = 0; i < COUNT(foreign); i++) {
		write_file(bed.path, foreign[i], strlen(foreign[i]));
		assert_int_equal(open_database(&database), -EBADMSG);
		assert_contains(error, bed.path);
		text = read_file(bed.path, &size);
		assert_int_equal(size, strlen(foreign[i]));
		assert_memory_equal(text, foreign[i], size);
		free(text);
	}
	unlink(bed.path);
	assert_int_equal(sqlite3_open(bed.path, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "CREATE TABLE entry (a, b)", NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(other);
	before = read_file(bed.path, &before_size);
	assert_int_equal(open_database(&database), -EBADMSG);
	assert_contains(error, "another program's database");
	text = read_file(bed.path, &size);
	assert_int_equal(size, before_size);
	assert_memory_equal(text, before, size);
	free(text);
	free(before);
	/* And what is no file at all. */
	unlink(bed.path);
	assert_int_equal(mkdir(bed.path, 0700), 0);
	assert_int_not_equal(open_database(&database), 0);
	assert_contains(error, bed.path);
	rmdir(bed.path);
	assert_int_equal(symlink("/etc/passwd", bed.path), 0);
	assert_int_equal(open_database(&database), -ELOOP);
	assert_contains(error, bed.path);
}

static void a_journal_of_an_earlier_version_is_named(void **state)
{
	static const char journal[] =
		"0123456789abcdef {\"format\":\"distmind-catalog-1\",\"revision\":12}\n";
	struct catalog_database *database;
	size_t size;
	char *text;

	(void)state;
	write_file(bed.path, journal, strlen(journal));
	assert_int_equal(open_database(&database), -EBADMSG);
	assert_contains(error, bed.path);
	assert_contains(error, "journal of an earlier version");
	assert_contains(error, "push the models again");
	text = read_file(bed.path, &size);
	assert_int_equal(size, strlen(journal));
	free(text);
}

static void a_newer_format_is_left_to_who_wrote_it(void **state)
{
	struct catalog_database *database;
	sqlite3 *other;

	(void)state;
	assert_int_equal(open_database(&database), 0);
	catalog_database_close(database);
	assert_int_equal(sqlite3_open(bed.path, &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "PRAGMA user_version = 2", NULL, NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(other);
	assert_int_equal(open_database(&database), -EBADMSG);
	assert_contains(error, "version 2");
}

/* Runs it in a process of its own, whose error is shown. */
static int in_child(int (*attempt)(void))
{
	int fds[2], status, err = 0;
	pid_t child;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		err = attempt();
		if (write(fds[1], &err, sizeof(err)) != sizeof(err) ||
		    write(fds[1], error, sizeof(error)) != sizeof(error))
			_exit(1);
		_exit(0);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &err, sizeof(err)), sizeof(err));
	assert_int_equal(read(fds[0], error, sizeof(error)), sizeof(error));
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	return err;
}

static int open_as_another(void)
{
	struct catalog_database *database;

	return open_database(&database);
}

static void a_second_process_is_kept_out(void **state)
{
	struct catalog_database *database;

	(void)state;
	assert_int_equal(open_database(&database), 0);
	assert_int_equal(in_child(open_as_another), -EBUSY);
	assert_contains(error, "another process uses");
	assert_contains(error, bed.path);
	assert_int_equal(put_text(database, "ka", "1"), 0);
	assert_int_equal(in_child(open_as_another), -EBUSY);
	catalog_database_close(database);
	assert_int_equal(in_child(open_as_another), 0);
}

static int open_as_nobody(void)
{
	struct catalog_database *database;

	if (setgroups(0, NULL) || setegid(65534) || seteuid(65534))
		return -EPERM;
	return open_database(&database);
}

static void what_cannot_be_written_is_named(void **state)
{
	struct catalog_database *database;

	(void)state;
	assert_int_equal(catalog_database_open(&database, "/nowhere/at/all", error), -ENOENT);
	assert_contains(error, "/nowhere/at/all");
	assert_contains(error, "directory");
	assert_int_equal(open_database(&database), 0);
	catalog_database_close(database);
	if (geteuid()) {
		print_message("# skipped in part: not root\n");
		return;
	}
	/* The file is nobody's own, and the log cannot be made beside it. */
	assert_int_equal(chown(bed.path, 65534, 65534), 0);
	assert_int_equal(chmod(bed.directory, 0555), 0);
	assert_true(in_child(open_as_nobody) < 0);
	assert_contains(error, bed.path);
	assert_contains(error, "user of distmindd");
	/* The file is another's. */
	assert_int_equal(chown(bed.path, 0, 0), 0);
	assert_int_equal(chmod(bed.path, 0444), 0);
	assert_int_equal(in_child(open_as_nobody), -EACCES);
	assert_contains(error, bed.path);
	assert_int_equal(chmod(bed.directory, 0700), 0);
}

/* A file that somebody removes is written on, but nobody would find that again. */
static void a_file_that_was_taken_away_acknowledges_nothing(void **state)
{
	struct catalog_database *database;
	char aside[sizeof(bed.path) + 8];

	(void)state;
	snprintf(aside, sizeof(aside), "%s.aside", bed.path);
	assert_int_equal(open_database(&database), 0);
	change_some(database);
	assert_int_equal(rename(bed.path, aside), 0);
	assert_int_equal(put_text(database, "kd", "lost"), -EIO);
	assert_contains(error, "was removed or replaced");
	assert_int_equal(catalog_database_revision(database), 5);
	/* Another one in its place is not it. */
	write_file(bed.path, "", 0);
	assert_int_equal(put_text(database, "kd", "lost"), -EIO);
	check_some(database, 5);
	/* It is back. */
	assert_int_equal(rename(aside, bed.path), 0);
	assert_int_equal(put_text(database, "kd", "kept"), 0);
	catalog_database_close(database);
	assert_int_equal(open_database(&database), 0);
	assert_int_equal(catalog_database_revision(database), 6);
	catalog_database_close(database);
}

static void history_does_not_grow_for_ever(void **state)
{
	struct catalog_entries entries = { 0 };
	struct catalog_database *database;
	struct stat file, log;
	char value[100000];

	(void)state;
	assert_int_equal(open_database(&database), 0);
	memset(value, 'v', sizeof(value));
	for (int i = 0; i < 200; i++) {
		value[0] = (char)('0' + i);
		assert_int_equal(put(database, "koften", value, sizeof(value)), 0);
	}
	assert_int_equal(stat(bed.path, &file), 0);
	assert_int_equal(stat(log_path(), &log), 0);
	assert_true(file.st_size + log.st_size < 8 << 20);
	catalog_database_close(database);
	assert_int_equal(stat(bed.path, &file), 0);
	assert_true(file.st_size < 2 << 20);
	assert_int_equal(stat(log_path(), &log), -1);
	assert_int_equal(open_database(&database), 0);
	read_all(database, &entries);
	assert_int_equal(entries.rows[0].revision, 200);
	assert_memory_equal(entries.rows[0].value, value, sizeof(value));
	catalog_entries_clear(&entries);
	catalog_database_close(database);
}

/*
 * A disk that fails: SQLite's own way to the file, with a fault in one write, sync or truncation.
 */

static struct {
	sqlite3_vfs vfs, *real;
	sqlite3_io_methods methods;
	int countdown; /* 1: the next one fails; 0: none */
	bool lasts;    /* and so do all after it */
	int fault;
	bool struck;
} disk;

struct disk_file {
	sqlite3_file base;
	sqlite3_file *real;
};

static sqlite3_file *real_of(sqlite3_file *file)
{
	return ((struct disk_file *)file)->real;
}

static bool strikes(void)
{
	if (!disk.countdown || --disk.countdown)
		return false;
	disk.countdown = disk.lasts;
	disk.struck = true;
	return true;
}

static int disk_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 at)
{
	int half = size / 2;

	if (!strikes())
		return real_of(file)->pMethods->xWrite(real_of(file), data, size, at);
	/* The worst that it can do: some of it is there. */
	real_of(file)->pMethods->xWrite(real_of(file), data, half, at);
	return disk.fault;
}

static int disk_sync(sqlite3_file *file, int flags)
{
	/* Nobody pulls the plug, so that much is not asked of the real one. */
	(void)file;
	(void)flags;
	return strikes() ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int disk_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	return strikes() ? SQLITE_IOERR_TRUNCATE :
			   real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int disk_close(sqlite3_file *file)
{
	int status = real_of(file)->pMethods->xClose(real_of(file));

	free(real_of(file));
	return status;
}

#define PASS(name, parameters, ...)                                                         \
	static int disk_##name parameters                                                   \
	{                                                                                   \
		return real_of(file)->pMethods->x##name(real_of(file), ##__VA_ARGS__);            \
	}
PASS(Read, (sqlite3_file *file, void *data, int size, sqlite3_int64 at), data, size, at)
PASS(FileSize, (sqlite3_file *file, sqlite3_int64 *size), size)
PASS(Lock, (sqlite3_file *file, int level), level)
PASS(Unlock, (sqlite3_file *file, int level), level)
PASS(CheckReservedLock, (sqlite3_file *file, int *result), result)
PASS(FileControl, (sqlite3_file *file, int op, void *arg), op, arg)
PASS(SectorSize, (sqlite3_file *file))
PASS(DeviceCharacteristics, (sqlite3_file *file))

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
	struct disk_file *mine = (struct disk_file *)file;
	int status;

	(void)vfs;
	mine->base.pMethods = NULL;
	mine->real = calloc(1, (size_t)disk.real->szOsFile);
	if (!mine->real)
		return SQLITE_NOMEM;
	status = disk.real->xOpen(disk.real, name, mine->real, flags, out);
	if (status != SQLITE_OK) {
		free(mine->real);
		return status;
	}
	disk.methods = (sqlite3_io_methods){
		.iVersion = 1, .xClose = disk_close, .xRead = disk_Read, .xWrite = disk_write,
		.xTruncate = disk_truncate, .xSync = disk_sync, .xFileSize = disk_FileSize,
		.xLock = disk_Lock, .xUnlock = disk_Unlock,
		.xCheckReservedLock = disk_CheckReservedLock, .xFileControl = disk_FileControl,
		.xSectorSize = disk_SectorSize,
		.xDeviceCharacteristics = disk_DeviceCharacteristics,
	};
	mine->base.pMethods = &disk.methods;
	return SQLITE_OK;
}

static void disk_install(void)
{
	disk.real = sqlite3_vfs_find(NULL);
	disk.vfs = *disk.real;
	disk.vfs.zName = "failing";
	disk.vfs.szOsFile = sizeof(struct disk_file);
	disk.vfs.xOpen = disk_open;
	assert_int_equal(sqlite3_vfs_register(&disk.vfs, 1), SQLITE_OK);
}

#define ROUNDS 40

/* Writes of all kinds; what was acknowledged is what is there. Returns whether the disk failed. */
static bool write_on_bad_disk(int countdown, bool lasts, int fault)
{
	struct catalog_entries entries = { 0 };
	struct catalog_database *database;
	uint64_t revisions[8] = { 0 }, last = 0;
	static char value[20000];
	char key[8];
	int err;

	remove_database(NULL);
	disk.countdown = 0;
	disk.struck = false;
	assert_int_equal(open_database(&database), 0);
	memset(value, 'v', sizeof(value));
	disk.lasts = lasts;
	disk.fault = fault;
	disk.countdown = countdown;
	for (int i = 0; i < ROUNDS; i++) {
		size_t slot = (size_t)(i * 5) % 8;
		bool removal = i % 7 == 6;

		snprintf(key, sizeof(key), "k%zu", slot);
		err = put(database, key, removal ? NULL : value, sizeof(value));
		if (err) {
			assert_int_equal(err, -EIO);
			assert_true(disk.struck);
			assert_contains(error, bed.path);
			if (fault == SQLITE_FULL && strstr(error, "disk is full"))
				assert_contains(error, "make room");
			continue;
		}
		last = catalog_database_revision(database);
		revisions[slot] = removal ? 0 : last;
	}
	/* The disk is well again: so is the store, without a restart. */
	disk.countdown = 0;
	assert_int_equal(put_text(database, "kwell", "1"), 0);
	last = catalog_database_revision(database);
	catalog_database_close(database);
	assert_int_equal(open_database(&database), 0);
	assert_int_equal(catalog_database_revision(database), last);
	read_all(database, &entries);
	for (size_t slot = 0; slot < 8; slot++) {
		const struct catalog_entry *entry;

		snprintf(key, sizeof(key), "k%zu", slot);
		entry = catalog_entries_find(&entries, key);
		assert_int_equal(entry ? entry->revision : 0, revisions[slot]);
	}
	assert_non_null(catalog_entries_find(&entries, "kwell"));
	catalog_entries_clear(&entries);
	catalog_database_close(database);
	return disk.struck;
}

static void a_disk_that_fails_at_any_moment_loses_nothing_acknowledged(void **state)
{
	int countdown;

	(void)state;
	disk_install();
	for (countdown = 1; write_on_bad_disk(countdown, false, SQLITE_FULL); countdown++)
		if (countdown > 60)
			countdown += 6;
	assert_true(countdown > 100);
	for (countdown = 1; countdown < 60; countdown += 3) {
		assert_true(write_on_bad_disk(countdown, true, SQLITE_FULL));
		assert_true(write_on_bad_disk(countdown, true, SQLITE_IOERR_WRITE));
	}
	sqlite3_vfs_unregister(&disk.vfs);
}

/* The same by the kernel: the file may not grow. */
static void a_file_that_cannot_grow_loses_nothing(void **state)
{
	struct rlimit limit = { 70000, RLIM_INFINITY }, old;
	struct catalog_entries entries = { 0 };
	struct catalog_database *database;
	char value[90000];

	(void)state;
	memset(value, 'v', sizeof(value));
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(open_database(&database), 0);
	assert_int_equal(put_text(database, "ksmall", "1"), 0);
	limit.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(put(database, "klarge", value, sizeof(value)), -EIO);
	assert_contains(error, bed.path);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(put_text(database, "kafter", "2"), 0);
	catalog_database_close(database);
	assert_int_equal(open_database(&database), 0);
	read_all(database, &entries);
	assert_int_equal(entries.count, 2);
	assert_non_null(catalog_entries_find(&entries, "ksmall"));
	assert_non_null(catalog_entries_find(&entries, "kafter"));
	catalog_entries_clear(&entries);
	catalog_database_close(database);
}

/* In the child: writes as fast as it can, two keys at a time, and says what was acknowledged. */
_Noreturn static void write_until_killed(int fd)
{
	struct catalog_database *database;
	static char value[9000];
	uint64_t revision;

	if (open_database(&database))
		_exit(1);
	memset(value, 'v', sizeof(value));
	for (;;) {
		uint64_t next = catalog_database_revision(database) + 1;
		struct catalog_entries changes = { 0 };
		char keys[2][16];
		struct catalog_write writes[2] = {
			{ keys[0], value, sizeof(value) - next % 300, 0 },
			{ keys[1], keys[0], sizeof(keys[0]), 0 },
		};
		struct catalog_txn txn = { .writes = writes, .write_count = 2 };

		snprintf(keys[0], sizeof(keys[0]), "k%04u", (unsigned int)(next % 300));
		snprintf(keys[1], sizeof(keys[1]), "kk%04u", (unsigned int)(next % 300));
		if (catalog_database_txn(database, &txn, &changes, error))
			_exit(1);
		catalog_entries_clear(&changes);
		revision = catalog_database_revision(database);
		if (revision != next || write(fd, &revision, sizeof(revision)) != sizeof(revision))
			_exit(1);
	}
}

static void check_after_kill(uint64_t *acknowledged)
{
	struct catalog_entries entries = { 0 };
	struct catalog_database *database;
	uint64_t revision;
	char key[16];

	if (open_database(&database))
		fail_msg("%s", error);
	revision = catalog_database_revision(database);
	/* One more may have been written and not yet said. */
	assert_true(revision >= *acknowledged && revision <= *acknowledged + 1);
	read_all(database, &entries);
	assert_int_equal(entries.count, 2 * (revision < 300 ? revision : 300));
	for (uint64_t i = revision; i && i + 300 > revision; i--) {
		const struct catalog_entry *entry, *other;

		snprintf(key, sizeof(key), "k%04u", (unsigned int)(i % 300));
		entry = catalog_entries_find(&entries, key);
		snprintf(key, sizeof(key), "kk%04u", (unsigned int)(i % 300));
		other = catalog_entries_find(&entries, key);
		assert_non_null(entry);
		assert_non_null(other);
		assert_int_equal(entry->revision, i);
		assert_int_equal(other->revision, i);
		assert_int_equal(entry->size, 9000 - i % 300);
	}
	catalog_entries_clear(&entries);
	catalog_database_close(database);
	*acknowledged = revision;
}

static void a_process_that_is_killed_loses_nothing_that_was_acknowledged(void **state)
{
	uint64_t acknowledged = 0, said;

	(void)state;
	for (unsigned int round = 1; round <= 40; round++) {
		/* Early ones fall into the making of the file, late ones into checkpoints. */
		unsigned int wait_for = round < 4 ? 0 : round * 7 % 50;
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
		for (unsigned int i = 0; i < wait_for; i++)
			if (read(fds[0], &said, sizeof(said)) == sizeof(said))
				acknowledged = said;
		usleep(round * 131 % 1000);
		kill(child, SIGKILL);
		while (read(fds[0], &said, sizeof(said)) == sizeof(said))
			acknowledged = said;
		close(fds[0]);
		assert_int_equal(waitpid(child, &status, 0), child);
		/* Not by itself. */
		assert_true(WIFSIGNALED(status));
		check_after_kill(&acknowledged);
	}
	assert_true(acknowledged > 500);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, setup_file, remove_database)
	const struct CMUnitTest tests[] = {
		TEST(a_log_torn_at_any_byte_is_what_it_was_before),
		TEST(damage_is_told_not_hidden),
		TEST(a_damaged_row_is_told_to_whoever_asks_and_left_alone),
		TEST(a_file_that_is_something_else_is_not_touched),
		TEST(a_journal_of_an_earlier_version_is_named),
		TEST(a_newer_format_is_left_to_who_wrote_it),
		TEST(a_second_process_is_kept_out),
		TEST(what_cannot_be_written_is_named),
		TEST(a_file_that_was_taken_away_acknowledges_nothing),
		TEST(history_does_not_grow_for_ever),
		TEST(a_disk_that_fails_at_any_moment_loses_nothing_acknowledged),
		TEST(a_file_that_cannot_grow_loses_nothing),
		TEST(a_process_that_is_killed_loses_nothing_that_was_acknowledged),
	};

	return cmocka_run_group_tests_name("catalog_database", tests, setup_directory,
					   teardown_bed);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "journal.h"

#include "../common/hex.h"
#include "encode.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "distmind-catalog-1"
#define CHECKSUM_BYTES 8
#define CHECKSUM_LEN (2 * CHECKSUM_BYTES) /* a space follows */
#define HISTORY_MIN (1024 * 1024)	  /* below this nothing is worth writing anew */

static int complain(char *error, int err, const char *path, const char *what)
{
	snprintf(error, CATALOG_ERROR_LEN, "cannot %s %s: %s", what, path, strerror(-err));
	return err;
}

static bool checksum(const char *text, size_t len, char *hex)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	if (!EVP_Digest(text, len, digest, NULL, EVP_sha256(), NULL))
		return false;
	hex_format(digest, CHECKSUM_BYTES, hex);
	return true;
}

/*
 * Writing
 */

static int write_all(int fd, const char *text, size_t len, uint64_t at)
{
	while (len) {
		ssize_t done = pwrite(fd, text, len, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? -errno : -EIO;
		text += done;
		at += (uint64_t)done;
		len -= (size_t)done;
	}
	return 0;
}

/* Takes the record. */
static int write_record(int fd, json_t *record, uint64_t *at)
{
	char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
	char sum[CHECKSUM_LEN + 1], *line = NULL;
	int len, err = -ENOMEM;

	json_decref(record);
	if (text && checksum(text, strlen(text), sum)) {
		len = asprintf(&line, "%s %s\n", sum, text);
		if (len >= 0) {
			err = write_all(fd, line, (size_t)len, *at);
			if (!err)
				*at += (uint64_t)len;
			free(line);
		}
	}
	free(text);
	return err;
}

static json_t *record_of(uint64_t revision, const struct catalog_write *writes, size_t count)
{
	json_t *record = json_pack("{s:I,s:[],s:[]}", "revision", (json_int_t)revision, "put",
				   "delete");
	json_t *puts = json_object_get(record, "put"), *deletes = json_object_get(record, "delete");
	int err = !record;

	for (size_t i = 0; i < count && !err; i++)
		if (writes[i].value)
			err = json_array_append_new(puts,
						    json_pack("[s,o]", writes[i].key,
							      catalog_base64(writes[i].value,
									     writes[i].size)));
		else
			err = json_array_append_new(deletes, json_string(writes[i].key));
	if (err) {
		json_decref(record);
		return NULL;
	}
	return record;
}

int catalog_journal_append(struct catalog_journal *journal, uint64_t revision,
			   const struct catalog_write *writes, size_t count, char *error)
{
	uint64_t at = journal->bytes;
	int err;

	if (journal->broken)
		return complain(error, -EIO, journal->path, "write");
	err = write_record(journal->fd, record_of(revision, writes, count), &at);
	if (!err && fdatasync(journal->fd))
		err = -errno;
	if (!err) {
		journal->bytes = at;
		return 0;
	}
	complain(error, err, journal->path, "write");
	/*
	 * After a failed sync nobody knows what is on the disk: what is not known to be
	 * undone must not be followed by anything.
	 */
	if (ftruncate(journal->fd, (off_t)journal->bytes) || fdatasync(journal->fd))
		journal->broken = true;
	return err == -ENOMEM ? err : -EIO;
}

bool catalog_journal_is_long(const struct catalog_journal *journal)
{
	return !journal->broken && journal->bytes > HISTORY_MIN + 2 * journal->fresh_bytes;
}

static int by_revision(const void *a, const void *b)
{
	uint64_t left = (*(const struct catalog_entry *const *)a)->revision;
	uint64_t right = (*(const struct catalog_entry *const *)b)->revision;

	return left < right ? -1 : left > right;
}

static int write_entries(int fd, uint64_t revision, const struct catalog_entries *entries,
			 uint64_t *at)
{
	const struct catalog_entry **sorted;
	size_t count = 0;
	int err;

	sorted = calloc(entries->count + 1, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < entries->count; i++)
		if (!entries->rows[i].lease)
			sorted[count++] = &entries->rows[i];
	qsort(sorted, count, sizeof(*sorted), by_revision);
	err = write_record(fd, json_pack("{s:s,s:I}", "format", FORMAT, "revision",
					 (json_int_t)revision), at);
	for (size_t i = 0; i < count && !err; i++) {
		const struct catalog_entry *entry = sorted[i];
		struct catalog_write write = { entry->key, entry->value, entry->size, 0 };

		err = write_record(fd, record_of(entry->revision, &write, 1), at);
	}
	free(sorted);
	return err;
}

/* A name in a directory is only there for good when the directory was synced. */
static int sync_directory(const char *path)
{
	char *copy = strdup(path);
	int fd, err = 0;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	if (fd < 0)
		return -errno;
	/* Some file systems cannot, and need not. */
	if (fsync(fd) && errno != EINVAL)
		err = -errno;
	close(fd);
	return err;
}

int catalog_journal_rewrite(struct catalog_journal *journal, uint64_t revision,
			    const struct catalog_entries *entries, char *error)
{
	char *path = NULL;
	uint64_t at = 0;
	int fd, err;

	if (asprintf(&path, "%s.new", journal->path) < 0)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		err = complain(error, -errno, path, "create");
		free(path);
		return err;
	}
	err = write_entries(fd, revision, entries, &at);
	if (!err && fsync(fd))
		err = -errno;
	if (!err && rename(path, journal->path))
		err = -errno;
	if (err) {
		complain(error, err, path, "write");
		unlink(path);
		close(fd);
		free(path);
		return err;
	}
	free(path);
	/* From here on the new file is the one that a start would find. */
	if (journal->fd >= 0)
		close(journal->fd);
	journal->fd = fd;
	journal->bytes = at;
	journal->fresh_bytes = at;
	journal->broken = false;
	err = sync_directory(journal->path);
	if (err) {
		journal->broken = true;
		return complain(error, err, journal->path, "sync the directory of");
	}
	return 0;
}

/*
 * Reading
 */

/* NULL: not a line that was written completely. */
static json_t *read_record(const char *line, size_t len)
{
	char sum[CHECKSUM_LEN + 1];

	if (len <= CHECKSUM_LEN + 1 || line[CHECKSUM_LEN] != ' ')
		return NULL;
	if (!checksum(line + CHECKSUM_LEN + 1, len - CHECKSUM_LEN - 1, sum) ||
	    memcmp(line, sum, CHECKSUM_LEN))
		return NULL;
	return json_loadb(line + CHECKSUM_LEN + 1, len - CHECKSUM_LEN - 1, JSON_REJECT_DUPLICATES,
			  NULL);
}

static int apply_put(struct catalog_entries *entries, const json_t *put, uint64_t revision)
{
	const char *key = json_string_value(json_array_get(put, 0));
	struct catalog_entry *entry;
	size_t size;
	void *value;

	if (!key || !*key || json_array_size(put) != 2)
		return -EINVAL;
	value = catalog_base64_decode(json_array_get(put, 1), &size);
	if (!value)
		return -EINVAL;
	entry = catalog_entries_put(entries, key, value, size);
	free(value);
	if (!entry)
		return -ENOMEM;
	entry->revision = revision;
	return 0;
}

static int apply(struct catalog_entries *entries, const json_t *record, bool first,
		 uint64_t *revision)
{
	const char *format = json_string_value(json_object_get(record, "format"));
	const json_t *puts = json_object_get(record, "put");
	const json_t *deletes = json_object_get(record, "delete");
	uint64_t number;
	size_t i;
	json_t *item;
	int err = 0;

	if (!catalog_json_u64(record, "revision", &number))
		return -EINVAL;
	if (first ? !format || strcmp(format, FORMAT) : !json_is_array(puts) || !number)
		return -EINVAL;
	json_array_foreach(puts, i, item) {
		err = apply_put(entries, item, number);
		if (err)
			return err;
	}
	json_array_foreach(deletes, i, item) {
		const char *key = json_string_value(item);
		struct catalog_entry *entry = key ? catalog_entries_find(entries, key) : NULL;

		if (entry)
			catalog_entries_remove(entries, entry);
	}
	if (number > *revision)
		*revision = number;
	return 0;
}

static bool any_record(const char *text, const char *end)
{
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		json_t *record = stop ? read_record(text, (size_t)(stop - text)) : NULL;

		if (record) {
			json_decref(record);
			return true;
		}
		if (!stop)
			return false;
		text = stop + 1;
	}
	return false;
}

static bool is_torn_header(const char *text, size_t size)
{
	static const char header[] = "{\"format\":\"" FORMAT "\",\"revision\":";
	size_t rest = size > CHECKSUM_LEN + 1 ? size - CHECKSUM_LEN - 1 : 0;

	for (size_t i = 0; i < size && i < CHECKSUM_LEN; i++)
		if (!isxdigit((unsigned char)text[i]))
			return false;
	if (rest > sizeof(header) - 1)
		rest = sizeof(header) - 1;
	return size < CHECKSUM_LEN + sizeof(header) + 32 &&
	       !memcmp(text + CHECKSUM_LEN + 1, header, rest);
}

/* good: how many bytes are complete lines. */
static int read_text(const char *path, const char *text, size_t size,
		     struct catalog_entries *entries, uint64_t *revision, uint64_t *good,
		     char *error)
{
	const char *end = text + size, *start = text;

	for (unsigned long line = 1; text < end; line++) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		json_t *record = stop ? read_record(text, (size_t)(stop - text)) : NULL;
		int err;

		if (!record) {
			if (!stop || !any_record(stop + 1, end))
				break;
			snprintf(error, CATALOG_ERROR_LEN,
				 "%s:%lu: the line is damaged and others follow: restore the "
				 "file from a copy, or delete the line and lose what it said",
				 path, line);
			return -EBADMSG;
		}
		err = apply(entries, record, line == 1, revision);
		json_decref(record);
		if (err) {
			snprintf(error, CATALOG_ERROR_LEN, "%s:%lu: %s", path, line,
				 err == -ENOMEM ? "no memory" : line == 1 ?
				 "not the beginning of a " FORMAT " file: is it another file, "
				 "or of a newer version?" :
				 "not a transaction: is the file of a newer version?");
			return err;
		}
		text = stop + 1;
	}
	*good = (uint64_t)(text - start);
	/* Better refused than overwritten. */
	if (size && !*good && !is_torn_header(start, size)) {
		snprintf(error, CATALOG_ERROR_LEN,
			 "%s:1: not a " FORMAT " file: give another path, or move it away", path);
		return -EBADMSG;
	}
	return 0;
}

static int read_file(struct catalog_journal *journal, struct catalog_entries *entries,
		     uint64_t *revision, char *error)
{
	struct stat status;
	char *text;
	int err;

	if (fstat(journal->fd, &status))
		return complain(error, -errno, journal->path, "read");
	if (!S_ISREG(status.st_mode))
		return complain(error, -EINVAL, journal->path, "use what is not a file");
	if (!status.st_size)
		return 0;
	text = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, journal->fd, 0);
	if (text == MAP_FAILED)
		return complain(error, -errno, journal->path, "read");
	err = read_text(journal->path, text, (size_t)status.st_size, entries, revision,
			&journal->bytes, error);
	munmap(text, (size_t)status.st_size);
	if (!err && journal->bytes < (uint64_t)status.st_size &&
	    (ftruncate(journal->fd, (off_t)journal->bytes) || fdatasync(journal->fd)))
		return complain(error, -errno, journal->path, "truncate");
	return err;
}

static int take_lock(struct catalog_journal *journal, char *error)
{
	char *path = NULL;
	int err = 0;

	if (asprintf(&path, "%s.lock", journal->path) < 0)
		return -ENOMEM;
	journal->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (journal->lock < 0)
		err = complain(error, -errno, path, "create");
	/* A kernel without CONFIG_FILE_LOCKING: rather unguarded than not at all. */
	else if (flock(journal->lock, LOCK_EX | LOCK_NB) && errno != ENOSYS) {
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
		if (err == -EBUSY)
			snprintf(error, CATALOG_ERROR_LEN,
				 "another process uses %s: stop it first, or use etcd to share a "
				 "catalog", journal->path);
		else
			complain(error, err, path, "lock");
	}
	free(path);
	return err;
}

int catalog_journal_open(struct catalog_journal *journal, const char *path,
			 struct catalog_entries *entries, uint64_t *revision, char *error)
{
	int err = -ENOMEM;

	*journal = (struct catalog_journal){ .path = strdup(path), .fd = -1, .lock = -1 };
	*revision = 0;
	snprintf(error, CATALOG_ERROR_LEN, "no memory");
	if (!journal->path)
		goto fail;
	err = take_lock(journal, error);
	if (err)
		goto fail;
	journal->fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (journal->fd < 0 && errno != ENOENT) {
		err = complain(error, -errno, path, "open");
		goto fail;
	}
	err = journal->fd >= 0 ? read_file(journal, entries, revision, error) : 0;
	if (!err && (!journal->bytes || catalog_journal_is_long(journal)))
		err = catalog_journal_rewrite(journal, *revision, entries, error);
	if (err)
		goto fail;
	return 0;
fail:
	catalog_journal_close(journal);
	catalog_entries_clear(entries);
	return err;
}

void catalog_journal_close(struct catalog_journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	if (journal->lock >= 0)
		close(journal->lock);
	free(journal->path);
	*journal = (struct catalog_journal){ .fd = -1, .lock = -1 };
}

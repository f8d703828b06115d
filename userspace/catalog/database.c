// SPDX-License-Identifier: GPL-2.0-or-later
#include "database.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* In the file's header: "DMca", and the format. */
#define APPLICATION 1145922401
#define VERSION 1
#define TEXT(number) #number
#define PRAGMA(name, number) "PRAGMA " name " = " TEXT(number) ";"

/*
 * One tree, so that there is no index that may disagree with it. What stands before the value
 * can be read without it, and values may be large.
 */
static const char schema[] =
	"BEGIN IMMEDIATE;"
	"CREATE TABLE entry (key TEXT NOT NULL PRIMARY KEY, revision INTEGER NOT NULL,"
	" checksum INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL,"
	" entries INTEGER NOT NULL);"
	"INSERT INTO state VALUES (1, 0, 0);"
	PRAGMA("application_id", APPLICATION)
	PRAGMA("user_version", VERSION)
	"COMMIT";

static const char leased_schema[] =
	"CREATE TEMP TABLE leased (key TEXT NOT NULL PRIMARY KEY, revision INTEGER NOT NULL,"
	" lease INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;"
	"CREATE INDEX temp.by_lease ON leased (lease)";

enum statement {
	BEGIN, COMMIT, ROLLBACK,
	FIND, FIND_LEASED, RANGE, NAMES, LEASED,
	PUT, PUT_LEASED, DELETE, DELETE_LEASED, SET_STATE,
	STATEMENTS
};

static const char *const statements[] = {
	[BEGIN] = "BEGIN IMMEDIATE",
	[COMMIT] = "COMMIT",
	[ROLLBACK] = "ROLLBACK",
	[FIND] = "SELECT key, revision, 0, checksum, value FROM main.entry WHERE key = ?1",
	[FIND_LEASED] = "SELECT key, revision, lease, 0, value FROM temp.leased WHERE key = ?1",
	[RANGE] = ("SELECT key, revision, 0, checksum, value FROM main.entry"
		  " WHERE key >= ?1 AND key < ?2 UNION ALL "
		  "SELECT key, revision, lease, 0, value FROM temp.leased"
		  " WHERE key >= ?1 AND key < ?2 ORDER BY 1"),
	[NAMES] = ("SELECT key, revision, 0 FROM main.entry"
		  " WHERE key >= ?1 AND key < ?2 UNION ALL "
		  "SELECT key, revision, lease FROM temp.leased"
		  " WHERE key >= ?1 AND key < ?2 ORDER BY 1"),
	[LEASED] = "SELECT key, revision, lease FROM temp.leased WHERE lease = ?1 ORDER BY key",
	[PUT] = ("INSERT INTO main.entry VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO UPDATE"
		" SET revision = ?2, checksum = ?3, value = ?4"),
	[PUT_LEASED] = "INSERT OR REPLACE INTO temp.leased VALUES (?1, ?2, ?3, ?4)",
	[DELETE] = "DELETE FROM main.entry WHERE key = ?1",
	[DELETE_LEASED] = "DELETE FROM temp.leased WHERE key = ?1",
	[SET_STATE] = "UPDATE main.state SET revision = ?1, entries = ?2",
};

struct catalog_database {
	char *path;
	sqlite3 *db;
	sqlite3_stmt *statements[STATEMENTS];
	uint64_t revision;
	uint64_t entries; /* rows of the file, of which it knows the number too */
};

/*
 * What is wrong, and what to do about it
 */

static int say(char *error, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int say(char *error, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error, CATALOG_ERROR_LEN, format, args);
	va_end(args);
	return err;
}

static int say_damaged(const struct catalog_database *database, const char *what, char *error)
{
	return say(error, -EBADMSG,
		   "%s is damaged (%.100s): restore it from a copy, or move it away together with "
		   "its -wal and push the models again", database->path, what);
}

/* The last error of the database. */
static int complain(struct catalog_database *database, const char *what, char *error)
{
	const char *path = database->path, *message = sqlite3_errmsg(database->db);
	int cause = sqlite3_system_errno(database->db);

	switch (sqlite3_errcode(database->db)) {
	case SQLITE_NOMEM:
		return say(error, -ENOMEM, "cannot %s %s: no memory", what, path);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return say(error, -EBUSY, "another process uses %s: stop it first, or use etcd to "
			   "share a catalog", path);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return say_damaged(database, message, error);
	case SQLITE_FULL:
		return say(error, -EIO, "cannot %s %s: the disk is full: make room on it", what,
			   path);
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return say(error, -EROFS, "cannot %s %s: it or its directory can only be read: "
			   "give both to the user of distmindd, on a file system that can be "
			   "written", what, path);
	case SQLITE_CANTOPEN:
		return say(error, cause ? -cause : -EIO, "cannot %s %s: %s: its directory has to "
			   "be there and to belong to the user of distmindd", what, path,
			   cause ? strerror(cause) : message);
	case SQLITE_IOERR:
		return say(error, -EIO, "cannot %s %s: %s: see the kernel's log for its disk", what,
			   path, cause ? strerror(cause) : message);
	default:
		/* The statements are right: so the file is not. */
		return say_damaged(database, message, error);
	}
}

/*
 * Statements
 */

static int execute(struct catalog_database *database, const char *sql, const char *what,
		   char *error)
{
	if (sqlite3_exec(database->db, sql, NULL, NULL, NULL) == SQLITE_OK)
		return 0;
	return complain(database, what, error);
}

/* Runs it to its end. */
static int run(struct catalog_database *database, enum statement number, const char *what,
	       char *error)
{
	sqlite3_stmt *statement = database->statements[number];
	int err = 0;

	if (sqlite3_step(statement) != SQLITE_DONE)
		err = complain(database, what, error);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return err;
}

static void bind_key(sqlite3_stmt *statement, int number, const char *key)
{
	sqlite3_bind_text(statement, number, key, -1, SQLITE_STATIC);
}

static int64_t number_of(struct catalog_database *database, const char *sql, int64_t otherwise)
{
	sqlite3_stmt *statement;

	if (sqlite3_prepare_v2(database->db, sql, -1, &statement, NULL) != SQLITE_OK)
		return otherwise;
	if (sqlite3_step(statement) == SQLITE_ROW)
		otherwise = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return otherwise;
}

static uint64_t checksum_of(const char *key, uint64_t revision, const void *value, size_t size)
{
	return XXH3_64bits_withSeed(value, size, XXH3_64bits_withSeed(key, strlen(key), revision));
}

/*
 * Reading
 */

enum { KEY, REVISION, LEASE, CHECKSUM, VALUE }; /* columns */

static int append_row(struct catalog_database *database, sqlite3_stmt *statement,
		      struct catalog_entries *entries, char *error)
{
	const char *key = (const char *)sqlite3_column_text(statement, KEY);
	bool named = sqlite3_column_count(statement) <= VALUE;
	const void *value = named ? NULL : sqlite3_column_blob(statement, VALUE);
	size_t size = named ? 0 : (size_t)sqlite3_column_bytes(statement, VALUE);
	uint64_t revision = (uint64_t)sqlite3_column_int64(statement, REVISION);
	uint64_t lease = (uint64_t)sqlite3_column_int64(statement, LEASE);
	struct catalog_entry *entry;

	if (!key)
		return say(error, -ENOMEM, "no memory");
	/* An empty one is NULL for SQLite. */
	if (!named && !value)
		value = "";
	if (!named && !lease && checksum_of(key, revision, value, size) !=
				(uint64_t)sqlite3_column_int64(statement, CHECKSUM))
		return say_damaged(database, key, error);
	entry = catalog_entries_append(entries, key, value, size);
	if (!entry)
		return say(error, -ENOMEM, "no memory");
	entry->revision = revision;
	entry->lease = lease;
	return 0;
}

static int read_rows(struct catalog_database *database, enum statement number,
		     struct catalog_entries *entries, char *error)
{
	sqlite3_stmt *statement = database->statements[number];
	int status, err = 0;

	while (!err && (status = sqlite3_step(statement)) != SQLITE_DONE)
		err = status == SQLITE_ROW ? append_row(database, statement, entries, error) :
					     complain(database, "read", error);
	sqlite3_reset(statement);
	sqlite3_clear_bindings(statement);
	return err;
}

/* The first key behind all those that begin with it, in place; false: there is none. */
static bool make_end(char *prefix)
{
	for (size_t len = strlen(prefix); len; len--) {
		if ((unsigned char)prefix[len - 1] < 0xff) {
			prefix[len - 1]++;
			prefix[len] = '\0';
			return true;
		}
	}
	return false;
}

int catalog_database_range(struct catalog_database *database, const char *key,
			   enum catalog_scope scope, struct catalog_entries *entries, char *error)
{
	enum statement number = scope == CATALOG_NAMES ? NAMES : RANGE;
	char end[CATALOG_KEY_MAX + 1];
	int err;

	if (scope == CATALOG_ONE) {
		bind_key(database->statements[FIND], 1, key);
		err = read_rows(database, FIND, entries, error);
		if (err || entries->count)
			return err;
		bind_key(database->statements[FIND_LEASED], 1, key);
		return read_rows(database, FIND_LEASED, entries, error);
	}
	snprintf(end, sizeof(end), "%s", key);
	bind_key(database->statements[number], 1, key);
	if (make_end(end))
		bind_key(database->statements[number], 2, end);
	else /* a blob is behind all texts */
		sqlite3_bind_zeroblob(database->statements[number], 2, 0);
	return read_rows(database, number, entries, error);
}

int catalog_database_leased(struct catalog_database *database, uint64_t lease,
			    struct catalog_entries *entries, char *error)
{
	sqlite3_bind_int64(database->statements[LEASED], 1, (sqlite3_int64)lease);
	return read_rows(database, LEASED, entries, error);
}

uint64_t catalog_database_revision(const struct catalog_database *database)
{
	return database->revision;
}

/*
 * Writing
 */

static int compare(struct catalog_database *database, const struct catalog_compare *compare,
		   char *error)
{
	static const enum statement tables[] = { FIND, FIND_LEASED };
	uint64_t revision = 0;

	for (size_t i = 0; i < 2; i++) {
		sqlite3_stmt *statement = database->statements[tables[i]];
		int status, err = 0;

		bind_key(statement, 1, compare->key);
		status = sqlite3_step(statement);
		if (status == SQLITE_ROW)
			revision = (uint64_t)sqlite3_column_int64(statement, REVISION);
		else if (status != SQLITE_DONE)
			err = complain(database, "read", error);
		sqlite3_reset(statement);
		sqlite3_clear_bindings(statement);
		if (err)
			return err;
	}
	return revision == compare->revision ? 0 : -ESTALE;
}

/* removed: how many of that key there were. */
static int delete_from(struct catalog_database *database, enum statement table, const char *key,
		       int *removed, char *error)
{
	int err;

	bind_key(database->statements[table], 1, key);
	err = run(database, table, "write", error);
	*removed = err ? 0 : sqlite3_changes(database->db);
	return err;
}

static int put(struct catalog_database *database, const struct catalog_write *write,
	       uint64_t revision, char *error)
{
	enum statement table = write->lease ? PUT_LEASED : PUT;
	sqlite3_stmt *statement = database->statements[table];
	uint64_t third = write->lease ? write->lease :
			 checksum_of(write->key, revision, write->value, write->size);

	bind_key(statement, 1, write->key);
	sqlite3_bind_int64(statement, 2, (sqlite3_int64)revision);
	sqlite3_bind_int64(statement, 3, (sqlite3_int64)third);
	sqlite3_bind_blob64(statement, 4, write->value, write->size, SQLITE_STATIC);
	return run(database, table, "write", error);
}

/* What a transaction has done so far. */
struct progress {
	struct catalog_entries *changes;
	uint64_t revision, entries;
	bool durable; /* something of the file */
};

static int carry_out(struct catalog_database *database, const struct catalog_write *write,
		     struct progress *progress, char *error)
{
	bool keeps = write->value && !write->lease;
	struct catalog_entry *change;
	int here = 0, leased = 0, err;

	/* A key is in one of the tables at most. */
	err = delete_from(database, DELETE_LEASED, write->key, &leased, error);
	if (!err)
		err = delete_from(database, DELETE, write->key, &here, error);
	if (!err && write->value)
		err = put(database, write, progress->revision, error);
	if (err)
		return err;
	progress->entries = progress->entries - (uint64_t)here + keeps;
	progress->durable |= here || keeps;
	if (!write->value && !here && !leased)
		return 0;
	change = catalog_entries_append(progress->changes, write->key, write->value, write->size);
	if (!change)
		return say(error, -ENOMEM, "no memory");
	change->revision = progress->revision;
	change->lease = write->value ? write->lease : 0;
	return 0;
}

static int write_all(struct catalog_database *database, const struct catalog_txn *txn,
		     struct progress *progress, char *error)
{
	sqlite3_stmt *set_state = database->statements[SET_STATE];
	int err = 0;

	for (size_t i = 0; i < txn->compare_count && !err; i++)
		err = compare(database, &txn->compares[i], error);
	for (size_t i = 0; i < txn->write_count && !err; i++)
		err = carry_out(database, &txn->writes[i], progress, error);
	if (err || !progress->durable)
		return err;
	sqlite3_bind_int64(set_state, 1, (sqlite3_int64)progress->revision);
	sqlite3_bind_int64(set_state, 2, (sqlite3_int64)progress->entries);
	return run(database, SET_STATE, "write", error);
}

/*
 * A file that was removed can be written as before, but is gone with the process: nothing that
 * goes there is to be acknowledged.
 */
static int check_place(struct catalog_database *database, char *error)
{
	int moved = 0;

	if (sqlite3_file_control(database->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) !=
		    SQLITE_OK ||
	    !moved)
		return 0;
	return say(error, -EIO, "%s was removed or replaced while it was in use: put it back, or "
		   "restart distmindd and push the models again", database->path);
}

int catalog_database_txn(struct catalog_database *database, const struct catalog_txn *txn,
			 struct catalog_entries *changes, char *error)
{
	struct progress progress = {
		.changes = changes,
		.revision = database->revision + 1,
		.entries = database->entries,
	};
	char ignored[CATALOG_ERROR_LEN];
	int err = run(database, BEGIN, "write", error);

	if (err)
		return err == -ENOMEM ? err : -EIO;
	err = write_all(database, txn, &progress, error);
	if (!err && progress.durable)
		err = check_place(database, error);
	if (!err)
		err = run(database, COMMIT, "write", error);
	if (!err) {
		database->revision += changes->count > 0;
		database->entries = progress.entries;
		return 0;
	}
	catalog_entries_clear(changes);
	/* Some errors have ended the transaction already. */
	if (!sqlite3_get_autocommit(database->db))
		run(database, ROLLBACK, "write", ignored);
	return err == -ESTALE || err == -ENOMEM ? err : -EIO;
}

/*
 * Opening
 */

/* A file of our own has to be told from others before anything writes to it. */
static int check_file(struct catalog_database *database, bool *fresh, char *error)
{
	static const char journal[] = "{\"format\":\"distmind-catalog-";
	const char *path = database->path;
	char head[64] = "";
	struct stat status;
	ssize_t len = 0;
	int fd;

	*fresh = true;
	/* The log and all that SQLite makes beside it get the same mode. */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0 || fstat(fd, &status)) {
		int err = -errno;

		if (fd >= 0)
			close(fd);
		return say(error, err, "cannot open %s: %s: it has to be a file that the user of "
			   "distmindd can write, in a directory that is there", path,
			   strerror(-err));
	}
	if (S_ISREG(status.st_mode))
		len = pread(fd, head, sizeof(head) - 1, 0);
	close(fd);
	if (!S_ISREG(status.st_mode))
		return say(error, -EINVAL, "cannot use %s: it is not a file", path);
	if (len > 17 && !strncmp(head + 17, journal, strlen(journal)))
		return say(error, -EBADMSG, "%s is the journal of an earlier version, which is not "
			   "read any more: move it away and push the models again", path);
	if (len && memcmp(head, "SQLite format 3", 16))
		return say(error, -EBADMSG, "%s is not a catalog: give another path, or move it "
			   "away", path);
	*fresh = !len;
	return 0;
}

/* fresh: a start that did not come to its end may have left an empty one. */
static int check_owner(struct catalog_database *database, bool *fresh, char *error)
{
	int64_t application, tables, version;

	/* The first statement takes the lock. */
	if (sqlite3_exec(database->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) !=
	    SQLITE_OK)
		return complain(database, "open", error);
	/* The file itself was opened for writing before. */
	if (sqlite3_db_readonly(database->db, "main"))
		return say_damaged(database, "its header says that it can only be read", error);
	tables = number_of(database, "SELECT count(*) FROM sqlite_schema", -1);
	application = number_of(database, "PRAGMA application_id", -1);
	version = number_of(database, "PRAGMA user_version", -1);
	*fresh = !tables && !application;
	if (*fresh)
		return 0;
	if (application != APPLICATION)
		return say(error, -EBADMSG, "%s is another program's database: give another path, "
			   "or move it away", database->path);
	if (version != VERSION)
		return say(error, -EBADMSG, "%s has version %lld of the catalog's format, this is "
			   "%d: use the distmindd that wrote it, or move it away and push the "
			   "models again", database->path, (long long)version, VERSION);
	return 0;
}

static int prepare(struct catalog_database *database, char *error)
{
	for (size_t i = 0; i < STATEMENTS; i++)
		if (sqlite3_prepare_v3(database->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
				       &database->statements[i], NULL) != SQLITE_OK)
			return complain(database, "read", error);
	return 0;
}

static int open_file(struct catalog_database *database, char *error)
{
	/* Nobody else comes in until it is closed, and so no shared memory is needed. */
	static const char before[] = "PRAGMA locking_mode = EXCLUSIVE;"
				     "PRAGMA temp_store = MEMORY;"
				     "PRAGMA trusted_schema = OFF;"
				     "PRAGMA cell_size_check = ON;"
				     "PRAGMA journal_size_limit = 4194304";
	bool fresh;
	int err = check_file(database, &fresh, error);

	if (err)
		return err;
	if (sqlite3_open_v2(database->path, &database->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return database->db ? complain(database, "open", error) :
				      say(error, -ENOMEM, "no memory");
	sqlite3_extended_result_codes(database->db, 0);
	err = execute(database, before, "open", error);
	if (!err)
		err = check_owner(database, &fresh, error);
	if (!err)
		err = execute(database, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
			      "write", error);
	if (!err && fresh)
		err = execute(database, schema, "write", error);
	if (!err)
		err = execute(database, leased_schema, "open", error);
	if (!err)
		err = prepare(database, error);
	if (err)
		return err;
	database->revision = (uint64_t)number_of(database, "SELECT revision FROM state", -1);
	database->entries = (uint64_t)number_of(database, "SELECT entries FROM state", -1);
	if (database->revision >= INT64_MAX || database->entries >= INT64_MAX)
		return say_damaged(database, "it does not know its revision", error);
	return 0;
}

int catalog_database_open(struct catalog_database **result, const char *path, char *error)
{
	struct catalog_database *database = calloc(1, sizeof(*database));
	int err;

	snprintf(error, CATALOG_ERROR_LEN, "no memory");
	if (!database)
		return -ENOMEM;
	database->path = strdup(path);
	err = database->path ? open_file(database, error) : -ENOMEM;
	if (err) {
		catalog_database_close(database);
		return err;
	}
	*result = database;
	return 0;
}

int catalog_database_check(struct catalog_database *database, char *error)
{
	struct catalog_entries row = { 0 };
	sqlite3_stmt *statement = NULL;
	uint64_t count = 0;
	int status, err = 0;

	if (sqlite3_prepare_v2(database->db, "PRAGMA quick_check(1)", -1, &statement, NULL) !=
	    SQLITE_OK)
		return complain(database, "read", error);
	status = sqlite3_step(statement);
	if (status != SQLITE_ROW)
		err = complain(database, "read", error);
	else if (strcmp((const char *)sqlite3_column_text(statement, 0), "ok"))
		err = say_damaged(database, (const char *)sqlite3_column_text(statement, 0),
				  error);
	sqlite3_finalize(statement);
	if (err)
		return err;
	if (sqlite3_prepare_v2(database->db,
			       "SELECT key, revision, 0, checksum, value FROM main.entry", -1,
			       &statement, NULL) != SQLITE_OK)
		return complain(database, "read", error);
	while (!err && (status = sqlite3_step(statement)) != SQLITE_DONE) {
		err = status == SQLITE_ROW ? append_row(database, statement, &row, error) :
					     complain(database, "read", error);
		if (!err && row.rows[0].revision > database->revision)
			err = say_damaged(database, row.rows[0].key, error);
		catalog_entries_clear(&row);
		count++;
	}
	sqlite3_finalize(statement);
	if (!err && count != database->entries)
		err = say_damaged(database, "rows are missing", error);
	return err;
}

void catalog_database_close(struct catalog_database *database)
{
	if (!database)
		return;
	for (size_t i = 0; i < STATEMENTS; i++)
		sqlite3_finalize(database->statements[i]);
	sqlite3_close(database->db);
	free(database->path);
	free(database);
}

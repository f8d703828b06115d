// SPDX-License-Identifier: GPL-2.0-or-later
#include "disk.h"

#include "../common/log.h"
#include "../common/turns.h"
#include "chunks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TEXT_LEN 768
#define PROBE_US 5000000 /* a disk that is full is full for a while */

static void fix_of(const char *path, int err, char *text)
{
	switch (err) {
	case -ENOSPC:
	case -EDQUOT:
		snprintf(text, TEXT_LEN,
			 "make room on the file system of %s (see: df -h %s), or give another one "
			 "([donor] spool in distmindd.conf) and restart distmindd; what was refused "
			 "is fetched again by itself, or pushed again",
			 path, path);
		break;
	case -EACCES:
	case -EPERM:
	case -EROFS:
		snprintf(text, TEXT_LEN,
			 "let distmindd write %s: its owner and mode, whether it is mounted "
			 "read-only, and ReadWritePaths= of its unit",
			 path);
		break;
	default:
		snprintf(text, TEXT_LEN, "see the disk of %s, and the kernel's log: dmesg", path);
	}
}

/* What it refuses is told, and each change of that. */
static void note(struct disk *disk, int err)
{
	char fix[TEXT_LEN];

	if (err && err != disk->err) {
		fix_of(disk->path, err, fix);
		log_warning("spool-failing", LOG_S("directory", disk->path),
			    LOG_S("reason", strerror(-err)), LOG_S("fix", fix));
	} else if (!err && disk->err) {
		log_info("spool-works", LOG_S("directory", disk->path),
			 LOG_U("refused", disk->refused));
	}
	disk->refused = err ? disk->refused + 1 : 0;
	disk->err = err;
}

static void probe_later(struct disk *disk)
{
	sd_event_source_set_time_relative(disk->probe, PROBE_US);
	sd_event_source_set_enabled(disk->probe, SD_EVENT_ONESHOT);
}

void disk_stored(struct chunks *chunks, uint64_t length, int err)
{
	struct disk *disk = &chunks->disk;
	bool failed = disk->err;

	note(disk, err);
	if (err)
		disk->length = length;
	if (failed == !!err)
		return;
	if (err)
		probe_later(disk);
	chunks_report(chunks);
}

static void on_probed(void *arg, int err)
{
	struct chunks *chunks = arg;

	if (!chunks->disk.err)
		return;
	if (err)
		probe_later(&chunks->disk);
	else
		disk_stored(chunks, 0, 0);
}

static int on_probe(sd_event_source *source, uint64_t us, void *arg)
{
	struct chunks *chunks = arg;

	(void)source;
	(void)us;
	turns_name("spool");
	if (chunks->disk.err && memory_spooler_probe(chunks->spooler, chunks->disk.length,
						     on_probed, chunks))
		probe_later(&chunks->disk);
	return 0;
}

int disk_open(struct chunks *chunks, const char *path)
{
	struct disk *disk = &chunks->disk;
	int err;

	snprintf(disk->path, sizeof(disk->path), "%s", path);
	err = sd_event_add_time(chunks->loop, &disk->probe, CLOCK_MONOTONIC, 0, 0, on_probe,
				chunks);
	return err < 0 ? err : sd_event_source_set_enabled(disk->probe, SD_EVENT_OFF);
}

void disk_close(struct chunks *chunks)
{
	chunks->disk.probe = sd_event_source_disable_unref(chunks->disk.probe);
}

static void explain_restore(const struct chunks *chunks, char *reason, char *fix)
{
	const char *path = chunks->disk.path;
	int err = chunks->restore.err;

	if (chunks->restore.skipped)
		snprintf(reason, TEXT_LEN, "%llu files were not restored, the last one: %s",
			 (unsigned long long)chunks->restore.skipped, memory_spool_reason(err));
	else
		snprintf(reason, TEXT_LEN, "it could not be read: %s", strerror(-err));
	if (err == -ENOSPC)
		snprintf(fix, TEXT_LEN,
			 "give as much memory as before ([donor] memory in distmindd.conf), and "
			 "restart distmindd");
	else if (err == -EINVAL)
		snprintf(fix, TEXT_LEN, "remove from %s what distmindd has not put there", path);
	else
		fix_of(path, err, fix);
}

static void explain_damage(const struct disk *disk, char *reason, char *fix)
{
	snprintf(reason, TEXT_LEN, "%llu files were damaged, and put aside",
		 (unsigned long long)disk->damaged);
	snprintf(fix, TEXT_LEN,
		 "look at the disk (dmesg, smartctl); then remove them: rm %s/*.damaged, and "
		 "restart distmindd",
		 disk->path);
}

json_t *disk_describe(const struct chunks *chunks)
{
	const struct disk *disk = &chunks->disk;
	char reason[TEXT_LEN] = "", fix[TEXT_LEN] = "";

	if (disk->err) {
		snprintf(reason, sizeof(reason), "%s", strerror(-disk->err));
		fix_of(disk->path, disk->err, fix);
	} else if (chunks->restore.err && chunks->restore.err != -EBADMSG) {
		explain_restore(chunks, reason, fix);
	} else if (disk->damaged) {
		explain_damage(disk, reason, fix);
	}
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "path", disk->path,
			 "restoring", chunks->restore.under_way, "files",
			 (json_int_t)chunks->restore.files, "restored",
			 (json_int_t)chunks->restore.chunks, "restored_bytes",
			 (json_int_t)chunks->restore.bytes, "skipped",
			 (json_int_t)chunks->restore.skipped, "damaged", (json_int_t)disk->damaged,
			 "refused", (json_int_t)disk->refused, "reason", reason, "fix", fix);
}

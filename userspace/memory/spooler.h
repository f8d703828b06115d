/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The thread that waits for a spool's disk, so that its owner need not. What it is asked
 * for it does in the order of the calls; stores that follow each other are done together,
 * and waited for together. So the files are at any moment those of chunks that were in
 * memory together, and fit into it again.
 *
 * It also restores what the spool has from before: file by file becomes a chunk of the arena,
 * and the owner is told. What it is asked for meanwhile comes in between. The memory that this
 * needs is reserved in the arena from the call on: all of it until the files have been counted,
 * and if they cannot be read, so that nobody else takes it.
 *
 * The queue has no limit of its own: how many stores wait is the owner's choice, and there
 * is at most one removal for each chunk that was stored or restored.
 *
 * All calls are the owner's. The lock is for the two queues, and never held while anything
 * is written or called.
 */
#ifndef DISTMIND_MEMORY_SPOOLER_H
#define DISTMIND_MEMORY_SPOOLER_H

#include "spool.h"

struct memory_spooler;

/* What the spool had before, told from memory_spooler_dispatch(). */
struct memory_spooler_ops {
	/* What there is to restore; once. */
	void (*counted)(void *arg, const struct memory_spool_count *count);
	/* A file that has become a chunk, or why it has not. The chunk may be gone by now. */
	void (*restored)(void *arg, const struct memory_spool_restored *restored);
	/* That was the last one, or there is no reading of the directory; once. */
	void (*restore_ended)(void *arg, int err);
	/* NULL, or tells that a call of memory_spooler_dispatch() has taken long enough. */
	bool (*over)(void);
};

/* The spool is the thread's until the spooler is closed. */
int memory_spooler_open(struct memory_spooler **spooler, struct memory_spool *spool,
			struct memory_arena *arena, const struct memory_spooler_ops *ops, void *arg);
/*
 * Begins to restore, after what it was asked for before; and again, when that has ended, what was
 * not restored then.
 */
int memory_spooler_restore(struct memory_spooler *spooler);
/* Nothing more is begun, and nobody is called any more. Does not wait. */
void memory_spooler_stop(struct memory_spooler *spooler);
/* Waits for what is under way, and drops the rest. NULL is fine. */
void memory_spooler_close(struct memory_spooler *spooler);

/* Readable: there is something to dispatch. */
int memory_spooler_fd(const struct memory_spooler *spooler);
/*
 * Calls the owner back for what has been stored, or could not be, in the order of the calls,
 * and for what has been restored. Some of it: the descriptor stays readable if there is more.
 */
void memory_spooler_dispatch(struct memory_spooler *spooler);

/*
 * The chunk is sealed, and pinned by the owner until stored() or until the spooler is
 * closed. err is 0 when the file and its name are on disk.
 */
int memory_spooler_store(struct memory_spooler *spooler, const struct memory_chunk *chunk,
			 void (*stored)(void *arg, int err), void *arg);
/* As memory_spool_probe(); tells err. */
int memory_spooler_probe(struct memory_spooler *spooler, uint64_t length,
			 void (*probed)(void *arg, int err), void *arg);
/* The chunk is not in the arena any more, but may be in the spool: restored() tells. */
int memory_spooler_reload(struct memory_spooler *spooler,
			  const uint8_t digest[MEMORY_DIGEST_LEN]);
/* Nobody is told: a file that stays is found at the next start to be of no use. */
void memory_spooler_remove(struct memory_spooler *spooler,
			   const uint8_t digest[MEMORY_DIGEST_LEN]);

#endif

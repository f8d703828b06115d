/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of the catalog share, and where things are in the store, below the
 * name of the pool:
 *
 *   view/epoch             written by every upload that begins
 *   view/host/HOST         JSON, with the host's lease
 *   view/model/MODEL       JSON, the record of a manifest
 *   view/upload/ID         the same, of one that is not committed
 *   view/chunk/HOST/NN     generation and sorted digests of bucket NN, with the lease
 *                          unless the host has a spool; while that is being read, those
 *                          follow that earlier lives of the host have noted and this one
 *                          has not read yet, and the number of the others (struct
 *                          catalog_bucket)
 *   generation/HOST        JSON, how often that name was joined
 *   part/ID/NNNN           a manifest, cut
 *   forgotten              the host that was forgotten last
 *
 * A host's reports are conditional on generation/HOST, so one that was replaced cannot
 * change anything; and a host whose write got no answer writes that key anew, so that the
 * write cannot arrive after the next one. Parts are written on the condition that the
 * upload's record is there, and deleted together with it or with the model's, so none is
 * left behind. A host gives up garbage on the condition that view/epoch did not change: no
 * upload can have begun that counts on it. What a host that is away has is deleted on the
 * condition that it is not live and that nobody else was forgotten meanwhile, and its
 * generation/HOST stays.
 */
#ifndef CATALOG_STATE_H
#define CATALOG_STATE_H

#include "../common/hash.h"
#include "catalog.h"
#include "view.h"

#include <sys/queue.h>
#include <systemd/sd-event.h>

#define BUCKETS CATALOG_BUCKETS
#define BUCKET_HEADER 8 /* the generation, little endian */

/* member.c, report.c */
struct bucket {
	uint8_t *digests; /* sorted */
	size_t count, room;
	bool dirty;
	bool sent; /* in the write that is under way */
	/*
	 * While the spool is being read: what earlier lives have noted and this one does not hold,
	 * sorted; taken from the view with the first write.
	 */
	uint8_t *before;
	size_t before_count;
	bool taken;  /* it was */
	bool taking; /* by the write that is under way */
};

struct member {
	struct catalog_host host; /* its generation is 0 unless joined */
	enum catalog_member_state state;
	unsigned int ttl_s;
	bool spooled;
	bool restoring; /* the spool is being read: what was noted of it stays */
	uint64_t memory_free; /* as this host says; what it offers is in host */
	bool full; /* it holds as many chunks as can be written */
	bool host_dirty, host_sent;
	bool busy; /* a write of reports is under way; there is one at a time */
	uint64_t lease;
	uint64_t kept_lease;  /* by the last request to keep one */
	uint64_t fence;	      /* revision of generation/HOST */
	char nonce[33];	      /* tells this life in generation/HOST from others */
	char trouble[CATALOG_ERROR_LEN]; /* why it is not joined */
	bool uncertain;	      /* an earlier write may still arrive: move the fence first */
	uint64_t written_fence; /* of the write under way */
	sd_event_source *keep, *write;
	struct bucket buckets[BUCKETS];
	TAILQ_HEAD(, flush) flushes;
	TAILQ_HEAD(, release) releases;
};

/* index.c */
struct location {
	const uint8_t *digests;
	size_t count;
	uint32_t host; /* among the holders of the catalog */
	bool live;
};

/* Of a bucket, all hosts'. */
struct locations {
	struct location *rows; /* owned */
	size_t count, room;
};

struct part {
	uint64_t made; /* by the changes of then; else it is of no use but for its memory */
	struct catalog_chunk *chunks; /* owned, as all that follows */
	size_t count, room;
	struct hash table; /* numbers of chunks, plus one */
	uint32_t *holders;  /* of all chunks */
	size_t holder_room;
};

/* manifest.c: what a manifest says, for all models and uploads that have it. */
struct learned {
	LIST_ENTRY(learned) link;
	uint8_t sha256[CATALOG_DIGEST];
	uint8_t *digests; /* sorted, each once; owned */
	size_t digest_count;
	void *manifest; /* what options.digests() made of it */
	unsigned int references; /* 0: it goes when what is under way has settled */
};

struct catalog {
	sd_event *loop;
	struct catalog_store *store;
	struct catalog_options options;
	char *pool;
	struct catalog_view view;
	bool closing;
	char trouble[CATALOG_ERROR_LEN]; /* "": the store answers */
	uint64_t silent_us;		 /* since when it does not */
	int alarm;			 /* that it has raised, and why */
	char alarm_why[CATALOG_ERROR_LEN];
	bool asking_alarm; /* whether there is one: it is under way */
	struct member member;

	/* Made from the view when asked for, and good until it changes. */
	uint64_t changes; /* so often, and once */
	uint64_t told;	  /* how often by the last options.changed() */
	uint64_t indexed; /* by the changes of then: all but the parts */
	struct locations locations[BUCKETS];
	struct part parts[CATALOG_PARTS];
	struct held *held; /* while a part is made; owned */
	size_t held_room;
	char (*holders)[CATALOG_HOST_LEN]; /* hosts; owned */
	size_t holder_count;
	size_t need_count; /* digests of all manifests, what they have in common included */
	size_t numbered;   /* chunks that have got a number */

	LIST_HEAD(, learned) learned;
	LIST_HEAD(, learning) learnings; /* under way */
	LIST_HEAD(, forgetting) forgettings; /* that judge models */
};

/* catalog.c */
#define CATALOG_MODEL_OTHERS "+:@/"
bool catalog_name_is_good(const char *name, size_t room, const char *others);
/*
 * Of an entry of a model or an upload. One that cannot be read is a model as well, so that it can
 * be seen and deleted. NULL: no memory.
 */
struct catalog_model *catalog_model_of(const struct catalog *catalog,
				       const struct catalog_entry *entry);
void catalog_model_take(struct catalog *catalog, struct catalog_entry *entry);
/* Both allocated; the second is of what catalog_model_find() finds. */
char *catalog_model_key(const struct catalog *catalog, const char *name);
char *catalog_model_found_key(const struct catalog *catalog, const char *name);
/* Entries of a kind: "host", "model", "upload", "chunk"; prefix has room for CATALOG_KEY_MAX. */
const char *catalog_prefix(const struct catalog *catalog, const char *kind, char *prefix);
void catalog_touched(struct catalog *catalog);
/* What became of a request, of which kind does not matter: does the store answer? */
void catalog_heard(struct catalog *catalog, const struct catalog_result *result);

/* record.c: JSON of hosts and models; a text is allocated, NULL: no memory. */
char *catalog_host_text(const struct catalog_host *host);
struct catalog_host *catalog_host_parse(const char *name, const char *text, size_t size);
char *catalog_model_text(const struct catalog_model *model);
struct catalog_model *catalog_model_parse(const char *text, size_t size);
/*
 * Of one that cannot be parsed, or does not stand where it should: what of it makes sense. name
 * is what it is called where it stands, of an upload its number.
 */
struct catalog_model *catalog_model_salvage(const char *name, bool uploading, const char *text,
					    size_t size);
#define CATALOG_SENSELESS "its record makes no sense here: is it of a newer version?"
void catalog_model_free(struct catalog_model *model);

/* manifest.c */
void catalog_manifest_wanted(struct catalog *catalog, struct catalog_entry *entry);
/* After a listing: what could not be read is tried again, dead uploads are deleted. */
void catalog_manifests_settle(struct catalog *catalog);
/* Forgets what was learned and no model has any more. */
void catalog_learned_sweep(struct catalog *catalog);
/* What is being learned is for nobody. */
void catalog_learnings_abandon(struct catalog *catalog);

/* forget.c: ends those that wait for nobody but the loop. */
void catalog_forgettings_end(struct catalog *catalog);

/* location.c */
bool catalog_bucket_is_good(const struct catalog_entry *entry);
uint64_t catalog_bucket_generation(const void *value);

/* What is in the value of a bucket; both are sorted, and have nothing in common. */
struct catalog_bucket {
	const uint8_t *held, *before; /* by the life of that generation, and by earlier ones */
	size_t held_count, before_count;
};

struct catalog_bucket catalog_bucket_parse(const struct catalog_entry *entry);
/* Of before, at the end of the value: it is no digest of anything. */
#define BUCKET_MARK 24 /* zeroes, and the number of held ones, little endian */
/* Of a key, HOST/NN; host has room for CATALOG_HOST_LEN. */
bool catalog_bucket_split(const char *key, char *host, size_t *bucket);
/* Is every reference known? Errors as of catalog_garbage(). */
int catalog_references_known(const struct catalog *catalog);
/* Where it is, or would be. */
size_t catalog_digest_place(const uint8_t *digests, size_t count, const uint8_t *digest,
			    bool *found);

/* Those of that part, which all are in the same bucket. */
struct catalog_span {
	const uint8_t *digests;
	size_t count;
};

/* Of digests that are sorted. */
struct catalog_span catalog_digests_of_part(const uint8_t *digests, size_t count, size_t part);

/* index.c */
/* What follows from the view has changed. */
void catalog_index_drop(struct catalog *catalog);
void catalog_index_free(struct catalog *catalog);
/* The chunks of that part. -ENOMEM. */
int catalog_index(struct catalog *catalog, size_t part);

/* member.c */
int catalog_member_open(struct catalog *catalog);
bool catalog_address_is_good(const char *address);
void catalog_member_close(struct catalog *catalog);
void catalog_member_seen(struct catalog *catalog, const struct catalog_host *host);

#endif

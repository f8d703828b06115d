/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The catalog of a pool: which hosts there are, which models, and who holds which chunk.
 *
 *   host      a lease: it is there while its daemon keeps it. Whoever joins under a name
 *             gets the next generation of it, and writes of earlier ones are refused.
 *             It says what memory it gives, and which models it reads so often that
 *             more copies of them would be good.
 *   model     a manifest (text that the catalog does not read itself), and how many
 *             replicas its chunks should have.
 *   upload    a model that is being pushed: its chunks are needed already, but nobody can
 *             load it yet. It ends when the host that pushes it does.
 *   chunk     named by its SHA-256; held by hosts, who say so; needed by the models and
 *             uploads whose manifests name it. What nobody needs is garbage.
 *
 * Questions are answered at once from a copy (view.h), which may be a moment old: writes
 * depend on revisions, never on the copy being current. Changes call done() from the
 * event loop, see store.h for the rules and for the errors. Pointers that a question
 * returned are good until the event loop runs again. Not to be closed from within any
 * callback.
 *
 * Digests are CATALOG_DIGEST bytes each; several stand one after the other.
 */
#ifndef CATALOG_CATALOG_H
#define CATALOG_CATALOG_H

#include "store.h"

#define CATALOG_DIGEST 32
#define CATALOG_HOST_LEN 64	/* of a name, with its NUL: letters, digits and . _ - */
#define CATALOG_MODEL_LEN 256	/* the same, and + : @ / */
#define CATALOG_ADDRESS_LEN 64
#define CATALOG_MANIFEST_MAX (64UL << 20)
#define CATALOG_REPLICAS_MAX 16
#define CATALOG_HOT_MAX 8	/* models of one host */

struct catalog;
struct catalog_model;
struct catalog_upload;

enum catalog_member_state {
	CATALOG_ABSENT,	 /* never joined, or left */
	CATALOG_JOINING, /* for the first time, or after the lease ended */
	CATALOG_JOINED,
	CATALOG_FENCED,	 /* another process has joined under this host's name */
};

struct catalog_options {
	const char *pool; /* begins all keys, so that pools can share an etcd: a host's name */
	unsigned int list_ms; /* how often everything is listed afresh */
	/*
	 * The digests that a manifest names, in any order, allocated; negative errno: it
	 * is none. Decides what is garbage. It may be called by any thread (aside), and touches
	 * nothing. What else was made of it, or NULL, is for struct catalog_model, and
	 * given to dropped() when no model has it any more.
	 */
	int (*digests)(const char *manifest, size_t size, uint8_t **digests, size_t *count,
		       void **made);
	/* NULL: nothing else is made of manifests. */
	void (*dropped)(void *made);
	/*
	 * NULL, or has work(job) called by another thread, and done(job) by the event loop then,
	 * also after the catalog is closed: so the loop goes on while a manifest is read.
	 * -ENOMEM: neither is called.
	 */
	int (*aside)(void (*work)(void *job), void (*done)(void *job), void *job, void *arg);
	/*
	 * NULL, or tells that this turn of the event loop has taken long enough: what takes
	 * longer goes on in another one.
	 */
	bool (*over)(void);
	/* NULL or called when answers may have changed. */
	void (*changed)(void *arg);
	/* NULL or called when this host joined, lost its lease or was fenced; why in words. */
	void (*member)(enum catalog_member_state state, const char *why, void *arg);
	/*
	 * NULL or called when the store does not answer any more, why in words, and when it
	 * does again, after so long.
	 */
	void (*silent)(const char *why, void *arg);
	void (*answers)(uint64_t silent_us, void *arg);
	/*
	 * NULL or called when this host holds as many chunks as the catalog has room for, about
	 * two million, and when there is room again.
	 */
	void (*full)(bool full, void *arg);
	/* NULL or called when what catalog_alarm() returns has changed. */
	void (*alarm)(int alarm, const char *why, void *arg);
	/*
	 * NULL or called when it is found that the record or the manifest of a model or an upload
	 * cannot be read, why in its error. What it needs is not known: as long as it is there
	 * nothing is garbage, on no host.
	 */
	void (*unreadable)(const struct catalog_model *model, void *arg);
	void *arg;
};

/* Takes the store, also when it fails. NULL: see errno. */
struct catalog *catalog_open(struct sd_event *loop, struct catalog_store *store,
			     const struct catalog_options *options);
/* Ends everything pending with -ECANCELED. Does not leave. NULL is fine. */
void catalog_close(struct catalog *catalog);

/* done(): answers now take into account whatever was written before this call. */
int catalog_sync(struct catalog *catalog, catalog_done done, void *arg);
/* How old the copy is at most, UINT64_MAX: there is none yet. */
uint64_t catalog_age_us(const struct catalog *catalog);
/*
 * Why the store did not answer when last asked, whatever for; "" if it did. Meanwhile questions
 * are answered from what was known before: who is live, above all, is not known.
 */
const char *catalog_trouble(const struct catalog *catalog);
/* For how long it has not; 0 if it does. */
uint64_t catalog_silent_us(const struct catalog *catalog);
/*
 * The alarm that the store had raised when it was last listed, see catalog_store_alarm(), and why
 * in words; 0 and "": none. It answers meanwhile, but cannot be written to.
 */
int catalog_alarm(const struct catalog *catalog, const char **why);

/*
 * Hosts
 */

struct catalog_host {
	char name[CATALOG_HOST_LEN];
	char address[CATALOG_ADDRESS_LEN];	/* of the daemon */
	char rdma_address[CATALOG_ADDRESS_LEN]; /* empty: none */
	uint16_t rdma_port;
	uint64_t memory_total, memory_free; /* what it donates, in bytes */
	uint64_t memory_longest; /* of what is free, in one piece: the longest chunk it can take */
	uint64_t damaged; /* chunks of its that were found to be, since it joined */
	uint64_t generation;
	char hot[CATALOG_HOT_MAX][CATALOG_MODEL_LEN]; /* names of models */
	size_t hot_count;
};

/* NULL: there is none, or no longer. */
const struct catalog_host *catalog_host_find(const struct catalog *catalog, const char *name);
void catalog_host_each(const struct catalog *catalog,
		       void (*each)(const struct catalog_host *host, void *arg), void *arg);

/* Hosts that are not there, but have a spool, which is noted. */
void catalog_host_each_away(const struct catalog *catalog,
			    void (*each)(const char *name, void *arg), void *arg);

/*
 * What is noted of a host that is away is deleted, for one that will not come back; if it
 * does it joins as if nothing had been. The result has an entry for each model that has lost
 * chunks by that, or would: its name. -ENOTEMPTY: there are some, and force is false;
 * -EBUSY: the host is live; -ENOENT: there is nothing of such a host; -EAGAIN, -EBADMSG: as
 * of catalog_garbage(), unless force.
 */
int catalog_host_forget(struct catalog *catalog, const char *name, bool force, catalog_done done,
			void *arg);

/*
 * This host. Joining is kept up until leaving: a lost lease is replaced, with the next
 * generation. If spooled, what it holds stays noted while it is away. Joining replaces what
 * was noted before, but see catalog_set_restoring().
 * The generation and the hot models of host are ignored. -EINVAL: a name, address, size or
 * time that cannot be.
 */
int catalog_join(struct catalog *catalog, const struct catalog_host *host, unsigned int ttl_s,
		 bool spooled);
/*
 * Before joining: the spool has not been read yet. What was noted of it stays so, as that of a
 * host that is away; chunks that are held, restored or new ones, count from then on. When it has
 * been read: what is held replaces what was noted.
 */
void catalog_set_restoring(struct catalog *catalog, bool restoring);
enum catalog_member_state catalog_member_state(const struct catalog *catalog);
/* Why it is not joined, as far as that is known; "" if it is. */
const char *catalog_member_trouble(const struct catalog *catalog);
/* 0: not joined. */
uint64_t catalog_member_generation(const struct catalog *catalog);
/* The lease and what hangs on it go at once. */
int catalog_leave(struct catalog *catalog, catalog_done done, void *arg);

/*
 * What this host holds; written soon, many at once. -ENOMEM; -ENOSPC: more than the catalog
 * has room for; then this host offers no free memory, so that nothing more is placed there. Not
 * to be used on what is being released.
 */
int catalog_hold(struct catalog *catalog, const uint8_t *digest);
int catalog_lose(struct catalog *catalog, const uint8_t *digest);
bool catalog_holds(const struct catalog *catalog, const uint8_t *digest);
/* As of catalog_join(), and may be empty; what cannot be one is left as it was. */
void catalog_set_addresses(struct catalog *catalog, const char *address, const char *rdma_address,
			   uint16_t rdma_port);
/* At most what it donates. */
void catalog_set_memory_free(struct catalog *catalog, uint64_t bytes);
void catalog_set_memory_longest(struct catalog *catalog, uint64_t bytes);
void catalog_set_damaged(struct catalog *catalog, uint64_t chunks);
/* At most CATALOG_HOT_MAX names of models; what cannot be one is left out. */
void catalog_set_hot(struct catalog *catalog, const char *const *models, size_t count);
/* done(): everything above is written. -EOWNERDEAD: this host was fenced. */
int catalog_flush(struct catalog *catalog, catalog_done done, void *arg);

/*
 * Gives up garbage of this host: all of it at once takes long, so at most
 * CATALOG_RELEASE_MAX digests. Nobody counts on a chunk that catalog_holds() denies
 * afterwards, so its memory may be freed; whatever the result, some may be given up and
 * others not. -ESTALE: an upload began in the meantime: ask for the garbage again.
 */
#define CATALOG_RELEASE_MAX 8192
int catalog_release(struct catalog *catalog, const uint8_t *digests, size_t count,
		    catalog_done done, void *arg);

/*
 * Models
 */

/*
 * Whose a model is, and who else may do what: as of files, but that nobody executes one.
 * The catalog keeps it and whoever asks judges by it. Users and groups have the same
 * numbers on all hosts of a pool.
 */
struct catalog_access {
	uint32_t uid, gid;
	unsigned int mode; /* CATALOG_MODE_ALL at most */
};

#define CATALOG_MODE_ALL 0666
/* Of a record that says nothing, as those before there were owners. */
#define CATALOG_ACCESS_DEFAULT ((struct catalog_access){ .mode = 0644 })

struct catalog_model {
	char name[CATALOG_MODEL_LEN];
	char upload[33];   /* which one made it */
	uint64_t revision; /* of the model's last change */
	uint64_t size;	   /* of the manifest */
	unsigned int replicas;
	struct catalog_access access;
	bool uploading;
	bool known; /* its manifest was read */
	bool unreadable; /* its record cannot be; what of it makes sense is here, else 0 */
	char error[128]; /* why it, or the manifest, cannot be read; "" */
	char host[CATALOG_HOST_LEN]; /* who uploads, or did */
	uint64_t generation;
	/* Private, but for the digest of the manifest, by which distmindd knows it again: */
	unsigned int parts;
	bool complete, reading;
	uint8_t sha256[CATALOG_DIGEST];
	const uint8_t *digests; /* sorted, each once */
	size_t digest_count;
	void *manifest; /* what options.digests() made of it; NULL: not known, or nothing */
	struct learned *learned;
};

/* An upload whose record cannot be read is found by its number, which is its name then. */
const struct catalog_model *catalog_model_find(const struct catalog *catalog, const char *name);
/* Uploads too. */
void catalog_model_each(const struct catalog *catalog,
			void (*each)(const struct catalog_model *model, void *arg), void *arg);

/* The result has one entry: name and manifest. -ENOENT: there is no such model. */
int catalog_manifest_read(struct catalog *catalog, const char *name, catalog_done done, void *arg);

/*
 * The text of one, allocated, and its SHA-256, which takes long: it is for whoever makes it to
 * work out.
 */
struct catalog_manifest {
	char *text;
	size_t size;
	uint8_t sha256[CATALOG_DIGEST];
};

/*
 * An upload, in two steps, by a host that has joined. begin takes the text if it succeeds.
 * From the done() of begin on the chunks of the manifest are not garbage; what is held
 * already need not be sent, if a catalog_sync() after begin says so. commit creates the model. -EEXIST: there is one of
 * that name; -EOWNERDEAD: this host's lease ended, so the upload did. After commit or
 * abort, and after a begin that failed, the upload is gone.
 */
int catalog_upload_begin(struct catalog *catalog, const char *name,
			 const struct catalog_manifest *manifest, unsigned int replicas,
			 struct catalog_upload **upload, catalog_done done, void *arg);
/* Before commit; CATALOG_ACCESS_DEFAULT unless it is called. */
void catalog_upload_set_access(struct catalog_upload *upload, const struct catalog_access *access);
int catalog_upload_commit(struct catalog_upload *upload, catalog_done done, void *arg);
void catalog_upload_abort(struct catalog_upload *upload);

/*
 * Whatever catalog_model_find() finds. revision: only if the model did not change since; 0: as it
 * is.
 */
int catalog_model_delete(struct catalog *catalog, const char *name, uint64_t revision,
			 catalog_done done, void *arg);

/*
 * A change of a model's record. What it does not set stays as it is in the record that is
 * changed, which may be newer than the copy.
 */
struct catalog_model_change {
	unsigned int replicas; /* 0: as it is */
	bool sets_uid, sets_gid, sets_mode;
	struct catalog_access access; /* what of it is set */
	/*
	 * NULL, or whether it may be made, asked of the record that is changed, and again when
	 * another write came first. Negative errno: the change ends with that, and with error
	 * in words, for which there is room of CATALOG_ERROR_LEN.
	 */
	int (*allows)(const struct catalog_model *model, char *error, void *arg);
};

int catalog_model_change(struct catalog *catalog, const char *name,
			 const struct catalog_model_change *change, catalog_done done, void *arg);

/*
 * Another number after everything that the answers about hosts, models and chunks may depend
 * on, and after which pointers to them may be of no use.
 */
uint64_t catalog_changes(const struct catalog *catalog);

/*
 * Chunks
 */

/*
 * After a change the first question about a chunk of a part costs as much as those about
 * all chunks in it, which is little, and those about everything cost as much as there are
 * chunks: who asks them does so in several turns of the loop. In the order of digests, one
 * part follows the other, and one bucket.
 */
#define CATALOG_BUCKETS 64 /* that hosts report in */
#define CATALOG_PARTS 4096
size_t catalog_bucket_of(const uint8_t *digest);
size_t catalog_part_of(const uint8_t *digest);

struct catalog_chunk {
	const uint8_t *digest;
	size_t number; /* of its own, if somebody needs it; see catalog_numbers() */
	uint32_t references; /* models and uploads that need it */
	uint32_t live; /* how many hold it */
	uint32_t away; /* and in how many spools of hosts that are away it is */
	uint32_t *holders; /* the hosts, by number; live ones first */
};

/* NULL: nobody needs or holds it, or no memory. */
const struct catalog_chunk *catalog_chunk_find(struct catalog *catalog, const uint8_t *digest);

/* How far the numbers go, of chunks and of their holders. Good until catalog_changes(). */
struct catalog_numbers {
	size_t chunks, hosts;
	const char (*names)[CATALOG_HOST_LEN]; /* of the hosts */
};

/* -ENOMEM */
int catalog_numbers(struct catalog *catalog, struct catalog_numbers *numbers);

struct catalog_holder {
	const char *host;
	bool live; /* false: in the spool of a host that is away */
};

/* Live ones first; returns how many there are, also if there is room for fewer. */
size_t catalog_chunk_holders(struct catalog *catalog, const uint8_t *digest,
			     struct catalog_holder *holders, size_t room);
/* How many models and uploads need it. */
size_t catalog_chunk_references(struct catalog *catalog, const uint8_t *digest);

struct catalog_availability {
	size_t chunks;
	size_t scarce;	/* live, but with fewer live holders than the model wants */
	size_t away;	/* only in spools of hosts that are away */
	size_t missing; /* nowhere */
	size_t copies;	/* live holders of the chunk that has fewest */
};

/*
 * each, if not NULL, is called for the chunks that are not live. -ENOENT: no such model;
 * -EAGAIN: its manifest has not been read yet; -EBADMSG: it cannot be.
 */
int catalog_model_availability(struct catalog *catalog, const char *name,
			       struct catalog_availability *availability,
			       void (*each)(const uint8_t *digest, bool away, void *arg),
			       void *arg);

/*
 * Calls each() for what this host holds of that part and nobody needs, in the order of digests.
 * -EAGAIN: not everything has been read yet; -EBADMSG: the manifest of some model cannot be
 * read, so nothing is known to be garbage.
 */
int catalog_garbage(struct catalog *catalog, size_t part,
		    void (*each)(const uint8_t *digest, void *arg), void *arg);

#endif

// SPDX-License-Identifier: MIT
#include "pool.h"

#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Each try lists everything, so this bounds the work and not only the time. */
#define LISTING_TRIES 32

int distmind_pool_open(struct distmind_pool **pool)
{
	struct distmind_pool *made;
	int err;

	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	err = distmind_socket_open(&made->commands);
	if (err) {
		free(made);
		return err;
	}
	*pool = made;
	return 0;
}

void distmind_pool_close(struct distmind_pool *pool)
{
	if (!pool)
		return;
	if (pool->events.nl)
		distmind_socket_close(&pool->events);
	distmind_socket_close(&pool->commands);
	free(pool);
}

const char *distmind_pool_error(const struct distmind_pool *pool)
{
	return pool->commands.error;
}

/* Records of one kind, collected before anybody sees the first of them. */
struct listing {
	distmind_record_parser parse;
	size_t size;
	char *records;
	size_t count;
	size_t room;
};

static int collect(const struct distmind_message *message, void *arg)
{
	struct listing *listing = arg;
	size_t room;
	char *grown;
	int err;

	if (listing->count == listing->room) {
		room = listing->room ? 2 * listing->room : 64;
		grown = reallocarray(listing->records, room, listing->size);
		if (!grown)
			return -ENOMEM;
		listing->records = grown;
		listing->room = room;
	}
	err = listing->parse(message->head, message->len,
			     listing->records + listing->count * listing->size);
	if (!err)
		listing->count++;
	return err;
}

static int list(struct distmind_pool *pool, struct listing *listing, uint8_t command)
{
	struct nl_msg *msg;
	int err, tries = 0;

	do {
		listing->count = 0;
		msg = distmind_socket_request(&pool->commands, command, NLM_F_DUMP);
		if (!msg)
			return distmind_socket_fail(&pool->commands, -ENOMEM, NULL);
		err = distmind_socket_exchange(&pool->commands, msg, collect, listing);
	} while (err == -EAGAIN && ++tries < LISTING_TRIES);
	if (err == -ENOMEM || err == -EBADMSG)
		distmind_socket_fail(&pool->commands, err, NULL);
	return err;
}

/* The callbacks differ in the type of the record that they are given. */
#define DEFINE_LISTING(noun, type, COMMAND)                                                    \
	int distmind_pool_##noun##s(struct distmind_pool *pool,                                \
				    int (*each)(const struct type *record, void *arg),         \
				    void *arg)                                                 \
	{                                                                                      \
		struct listing listing = {                                                     \
			.parse = distmind_record_##noun,                                       \
			.size = sizeof(struct type),                                           \
		};                                                                             \
		int ret = list(pool, &listing, COMMAND);                                       \
                                                                                               \
		for (size_t i = 0; i < listing.count && !ret; i++)                             \
			ret = each((struct type *)listing.records + i, arg);                   \
		free(listing.records);                                                         \
		return ret;                                                                    \
	}

DEFINE_LISTING(gpu, distmind_gpu_record, DISTMIND_CMD_GPU_GET)
DEFINE_LISTING(vgpu, distmind_vgpu_record, DISTMIND_CMD_VGPU_GET)
DEFINE_LISTING(buffer, distmind_buffer_record, DISTMIND_CMD_BUFFER_GET)
DEFINE_LISTING(claim, distmind_claim_record, DISTMIND_CMD_CLAIM_GET)
DEFINE_LISTING(limit, distmind_limit_record, DISTMIND_CMD_LIMIT_GET)

/* One record, in answer to a request that is not a dump. */
struct single {
	distmind_record_parser parse;
	void *record;
	bool found;
};

static int take_single(const struct distmind_message *message, void *arg)
{
	struct single *single = arg;

	single->found = true;
	return single->parse(message->head, message->len, single->record);
}

int distmind_pool_exchange(struct distmind_pool *pool, struct nl_msg *msg, int put_error,
			   int (*each)(const struct distmind_message *message, void *arg),
			   void *arg)
{
	int err;

	if (!msg || put_error < 0) {
		nlmsg_free(msg);
		return distmind_socket_fail(&pool->commands, -ENOMEM, NULL);
	}
	err = distmind_socket_exchange(&pool->commands, msg, each, arg);
	if (err == -EBADMSG)
		distmind_socket_fail(&pool->commands, err, NULL);
	return err;
}

static int exchange(struct distmind_pool *pool, struct nl_msg *msg, int put_error,
		    struct single *single)
{
	int err = distmind_pool_exchange(pool, msg, put_error, single ? take_single : NULL, single);

	if (!err && single && !single->found)
		err = distmind_socket_fail(&pool->commands, -EBADMSG, NULL);
	return err;
}

struct nl_msg *distmind_pool_about(struct distmind_pool *pool, uint8_t command, uint32_t id)
{
	struct nl_msg *msg = distmind_socket_request(&pool->commands, command, 0);

	if (msg && nla_put_u32(msg, 1, id) < 0) {
		nlmsg_free(msg);
		msg = NULL;
	}
	return msg;
}

int distmind_pool_gpu(struct distmind_pool *pool, uint32_t id, struct distmind_gpu_record *gpu)
{
	struct single single = { .parse = distmind_record_gpu, .record = gpu };

	return exchange(pool, distmind_pool_about(pool, DISTMIND_CMD_GPU_GET, id), 0, &single);
}

int distmind_pool_vgpu(struct distmind_pool *pool, uint32_t id, struct distmind_vgpu_record *vgpu)
{
	struct single single = { .parse = distmind_record_vgpu, .record = vgpu };

	return exchange(pool, distmind_pool_about(pool, DISTMIND_CMD_VGPU_GET, id), 0, &single);
}

int distmind_pool_gpu_drain(struct distmind_pool *pool, uint32_t id, bool drain)
{
	struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_GPU_SET, id);
	int put = msg ? nla_put_u32(msg, DISTMIND_A_GPU_DRAIN, drain) : 0;

	return exchange(pool, msg, put, NULL);
}

int distmind_pool_gpu_policy(struct distmind_pool *pool, uint32_t id, const char *policy)
{
	struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_GPU_SET, id);
	int put = msg ? nla_put_string(msg, DISTMIND_A_GPU_POLICY, policy) : 0;

	return exchange(pool, msg, put, NULL);
}

int distmind_pool_gpu_grace(struct distmind_pool *pool, uint32_t id, uint64_t grace_ns)
{
	struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_GPU_SET, id);
	int put = msg ? nla_put_u64(msg, DISTMIND_A_GPU_GRACE, grace_ns) : 0;

	return exchange(pool, msg, put, NULL);
}

int distmind_pool_gpu_hang(struct distmind_pool *pool, uint32_t id, uint64_t hang_ns)
{
	struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_GPU_SET, id);
	int put = msg ? nla_put_u64(msg, DISTMIND_A_GPU_HANG, hang_ns) : 0;

	return exchange(pool, msg, put, NULL);
}

int distmind_pool_gpu_remove(struct distmind_pool *pool, uint32_t id)
{
	return exchange(pool, distmind_pool_about(pool, DISTMIND_CMD_GPU_DEL, id), 0, NULL);
}

static int put_vgpu_fields(struct nl_msg *msg, const struct distmind_vgpu_record *record,
			   uint32_t fields)
{
	int err = 0;

	if (fields & DISTMIND_SET_GPU)
		err = nla_put_u32(msg, DISTMIND_A_VGPU_GPU, record->gpu);
	if (!err && fields & DISTMIND_SET_MEMORY)
		err = nla_put_u64(msg, DISTMIND_A_VGPU_MEMORY, record->memory);
	if (!err && fields & DISTMIND_SET_SHARE)
		err = nla_put_u32(msg, DISTMIND_A_VGPU_SHARE, record->share);
	if (!err && fields & DISTMIND_SET_CLASS)
		err = nla_put_u32(msg, DISTMIND_A_VGPU_CLASS, record->sched_class);
	if (!err && fields & DISTMIND_SET_OBJECTIVE)
		err = nla_put_u64(msg, DISTMIND_A_VGPU_OBJECTIVE, record->objective_ns);
	if (!err && fields & DISTMIND_SET_CAPPED)
		err = nla_put_u32(msg, DISTMIND_A_VGPU_CAPPED, record->capped);
	return err;
}

int distmind_pool_vgpu_create(struct distmind_pool *pool, struct distmind_vgpu_record *record)
{
	struct single single = { .parse = distmind_record_vgpu, .record = record };
	uint32_t fields = DISTMIND_SET_MEMORY | DISTMIND_SET_CLASS;
	struct nl_msg *msg;
	int put = 0;

	/* Left out, these mean: parked, the kernel's default, none. */
	if (record->gpu != DISTMIND_GPU_NONE)
		fields |= DISTMIND_SET_GPU;
	if (record->share)
		fields |= DISTMIND_SET_SHARE;
	if (record->objective_ns)
		fields |= DISTMIND_SET_OBJECTIVE;
	if (record->capped)
		fields |= DISTMIND_SET_CAPPED;

	msg = distmind_socket_request(&pool->commands, DISTMIND_CMD_VGPU_NEW, 0);
	if (msg) {
		if (record->name[0])
			put = nla_put_string(msg, DISTMIND_A_VGPU_NAME, record->name);
		if (!put)
			put = nla_put_u32(msg, DISTMIND_A_VGPU_UID, record->uid);
		if (!put)
			put = nla_put_u32(msg, DISTMIND_A_VGPU_GID, record->gid);
		if (!put)
			put = put_vgpu_fields(msg, record, fields);
	}
	return exchange(pool, msg, put, &single);
}

int distmind_pool_vgpu_set(struct distmind_pool *pool, const struct distmind_vgpu_record *record,
			   uint32_t fields)
{
	struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_VGPU_SET, record->id);
	int put = msg ? put_vgpu_fields(msg, record, fields) : 0;

	return exchange(pool, msg, put, NULL);
}

int distmind_pool_vgpu_delete(struct distmind_pool *pool, uint32_t id)
{
	return exchange(pool, distmind_pool_about(pool, DISTMIND_CMD_VGPU_DEL, id), 0, NULL);
}

int distmind_pool_claim_grant(struct distmind_pool *pool, uint32_t id, const uint32_t *gpus,
				unsigned int count)
{
	struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_CLAIM_ANSWER, id);
	int put = 0;

	for (unsigned int i = 0; msg && !put && i < count; i++)
		put = nla_put_u32(msg, DISTMIND_A_CLAIM_GPU, gpus[i]);
	return exchange(pool, msg, put, NULL);
}

int distmind_pool_claim_refuse(struct distmind_pool *pool, uint32_t id, int error,
				 const char *reason)
{
	struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_CLAIM_ANSWER, id);
	char text[DISTMIND_REASON_LEN] = "";
	int put = 0;

	strncat(text, reason ? reason : "", sizeof(text) - 1);
	if (msg) {
		put = nla_put_u32(msg, DISTMIND_A_CLAIM_ERROR, (uint32_t)error);
		if (!put)
			put = nla_put_string(msg, DISTMIND_A_CLAIM_REASON, text);
	}
	return exchange(pool, msg, put, NULL);
}

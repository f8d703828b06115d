// SPDX-License-Identifier: GPL-2.0-or-later
/* The netlink family: who may, what is said, what a dump shows, what is told. */
#include <linux/genetlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <poll.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

FIXTURE(netlink)
{
	struct distmind_pool *pool;
	int engine;
	uint32_t gpu;
};

FIXTURE_SETUP(netlink)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = engine_start("netlink", 64 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
}

FIXTURE_TEARDOWN(netlink)
{
	close(self->engine);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

/* A socket of the caller's own rights. */
static struct distmind_pool *pool_again(void)
{
	struct distmind_pool *pool;

	return distmind_pool_open(&pool) ? NULL : pool;
}

TEST_F(netlink, changes_need_a_capability)
{
	struct distmind_vgpu_record record = { .gpu = self->gpu, .memory = MiB, .share = 1 };

	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &record));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_vgpu_create(pool_again(), &record)));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_vgpu_set(pool_again(), &record, DISTMIND_SET_SHARE)));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_vgpu_delete(pool_again(), record.id)));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_gpu_drain(pool_again(), self->gpu, true)));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_gpu_remove(pool_again(), self->gpu)));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_claim_grant(pool_again(), 0, &self->gpu, 1)));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_claim_refuse(pool_again(), 0, EPERM, "no")));
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_subscribe(pool_again())));
	/* Nor does a root who opened the socket lend his rights to who sends. */
	EXPECT_EQ(EPERM, AS_NOBODY(-distmind_pool_vgpu_delete(self->pool, record.id)));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, record.id));
}

static int count_gpus(const struct distmind_gpu_record *gpu, void *arg)
{
	++*(int *)arg;
	return 0;
}

static int count_vgpus(const struct distmind_vgpu_record *vgpu, void *arg)
{
	++*(int *)arg;
	return 0;
}

static int count_buffers(const struct distmind_buffer_record *buffer, void *arg)
{
	++*(int *)arg;
	return 0;
}

struct counts {
	int gpus, vgpus, buffers;
};

static int count_all(struct distmind_pool *pool, struct counts *counts)
{
	*counts = (struct counts){ 0 };
	return distmind_pool_gpus(pool, count_gpus, &counts->gpus) ||
	       distmind_pool_vgpus(pool, count_vgpus, &counts->vgpus) ||
	       distmind_pool_buffers(pool, count_buffers, &counts->buffers);
}

TEST_F(netlink, a_tenant_sees_gpus_and_only_its_own)
{
	struct distmind_vgpu_record roots = { .gpu = self->gpu, .memory = MiB, .share = 1 };
	struct distmind_vgpu_record theirs = roots;
	struct distmind_buffer_create create;
	struct counts counts;
	int fd, own;

	theirs.uid = 65534;
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &roots));
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &theirs));
	fd = open_vgpu(roots.id);
	own = open_vgpu(theirs.id);
	ASSERT_EQ(0, buffer_create(fd, PAGE, &create));
	ASSERT_EQ(0, buffer_create(own, PAGE, &create));
	ASSERT_EQ(0, count_all(self->pool, &counts));
	EXPECT_EQ(1, counts.gpus);
	EXPECT_EQ(2, counts.vgpus);
	EXPECT_EQ(2, counts.buffers);
	EXPECT_EQ(0, AS_NOBODY(count_all(pool_again(), &counts) || counts.gpus != 1 ||
			       counts.vgpus != 1 || counts.buffers != 1));
	EXPECT_EQ(ENOENT, AS_NOBODY(-distmind_pool_vgpu(pool_again(), roots.id, &roots)));
	EXPECT_EQ(0, AS_NOBODY(distmind_pool_vgpu(pool_again(), theirs.id, &theirs)));
	close(fd);
	close(own);
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, roots.id));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, theirs.id));
}

#define CROWD 600 /* more than a dump looks at before others get the lock */

/* First, between many others, and last. */
TEST_F(netlink, a_tenant_sees_its_own_among_very_many)
{
	static uint32_t ids[CROWD];
	struct counts counts;

	for (int i = 0; i < CROWD; i++) {
		struct distmind_vgpu_record record = {
			.gpu = self->gpu, .memory = MiB, .share = 1,
			.uid = i % (CROWD - 1) && i != CROWD / 2 ? 0 : 65534,
		};

		ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &record));
		ids[i] = record.id;
	}
	ASSERT_EQ(0, count_all(self->pool, &counts));
	EXPECT_EQ(CROWD, counts.vgpus);
	EXPECT_EQ(0, AS_NOBODY(count_all(pool_again(), &counts) || counts.vgpus != 3));
	for (int i = 0; i < CROWD; i++)
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, ids[i]));
}

struct refusal {
	int error;
	uint32_t offset;
	char text[256];
};

static int on_error(struct sockaddr_nl *from, struct nlmsgerr *error, void *arg)
{
	struct nlmsghdr *header = (struct nlmsghdr *)((char *)error - NLMSG_HDRLEN);
	struct refusal *refusal = arg;
	struct nlattr *attr;
	int skip = sizeof(*error), rem;

	refusal->error = error->error;
	if (!(header->nlmsg_flags & NLM_F_CAPPED))
		skip += NLMSG_ALIGN(error->msg.nlmsg_len) - NLMSG_HDRLEN;
	nla_for_each_attr(attr, (struct nlattr *)((char *)error + skip),
			  (int)(header->nlmsg_len - NLMSG_HDRLEN - skip), rem) {
		if (nla_type(attr) == NLMSGERR_ATTR_OFFS)
			refusal->offset = nla_get_u32(attr);
		if (nla_type(attr) == NLMSGERR_ATTR_MSG)
			nla_strlcpy(refusal->text, attr, sizeof(refusal->text));
	}
	return NL_STOP;
}

static int on_ack(struct nl_msg *msg, void *arg)
{
	((struct refusal *)arg)->error = 0;
	return NL_STOP;
}

/* Send one command made of u32 attributes, {type, value} pairs ended by 0. */
static struct refusal send_command(int cmd, const uint32_t *attrs)
{
	struct refusal refusal = { .error = -EPROTO };
	struct nl_sock *sock = nl_socket_alloc();
	struct nl_msg *msg = nlmsg_alloc();
	int one = 1;

	genl_connect(sock);
	setsockopt(nl_socket_get_fd(sock), SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	nl_socket_modify_err_cb(sock, NL_CB_CUSTOM, on_error, &refusal);
	nl_socket_modify_cb(sock, NL_CB_ACK, NL_CB_CUSTOM, on_ack, &refusal);
	genlmsg_put(msg, 0, 0, genl_ctrl_resolve(sock, DISTMIND_FAMILY_NAME), 0, NLM_F_ACK, cmd,
		    DISTMIND_FAMILY_VERSION);
	for (; attrs[0]; attrs += 2)
		nla_put_u32(msg, attrs[0], attrs[1]);
	nl_send_auto(sock, msg);
	nl_recvmsgs_default(sock);
	nlmsg_free(msg);
	nl_socket_free(sock);
	return refusal;
}

#define COMMAND(cmd, ...) send_command(cmd, (const uint32_t[]){ __VA_ARGS__, 0 })
#define FIRST_ATTR  (NLMSG_HDRLEN + GENL_HDRLEN)
#define SECOND_ATTR (FIRST_ATTR + 8)

TEST_F(netlink, refusals_name_the_attribute_and_the_reason)
{
	struct refusal refusal;

	refusal = COMMAND(DISTMIND_CMD_GPU_GET, DISTMIND_A_GPU_ID, 4000000);
	EXPECT_EQ(-ENOENT, refusal.error);
	EXPECT_EQ(FIRST_ATTR, refusal.offset);
	EXPECT_STREQ("no such gpu", refusal.text);
	refusal = COMMAND(DISTMIND_CMD_GPU_SET, DISTMIND_A_GPU_ID, self->gpu, DISTMIND_A_GPU_DRAIN, 2);
	EXPECT_EQ(-ERANGE, refusal.error);
	EXPECT_EQ(SECOND_ATTR, refusal.offset);
	EXPECT_NE(0, refusal.text[0]);
	refusal = COMMAND(DISTMIND_CMD_GPU_SET, DISTMIND_A_GPU_ID, self->gpu);
	EXPECT_EQ(-EINVAL, refusal.error);
	EXPECT_NE(NULL, strstr(refusal.text, "nothing to set"));
	refusal = COMMAND(DISTMIND_CMD_VGPU_DEL, DISTMIND_A_VGPU_ID, 4000000);
	EXPECT_EQ(-ENOENT, refusal.error);
	EXPECT_EQ(FIRST_ATTR, refusal.offset);
	refusal = COMMAND(DISTMIND_CMD_CLAIM_ANSWER, DISTMIND_A_CLAIM_ID, 0);
	EXPECT_EQ(-EINVAL, refusal.error);
	EXPECT_STREQ("an answer has either gpu or error", refusal.text);
	refusal = COMMAND(DISTMIND_CMD_CLAIM_ANSWER, DISTMIND_A_CLAIM_ID, 0,
			  DISTMIND_A_CLAIM_ERROR, 1000);
	EXPECT_EQ(-ERANGE, refusal.error);
	EXPECT_EQ(SECOND_ATTR, refusal.offset);
}

TEST_F(netlink, unknown_attributes_are_refused)
{
	struct refusal refusal;

	refusal = COMMAND(DISTMIND_CMD_GPU_GET, DISTMIND_A_GPU_ID, self->gpu, 99, 1);
	EXPECT_EQ(-EINVAL, refusal.error);
	EXPECT_NE(0, refusal.text[0]);
	refusal = COMMAND(DISTMIND_CMD_GPU_DEL, DISTMIND_A_GPU_MEMORY, 1);
	EXPECT_EQ(-EINVAL, refusal.error);
}

/* Vgpus come and go as fast as they can until the pipe is closed. */
static pid_t churn(uint32_t gpu, const int stop[2])
{
	struct distmind_vgpu_record record = { .gpu = gpu, .memory = MiB, .share = 1 };
	struct pollfd pfd = { .fd = stop[0] };
	pid_t pid = fork();
	struct distmind_pool *pool;

	if (pid)
		return pid;
	close(stop[1]);
	pool = pool_again();
	while (!poll(&pfd, 1, 0)) {
		if (distmind_pool_vgpu_create(pool, &record) ||
		    distmind_pool_vgpu_delete(pool, record.id))
			_exit(1);
	}
	_exit(0);
}

struct sighting {
	uint32_t first, last;
	int seen[256];
};

static int on_vgpu(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct sighting *sighting = arg;

	if (vgpu->id >= sighting->first && vgpu->id <= sighting->last)
		sighting->seen[vgpu->id - sighting->first]++;
	return 0;
}

TEST_F(netlink, a_dump_shows_each_lasting_object_once_while_others_come_and_go)
{
	struct distmind_vgpu_record record = { .gpu = self->gpu, .memory = MiB, .share = 1 };
	struct sighting sighting = { 0 };
	int stop[2], good = 0, busy = 0;
	pid_t pid;

	for (int i = 0; i < 256; i++) {
		ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &record));
		if (!i)
			sighting.first = record.id;
	}
	sighting.last = record.id;
	ASSERT_EQ(255, sighting.last - sighting.first);
	ASSERT_EQ(0, pipe(stop));
	pid = churn(self->gpu, stop);
	for (int round = 0; round < 50; round++) {
		int err;

		memset(sighting.seen, 0, sizeof(sighting.seen));
		err = distmind_pool_vgpus(self->pool, on_vgpu, &sighting);
		if (err == -EAGAIN) {
			busy++;
			continue;
		}
		ASSERT_EQ(0, err);
		good++;
		for (int i = 0; i < 256; i++)
			ASSERT_EQ(1, sighting.seen[i]);
	}
	TH_LOG("%d consistent dumps, %d given up as too busy", good, busy);
	close(stop[1]);
	EXPECT_EQ(0, child_status(pid));
	for (uint32_t id = sighting.first; id <= sighting.last; id++)
		EXPECT_EQ(0, distmind_pool_vgpu_delete(self->pool, id));
}

static void on_event(const struct distmind_event *event, void *arg)
{
	char *story = arg;
	static const char letters[] = "+~-AxD";

	if (event->type <= DISTMIND_EVENT_VGPU_DEL)
		strncat(story, &letters[event->type], 1);
}

TEST_F(netlink, changes_of_the_pool_are_told_in_order)
{
	struct distmind_vgpu_record record = { .memory = MiB, .share = 1 };
	struct pollfd pfd = { .events = POLLIN };
	char story[64] = "";
	uint32_t gpu;
	int engine;

	ASSERT_EQ(0, distmind_pool_subscribe(self->pool));
	engine = engine_start("events", MiB, &gpu);
	ASSERT_LE(0, engine);
	record.gpu = gpu;
	ASSERT_EQ(0, distmind_pool_vgpu_create(self->pool, &record));
	record.share = 2;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->pool, &record, DISTMIND_SET_SHARE));
	ASSERT_EQ(0, distmind_pool_vgpu_delete(self->pool, record.id));
	ASSERT_EQ(0, distmind_pool_gpu_drain(self->pool, gpu, true));
	/* Draining what is draining already is not a change. */
	ASSERT_EQ(0, distmind_pool_gpu_drain(self->pool, gpu, true));
	close(engine);
	ASSERT_EQ(0, distmind_pool_gpu_remove(self->pool, gpu));
	pfd.fd = distmind_pool_event_fd(self->pool);
	while (strlen(story) < 7 && poll(&pfd, 1, 5000) == 1)
		distmind_pool_dispatch(self->pool, on_event, story);
	EXPECT_STREQ("+AxD~~-", story);
}

TEST_HARNESS_MAIN

// SPDX-License-Identifier: MIT
#include "handle.h"
#include "../common/clock.h"
#include "vgpu.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * A queue of its own, with at most one job, so that a wish can be withdrawn by
 * destroying the queue; the next begin makes another one. The eventfd is signalled
 * for whatever changes: the lane comes, is asked back, or the job has ended.
 */
struct distmind_grant {
	struct distmind_vgpu *vgpu;
	enum distmind_lane_kind kind;
	struct distmind_queue *queue; /* or NULL */
	struct distmind_timeline *timeline;
	uint64_t job;	 /* the value that the job's end signals */
	uint64_t number; /* of the lane that it has, 0 for none */
	int eventfd;
};

int distmind_grant_create(struct distmind_vgpu *vgpu, enum distmind_lane_kind kind,
			  struct distmind_grant **grant)
{
	struct distmind_grant *made = calloc(1, sizeof(*made));
	int err;

	if (!made)
		return -ENOMEM;
	made->vgpu = vgpu;
	made->kind = kind;
	made->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = made->eventfd < 0 ? -errno : distmind_timeline_create(vgpu, 0, &made->timeline);
	if (err) {
		if (made->eventfd >= 0)
			close(made->eventfd);
		free(made);
		return err;
	}
	*grant = made;
	return 0;
}

static void drop_queue(struct distmind_grant *grant)
{
	distmind_queue_destroy(grant->queue);
	grant->queue = NULL;
	grant->number = 0;
}

void distmind_grant_destroy(struct distmind_grant *grant)
{
	if (!grant)
		return;
	drop_queue(grant);
	distmind_timeline_destroy(grant->timeline);
	close(grant->eventfd);
	free(grant);
}

static int make_queue(struct distmind_grant *grant)
{
	int err = distmind_queue_create(grant->vgpu, grant->kind, 1, &grant->queue);

	if (err) {
		grant->queue = NULL;
		return err;
	}
	err = distmind_queue_watch(grant->queue, grant->eventfd);
	if (err)
		drop_queue(grant);
	return err;
}

static int submit(struct distmind_grant *grant)
{
	struct distmind_batch *batch;
	int err = distmind_batch_create(&batch);

	if (err)
		return err;
	distmind_batch_grant(batch);
	distmind_batch_signal(batch, grant->timeline, grant->job + 1);
	err = distmind_queue_submit(grant->queue, batch, NULL);
	distmind_batch_destroy(batch);
	if (!err)
		grant->job++;
	return err;
}

static int wait_for_lane(struct distmind_grant *grant, uint32_t timeout_ms)
{
	const struct distmind_queue_page *page = distmind_queue_page(grant->queue);
	struct pollfd event = { .fd = grant->eventfd, .events = POLLIN };
	int64_t deadline = (int64_t)clock_ms() + timeout_ms, left;
	eventfd_t count;
	int err;

	for (;;) {
		grant->number = __atomic_load_n(&page->grant, __ATOMIC_ACQUIRE);
		if (grant->number)
			return 0;
		err = distmind_timeline_status(grant->timeline, grant->job);
		if (err != -EAGAIN)
			return err ? err : -ECANCELED;
		left = deadline - (int64_t)clock_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&event, 1, (int)left) < 0 && errno != EINTR)
			return -errno;
		eventfd_read(grant->eventfd, &count);
	}
}

int distmind_grant_begin(struct distmind_grant *grant, uint32_t timeout_ms)
{
	int err = 0;

	if (timeout_ms > DISTMIND_TIMEOUT_MAX_MS)
		return -EINVAL;
	if (grant->number)
		return -EALREADY;
	if (!grant->queue)
		err = make_queue(grant);
	if (!err)
		err = submit(grant);
	if (!err)
		err = distmind_timeline_watch(grant->timeline, grant->job, grant->eventfd);
	if (!err)
		err = wait_for_lane(grant, timeout_ms);
	if (err)
		drop_queue(grant);
	return err;
}

bool distmind_grant_asked(const struct distmind_grant *grant)
{
	const struct distmind_queue_page *page;

	page = grant->queue ? distmind_queue_page(grant->queue) : NULL;
	return page && __atomic_load_n(&page->yield, __ATOMIC_RELAXED);
}

static int give_back(struct distmind_grant *grant, uint32_t flags)
{
	struct distmind_grant_end end = { .flags = flags, .grant = grant->number };
	int err;

	if (!grant->number)
		return -EPROTO;
	end.queue = distmind_queue_handle(grant->queue);
	err = distmind_ioctl(grant->vgpu->fd, DISTMIND_IOC_GRANT_END, &end);
	grant->number = 0;
	if (err)
		drop_queue(grant);
	return err;
}

int distmind_grant_end(struct distmind_grant *grant)
{
	return give_back(grant, 0);
}

int distmind_grant_again(struct distmind_grant *grant, uint32_t timeout_ms)
{
	int err = timeout_ms > DISTMIND_TIMEOUT_MAX_MS ? -EINVAL :
							 give_back(grant, DISTMIND_GRANT_AGAIN);

	if (!err) {
		err = wait_for_lane(grant, timeout_ms);
		if (err)
			drop_queue(grant);
	}
	return err;
}

int distmind_grant_fd(const struct distmind_grant *grant)
{
	return grant->eventfd;
}

// SPDX-License-Identifier: MIT
#include "pool.h"
#include "record.h"

#include <errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <sys/socket.h>

/* Room for the events of a burst; what does not fit becomes an OVERRUN. */
#define EVENT_BUFFER (4 << 20)

static void grow_buffer(struct distmind_socket *socket)
{
	int fd = nl_socket_get_fd(socket->nl), size = EVENT_BUFFER;

	/* The groups need CAP_NET_ADMIN and so does going beyond the limit. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
}

/* Asked for on a socket of its own: the others have callbacks that are not libnl's. */
static int join(struct distmind_socket *events, const char *name)
{
	struct nl_sock *asking = nl_socket_alloc();
	int ret;

	if (!asking)
		return -ENOMEM;
	ret = genl_connect(asking);
	if (!ret)
		ret = genl_ctrl_resolve_grp(asking, DISTMIND_FAMILY_NAME, name);
	if (ret >= 0)
		ret = nl_socket_add_membership(events->nl, ret);
	nl_socket_free(asking);
	return distmind_socket_errno(ret);
}

int distmind_pool_subscribe(struct distmind_pool *pool)
{
	struct distmind_socket *events = &pool->events;
	int err;

	if (events->nl)
		return 0;
	err = distmind_socket_open(events);
	if (err)
		return distmind_socket_fail(&pool->commands, err, NULL);
	grow_buffer(events);
	err = distmind_socket_errno(nl_socket_set_nonblocking(events->nl));
	if (!err)
		err = join(events, DISTMIND_MCGRP_POOL);
	if (!err)
		err = join(events, DISTMIND_MCGRP_CLAIMS);
	if (err) {
		distmind_socket_close(events);
		return distmind_socket_fail(&pool->commands, err, NULL);
	}
	return 0;
}

int distmind_pool_subscribe_preempt(struct distmind_pool *pool)
{
	int err = distmind_pool_subscribe(pool);

	if (err)
		return err;
	err = join(&pool->events, DISTMIND_MCGRP_PREEMPT);
	return err ? distmind_socket_fail(&pool->commands, err, NULL) : 0;
}

int distmind_pool_event_fd(const struct distmind_pool *pool)
{
	return pool->events.nl ? nl_socket_get_fd(pool->events.nl) : -EBADF;
}

static int parse_event(const struct distmind_message *message, struct distmind_event *event)
{
	switch (message->command) {
	case DISTMIND_CMD_GPU_ADD_NTF:
		event->type = DISTMIND_EVENT_GPU_ADD;
		return distmind_record_gpu(message->head, message->len, &event->gpu);
	case DISTMIND_CMD_GPU_CHANGE_NTF:
		event->type = DISTMIND_EVENT_GPU_CHANGE;
		return distmind_record_gpu(message->head, message->len, &event->gpu);
	case DISTMIND_CMD_GPU_DEL_NTF:
		event->type = DISTMIND_EVENT_GPU_DEL;
		return distmind_record_gpu(message->head, message->len, &event->gpu);
	case DISTMIND_CMD_VGPU_ADD_NTF:
		event->type = DISTMIND_EVENT_VGPU_ADD;
		return distmind_record_vgpu(message->head, message->len, &event->vgpu);
	case DISTMIND_CMD_VGPU_CHANGE_NTF:
		event->type = DISTMIND_EVENT_VGPU_CHANGE;
		return distmind_record_vgpu(message->head, message->len, &event->vgpu);
	case DISTMIND_CMD_VGPU_DEL_NTF:
		event->type = DISTMIND_EVENT_VGPU_DEL;
		return distmind_record_vgpu(message->head, message->len, &event->vgpu);
	case DISTMIND_CMD_CLAIM_ADD_NTF:
		event->type = DISTMIND_EVENT_CLAIM_ADD;
		return distmind_record_claim(message->head, message->len, &event->claim);
	case DISTMIND_CMD_CLAIM_DEL_NTF:
		event->type = DISTMIND_EVENT_CLAIM_DEL;
		return distmind_record_claim(message->head, message->len, &event->claim);
	case DISTMIND_CMD_PREEMPT_NTF:
		event->type = DISTMIND_EVENT_PREEMPT;
		return distmind_record_preempt(message->head, message->len, &event->preempt);
	default:
		return -ENOMSG; /* a newer kernel's */
	}
}

struct dispatch {
	void (*each)(const struct distmind_event *event, void *arg);
	void *arg;
	int count;
};

static void hand_over(struct dispatch *dispatch, const struct distmind_event *event)
{
	dispatch->each(event, dispatch->arg);
	dispatch->count++;
}

static int take_event(const struct distmind_message *message, void *arg)
{
	struct distmind_event event = { 0 };
	int err;

	err = parse_event(message, &event);
	if (err == -ENOMSG)
		return 0;
	/* An event that cannot be read is as good as lost. */
	if (err)
		event.type = DISTMIND_EVENT_OVERRUN;
	hand_over(arg, &event);
	return 0;
}

int distmind_pool_dispatch(struct distmind_pool *pool,
			   void (*each)(const struct distmind_event *event, void *arg), void *arg)
{
	static const struct distmind_event overrun = { .type = DISTMIND_EVENT_OVERRUN };
	struct dispatch dispatch = { .each = each, .arg = arg };
	int ret;

	if (!pool->events.nl)
		return distmind_socket_fail(&pool->commands, -EBADF, "nobody subscribed");
	for (;;) {
		ret = distmind_socket_receive(&pool->events, take_event, &dispatch);
		if (ret == -ENOBUFS)
			hand_over(&dispatch, &overrun);
		else if (ret < 0)
			return distmind_socket_fail(&pool->commands, ret, NULL);
		else if (!ret)
			return dispatch.count;
	}
}

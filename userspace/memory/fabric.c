// SPDX-License-Identifier: GPL-2.0-or-later
#include "fabric.h"

#include "../common/clock.h"
#include "endpoint.h"
#include "registration.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ULL
/*
 * To wake a thread takes a part of the time of a READ. While somebody waits for one,
 * the thread stays awake and looks at the completion queues again and again, after
 * whoever else wants the processor, but not for longer than this if nothing happens.
 */
#define AWAKE_NS 10000000ULL
#define AWAKE_LOOKS 32 /* at completion queues, for each at the clock and the rest */

void memory_fabric_join(struct memory_fabric *fabric, struct memory_party *party)
{
	party->next = fabric->parties;
	fabric->parties = party;
}

void memory_fabric_leave(struct memory_fabric *fabric, struct memory_party *party)
{
	struct memory_party **at;

	for (at = &fabric->parties; *at; at = &(*at)->next) {
		if (*at == party) {
			*at = party->next;
			return;
		}
	}
}

/* Full counters mean that the other side has been woken many times already. */
static void signal_fd(int fd)
{
	const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static void drain_fd(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

void memory_fabric_kick(struct memory_fabric *fabric)
{
	signal_fd(fabric->kick);
}

void memory_fabric_tell(struct memory_fabric *fabric)
{
	signal_fd(fabric->news);
}

int memory_fabric_fd(const struct memory_fabric *fabric)
{
	return fabric->news;
}

/* Parties come and go by the owner's calls only, and this is the owner's thread. */
void memory_fabric_dispatch(struct memory_fabric *fabric)
{
	struct memory_party *party;

	drain_fd(fabric->news);
	for (party = fabric->parties; party; party = party->next) {
		if (party->dispatch)
			party->dispatch(party);
	}
}

static uint64_t run_parties(struct memory_fabric *fabric, uint64_t now)
{
	struct memory_party *party;
	uint64_t next, at;

	/* Parties may give up endpoints, and have to act on that. */
	do {
		next = UINT64_MAX;
		for (party = fabric->parties; party; party = party->next) {
			at = party->run(party, now);
			if (at < next)
				next = at;
		}
	} while (memory_endpoint_bury(fabric));
	return next;
}

static bool work(struct memory_fabric *fabric)
{
	struct memory_party *party;

	for (party = fabric->parties; party; party = party->next)
		if (party->work && party->work(party))
			return true;
	return false;
}

/* NULL: for ever. */
static struct timespec *timeout_until(uint64_t next, uint64_t now, struct timespec *timeout)
{
	uint64_t wait = next > now ? next - now : 0;

	if (next == UINT64_MAX)
		return NULL;
	timeout->tv_sec = wait / NS_PER_S;
	timeout->tv_nsec = wait % NS_PER_S;
	return timeout;
}

static bool urgent(const struct memory_fabric *fabric)
{
	const struct memory_party *party;

	for (party = fabric->parties; party; party = party->next)
		if (party->urgent)
			return true;
	return false;
}

static int sleep_until(struct memory_fabric *fabric, struct epoll_event *events, int room,
		       uint64_t next, uint64_t now)
{
	struct timespec timeout;

	return epoll_pwait2(fabric->epoll, events, room, timeout_until(next, now, &timeout), NULL);
}

/* The number of events; 0 may mean that READs have completed. */
static int watch_until(struct memory_fabric *fabric, struct epoll_event *events, int room,
		       uint64_t next, uint64_t now)
{
	uint64_t begin = now;
	bool found;
	int count;

	while (now < next && now - begin < AWAKE_NS) {
		for (int i = 0; i < AWAKE_LOOKS; i++) {
			pthread_mutex_lock(&fabric->lock);
			found = memory_endpoint_look(fabric);
			pthread_mutex_unlock(&fabric->lock);
			if (found)
				return 0;
			sched_yield();
		}
		count = epoll_wait(fabric->epoll, events, room, 0);
		if (count)
			return count;
		now = clock_ns();
	}
	return sleep_until(fabric, events, room, next, now);
}

/* There is more to do at once: completion queues are looked at all the same. */
static int look_briefly(struct memory_fabric *fabric)
{
	pthread_mutex_lock(&fabric->lock);
	memory_endpoint_look(fabric);
	pthread_mutex_unlock(&fabric->lock);
	return 0;
}

static void handle_event(struct memory_fabric *fabric, int fd)
{
	if (fd == fabric->kick)
		drain_fd(fabric->kick);
	else if (fd == fabric->completions->fd)
		memory_endpoint_poll(fabric);
	else
		memory_endpoint_events(fabric);
}

static void *handle(void *arg)
{
	struct memory_fabric *fabric = arg;
	struct epoll_event events[4];
	uint64_t now = 0, next = 0;
	bool stop, awake = false;
	int count, brief = 0;

	do {
		if (awake && !next && ++brief % AWAKE_LOOKS)
			count = look_briefly(fabric);
		else if (awake)
			count = watch_until(fabric, events, 4, next, now);
		else
			count = sleep_until(fabric, events, 4, next, now);
		pthread_mutex_lock(&fabric->lock);
		now = clock_ns();
		for (int i = 0; i < count; i++)
			handle_event(fabric, events[i].data.fd);
		memory_endpoint_bury(fabric);
		next = run_parties(fabric, now);
		if (work(fabric))
			next = 0;
		awake = urgent(fabric);
		stop = fabric->stopping;
		pthread_mutex_unlock(&fabric->lock);
	} while (!stop);
	return NULL;
}

/* The device that has this local address; its context stays as long as the anchor. */
static bool bind_address(struct memory_fabric *fabric, struct sockaddr *address)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(fabric->events, &id, NULL, RDMA_PS_TCP))
		return false;
	if (rdma_bind_addr(id, address) || !id->verbs) {
		rdma_destroy_id(id);
		return false;
	}
	fabric->anchor = id;
	fabric->verbs = id->verbs;
	return true;
}

static bool find_address(struct memory_fabric *fabric, const char *text)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST };
	struct addrinfo *all;
	bool found;

	if (getaddrinfo(text, NULL, &hints, &all))
		return false;
	found = bind_address(fabric, all->ai_addr);
	freeaddrinfo(all);
	return found;
}

/* Is that network device one that the RDMA device works on? By the kernel's list of them. */
static bool works_on(const struct ibv_device *device, const char *netdev)
{
	char path[2 * PATH_MAX], name[64];
	struct dirent *entry;
	bool found = false;
	FILE *file;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/ports/1/gid_attrs/ndevs", device->ibdev_path);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/ports/1/gid_attrs/ndevs/%s", device->ibdev_path,
			 entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (!file)
			continue;
		found = fscanf(file, "%63s", name) == 1 && !strcmp(name, netdev);
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* By an address of its network device. */
static bool find_by_netdev(struct memory_fabric *fabric, const struct ibv_device *device)
{
	struct ifaddrs *all, *one;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (one = all; one && !found; one = one->ifa_next)
		found = one->ifa_addr && one->ifa_name &&
			(one->ifa_addr->sa_family == AF_INET ||
			 one->ifa_addr->sa_family == AF_INET6) &&
			works_on(device, one->ifa_name) &&
			bind_address(fabric, one->ifa_addr);
	freeifaddrs(all);
	return found;
}

/*
 * A device that has no network device under it. The connection manager opens all devices for
 * that, and would keep them from being removed: the last resort.
 */
static bool find_among_all(struct memory_fabric *fabric, const char *name)
{
	int count;

	fabric->devices = rdma_get_devices(&count);
	for (int i = 0; fabric->devices && i < count && !fabric->verbs; i++)
		if (!name || !strcmp(ibv_get_device_name(fabric->devices[i]->device), name))
			fabric->verbs = fabric->devices[i];
	return fabric->verbs;
}

static bool find_name(struct memory_fabric *fabric, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found = false, any = false;

	for (size_t i = 0; list && list[i] && !found; i++) {
		if (name && strcmp(ibv_get_device_name(list[i]), name))
			continue;
		any = true;
		found = find_by_netdev(fabric, list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	return found || (any && find_among_all(fabric, name));
}

static int find_device(struct memory_fabric *fabric, const char *name, char *reason)
{
	if (find_name(fabric, name) || (name && find_address(fabric, name)))
		return 0;
	if (name)
		snprintf(reason, MEMORY_REASON_LEN,
			 "no RDMA device is called %s or has such an address; see `rdma link`",
			 name);
	else
		snprintf(reason, MEMORY_REASON_LEN,
			 "there is no RDMA device; try `rdma link add rxe0 type rxe netdev ...`");
	return -ENODEV;
}

static uint32_t byte_of(int number)
{
	return number < UINT8_MAX ? number : UINT8_MAX;
}

static int query(struct memory_fabric *fabric, char *reason)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	if (ibv_query_device(fabric->verbs, &device) || ibv_query_port(fabric->verbs, 1, &port)) {
		snprintf(reason, MEMORY_REASON_LEN, "cannot query %s: %s",
			 ibv_get_device_name(fabric->verbs->device), strerror(errno));
		return -EIO;
	}
	/* Both are single bytes in a connection request. */
	fabric->read_depth_max = byte_of(device.max_qp_init_rd_atom);
	fabric->serve_depth_max = byte_of(device.max_qp_rd_atom);
	fabric->message_max = port.max_msg_sz;
	return 0;
}

static int watch(struct memory_fabric *fabric, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(fabric->epoll, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	return 0;
}

const char *memory_fabric_device(const struct memory_fabric *fabric)
{
	return ibv_get_device_name(fabric->verbs->device);
}

bool memory_fabric_removed(struct memory_fabric *fabric)
{
	bool removed;

	pthread_mutex_lock(&fabric->lock);
	removed = fabric->removed;
	pthread_mutex_unlock(&fabric->lock);
	return removed;
}

bool memory_fabric_lost(struct memory_fabric *fabric)
{
	/* The first thing that goes, before anybody is waited for. */
	return memory_fabric_removed(fabric) || access(fabric->verbs->device->dev_path, F_OK);
}

/*
 * The kernel waits until the descriptors of a device that goes are closed. They are the
 * connection manager's, which keeps them until another device comes, and has no call for this.
 * Their numbers stay taken, so that it closes no others when it comes to that.
 */
static void let_go(const struct ibv_context *verbs)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup3(null, verbs->cmd_fd, O_CLOEXEC);
	dup3(null, verbs->async_fd, O_CLOEXEC);
	close(null);
}

static void dismantle(struct memory_fabric *fabric)
{
	bool lost = fabric->verbs && memory_fabric_lost(fabric);

	if (fabric->news >= 0)
		close(fabric->news);
	if (fabric->kick >= 0)
		close(fabric->kick);
	if (fabric->epoll >= 0)
		close(fabric->epoll);
	if (fabric->completions)
		ibv_destroy_comp_channel(fabric->completions);
	if (fabric->pd)
		ibv_dealloc_pd(fabric->pd);
	if (lost)
		let_go(fabric->verbs);
	if (fabric->anchor)
		rdma_destroy_id(fabric->anchor);
	if (fabric->devices)
		rdma_free_devices(fabric->devices);
	if (fabric->events)
		rdma_destroy_event_channel(fabric->events);
	pthread_mutex_destroy(&fabric->lock);
	free(fabric);
}

static int assemble(struct memory_fabric *fabric, const char *device, char *reason)
{
	int err;

	fabric->events = rdma_create_event_channel();
	if (!fabric->events) {
		err = -errno;
		snprintf(reason, MEMORY_REASON_LEN, "no connection manager: %s; load rdma_ucm",
			 strerror(-err));
		return err;
	}
	err = find_device(fabric, device, reason);
	if (!err)
		err = query(fabric, reason);
	if (err)
		return err;
	fabric->pd = ibv_alloc_pd(fabric->verbs);
	fabric->completions = ibv_create_comp_channel(fabric->verbs);
	fabric->epoll = epoll_create1(EPOLL_CLOEXEC);
	fabric->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fabric->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!fabric->pd || !fabric->completions || fabric->epoll < 0 ||
	    fabric->kick < 0 || fabric->news < 0 || watch(fabric, fabric->kick) ||
	    watch(fabric, fabric->completions->fd) || watch(fabric, fabric->events->fd)) {
		err = errno ? -errno : -EIO;
		snprintf(reason, MEMORY_REASON_LEN, "cannot use %s: %s",
			 ibv_get_device_name(fabric->verbs->device), strerror(-err));
		return err;
	}
	return 0;
}

int memory_fabric_open(struct memory_fabric **result, const char *device,
		       char reason[MEMORY_REASON_LEN])
{
	struct memory_fabric *fabric = calloc(1, sizeof(*fabric));
	int err;

	snprintf(reason, MEMORY_REASON_LEN, "out of memory");
	if (!fabric)
		return -ENOMEM;
	fabric->epoll = fabric->kick = fabric->news = -1;
	LIST_INIT(&fabric->registrations);
	pthread_mutex_init(&fabric->lock, NULL);
	err = assemble(fabric, device, reason);
	if (!err) {
		err = -pthread_create(&fabric->thread, NULL, handle, fabric);
		if (err)
			snprintf(reason, MEMORY_REASON_LEN, "cannot start a thread: %s",
				 strerror(-err));
	}
	if (err) {
		dismantle(fabric);
		return err;
	}
	*result = fabric;
	return 0;
}

void memory_fabric_take(struct memory_fabric *fabric)
{
	struct memory_registration *registration;
	size_t count = 0;

	LIST_FOREACH(registration, &fabric->registrations, link)
		count++;
	fabric->taken = calloc(count, sizeof(*fabric->taken));
	while (fabric->taken && !LIST_EMPTY(&fabric->registrations)) {
		registration = LIST_FIRST(&fabric->registrations);
		fabric->taken[fabric->taken_count++] = registration->mr;
		memory_registration_let_go(registration);
		*registration = (struct memory_registration){ 0 };
	}
	/* Without memory for that they end here, whatever it takes. */
	while (!LIST_EMPTY(&fabric->registrations))
		memory_registration_end(LIST_FIRST(&fabric->registrations));
}

void memory_fabric_stop(struct memory_fabric *fabric)
{
	if (!fabric || fabric->stopping)
		return;
	pthread_mutex_lock(&fabric->lock);
	fabric->stopping = true;
	pthread_mutex_unlock(&fabric->lock);
	memory_fabric_kick(fabric);
	pthread_join(fabric->thread, NULL);
	while (fabric->taken_count)
		ibv_dereg_mr(fabric->taken[--fabric->taken_count]);
	free(fabric->taken);
	fabric->taken = NULL;
}

void memory_fabric_close(struct memory_fabric *fabric)
{
	if (!fabric)
		return;
	memory_fabric_stop(fabric);
	while (!LIST_EMPTY(&fabric->registrations))
		memory_registration_end(LIST_FIRST(&fabric->registrations));
	fabric->closed = true;
	if (!fabric->holds)
		dismantle(fabric);
}

void memory_fabric_hold(struct memory_fabric *fabric)
{
	fabric->holds++;
}

void memory_fabric_release(struct memory_fabric *fabric)
{
	if (!--fabric->holds && fabric->closed)
		dismantle(fabric);
}

int memory_fabric_resolve(const char *host, uint16_t port, struct sockaddr_storage *address,
			  char reason[MEMORY_REASON_LEN])
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	char service[8];
	int err;

	snprintf(service, sizeof(service), "%u", port);
	err = getaddrinfo(host, service, &hints, &found);
	if (err) {
		snprintf(reason, MEMORY_REASON_LEN, "host %s: %s", host, gai_strerror(err));
		return -EHOSTUNREACH;
	}
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

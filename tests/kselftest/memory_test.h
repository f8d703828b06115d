/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of the memory pool share: chunks that every process knows, the
 * address of an RDMA device, donors on it, and a test's second process.
 *
 * Soft-RoCE is on an interface that is not lo, which the connection manager does not
 * do: a dummy one is made where there is no other.
 */
#ifndef MEMORY_TEST_H
#define MEMORY_TEST_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <openssl/evp.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../userspace/common/clock.h"
#include "../../userspace/memory/arena.h"
#include "../../userspace/memory/check.h"
#include "../../userspace/memory/donor.h"

#define MiB (1ULL << 20)
#define NS_PER_MS 1000000ULL
#define CHUNKS 24
#define ARENA (12 * MiB)
#define READ_SIZE (512 * 1024)
#define PORT 7471
#define ALL UINT32_MAX
#define NO_DEVICE "no RDMA device but on lo, and no dummy interface for another"

static const uint64_t lengths[] = { 1, 4096, 100001, MiB / 2, MiB + MiB / 4 + 3, MiB / 4 };

struct chunks {
	uint8_t digests[CHUNKS][MEMORY_DIGEST_LEN];
	uint64_t lengths[CHUNKS];
	uint64_t offsets[CHUNKS];
	uint64_t total;
	uint8_t *bytes;
};

struct process {
	pid_t pid;
	int control; /* its standard input: closing it ends a donor */
};

/* The local address that an RDMA device has. */
static char local[INET_ADDRSTRLEN];

static inline struct sockaddr_storage address_of(int donor)
{
	struct sockaddr_storage address = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&address;

	in->sin_family = AF_INET;
	in->sin_port = htons(PORT + donor);
	inet_pton(AF_INET, local, &in->sin_addr);
	return address;
}

static inline void make_chunks(struct chunks *chunks)
{
	uint64_t random = 88172645463325252ULL;

	chunks->total = 0;
	for (int i = 0; i < CHUNKS; i++) {
		chunks->lengths[i] = lengths[i % 6];
		chunks->offsets[i] = chunks->total;
		chunks->total += (chunks->lengths[i] + 511) / 512 * 512;
	}
	chunks->bytes = calloc(1, chunks->total);
	for (int i = 0; i < CHUNKS; i++) {
		/* Of eight bytes at a time, which an emulated processor likes better. */
		for (uint64_t b = 0; b < chunks->lengths[i]; b += sizeof(random)) {
			uint64_t left = chunks->lengths[i] - b;

			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			memcpy(chunks->bytes + chunks->offsets[i] + b, &random,
			       left < sizeof(random) ? left : sizeof(random));
		}
		EVP_Digest(chunks->bytes + chunks->offsets[i], chunks->lengths[i],
			   chunks->digests[i], NULL, EVP_sha256(), NULL);
	}
}

static inline int fill(struct memory_arena *arena, const struct chunks *chunks, uint32_t which)
{
	struct memory_chunk *chunk;
	int err;

	for (int i = 0; i < CHUNKS; i++) {
		if (!(which & 1U << i))
			continue;
		err = memory_arena_allocate(arena, chunks->lengths[i], &chunk);
		if (err)
			return err;
		memcpy(chunk->data, chunks->bytes + chunks->offsets[i], chunks->lengths[i]);
		err = memory_arena_seal(arena, chunk, chunks->digests[i],
					chunk_checksum(chunk->data, chunk->length));
		if (err)
			return err;
	}
	return 0;
}

static inline struct memory_donor_options donor_options(int index)
{
	return (struct memory_donor_options){
		.address = address_of(index), .id = { index }, .peers = 4, .host_peers = 4,
		.pins = 16,
	};
}

/* What each test says: what it does in its other role, that of role_start(). */
static int role_main(int index, uint32_t which);

/* memory --role ADDRESS INDEX WHICH; the harness has the main(). */
static __attribute__((constructor)) void role_enter(int argc, char **argv)
{
	if (argc != 5 || strcmp(argv[1], "--role"))
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(local, sizeof(local), "%s", argv[2]);
	_exit(role_main(atoi(argv[3]), strtoul(argv[4], NULL, 0)));
}

/*
 * This program once more, in its other role; returns when that has written a byte. Not
 * just a fork, which could not use a device that has been opened before.
 */
static inline int role_start(struct process *process, int index, uint32_t which)
{
	int control[2], ready[2];
	char byte, number[16], mask[16];

	snprintf(number, sizeof(number), "%d", index);
	snprintf(mask, sizeof(mask), "%u", which);
	if (pipe2(control, O_CLOEXEC) || pipe2(ready, O_CLOEXEC))
		return -1;
	process->pid = fork();
	if (!process->pid) {
		dup2(control[0], STDIN_FILENO);
		dup2(ready[1], STDOUT_FILENO);
		execl("/proc/self/exe", "memory", "--role", local, number, mask, NULL);
		_exit(1);
	}
	close(control[0]);
	close(ready[1]);
	process->control = control[1];
	if (process->pid < 0 || read(ready[0], &byte, 1) != 1)
		return -1;
	close(ready[0]);
	return 0;
}

static inline int role_end(struct process *process, bool kill_it)
{
	int status = 0;

	if (!process->pid)
		return 0;
	if (kill_it)
		kill(process->pid, SIGKILL);
	close(process->control);
	waitpid(process->pid, &status, 0);
	process->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static inline bool usable(struct sockaddr *address)
{
	struct rdma_cm_id *id;
	bool has;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return false;
	has = !rdma_bind_addr(id, address) && id->verbs;
	rdma_destroy_id(id);
	return has;
}

static inline bool find_address(void)
{
	struct ifaddrs *list, *at;

	if (getifaddrs(&list))
		return false;
	for (at = list; at && !*local; at = at->ifa_next) {
		struct sockaddr_in *in = (struct sockaddr_in *)at->ifa_addr;

		if (!in || in->sin_family != AF_INET || at->ifa_flags & IFF_LOOPBACK ||
		    !usable(at->ifa_addr))
			continue;
		inet_ntop(AF_INET, &in->sin_addr, local, sizeof(local));
	}
	freeifaddrs(list);
	return *local;
}

/* In a process of its own: what forks later must not have a device open. */
static inline bool has_device(void)
{
	int status, fds[2];
	pid_t pid;

	if (pipe(fds))
		return false;
	pid = fork();
	if (!pid) {
		if (!find_address() &&
		    system("modprobe -q dummy; ip link add distmind0 type dummy 2>/dev/null && "
			   "ip addr add 10.78.0.1/24 dev distmind0 && ip link set distmind0 up && "
			   "rdma link add distmind0 type rxe netdev distmind0") == 0)
			find_address();
		_exit(write(fds[1], local, sizeof(local)) != sizeof(local));
	}
	waitpid(pid, &status, 0);
	if (read(fds[0], local, sizeof(local)) != sizeof(local))
		*local = '\0';
	close(fds[0]);
	close(fds[1]);
	return *local;
}

#endif /* MEMORY_TEST_H */

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A real etcd for tests: one server or several on free ports of the loopback, their data
 * in directories of their own, ended with the test program whatever happens.
 */
#ifndef TESTS_CATALOG_ETCD_SERVER_H
#define TESTS_CATALOG_ETCD_SERVER_H

#include "../unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct etcd_server {
	pid_t pid;
	uint16_t port;
	uint16_t health; /* where it says how it is, in the clear */
	const char *quota; /* bytes that it may have; NULL: its own limit. Set before */
	/* Set before it is created: paths; it then wants certificates of its clients. */
	const char *ca, *certificate, *key;
	char client[64], peer[64]; /* URLs */
	char data[128];
	char name[16];
	char cluster[256];
};

/* A socket that listens on a free port of the loopback. */
static inline int listen_somewhere(uint16_t *port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

static inline const char *etcd_server_program(void)
{
	return access("/usr/bin/etcd", X_OK) ? NULL : "/usr/bin/etcd";
}

static inline void etcd_server_end(struct etcd_server *server)
{
	int status;

	if (!server->pid)
		return;
	kill(server->pid, SIGKILL);
	assert_int_equal(waitpid(server->pid, &status, 0), server->pid);
	server->pid = 0;
}

static inline bool etcd_server_is_healthy(const struct etcd_server *server)
{
	static const char question[] = "GET /health HTTP/1.0\r\n\r\n";
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(server->health),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct timeval limit = { .tv_sec = 5 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char answer[1024];
	ssize_t len = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
	    send(fd, question, sizeof(question) - 1, MSG_NOSIGNAL) > 0)
		len = recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL);
	close(fd);
	answer[len > 0 ? len : 0] = '\0';
	return strstr(answer, "\"health\":\"true\"");
}

/* Again with the same ports and the same data, if it ran before. */
static inline void etcd_server_spawn(struct etcd_server *server)
{
	pid_t parent = getpid();
	char log[160], health[64];
	/* Short elections allow short leases. */
	const char *argv[] = {
		"etcd", "--name", server->name, "--data-dir", server->data,
		"--listen-client-urls", server->client, "--advertise-client-urls", server->client,
		"--listen-peer-urls", server->peer, "--initial-advertise-peer-urls", server->peer,
		"--initial-cluster", server->cluster, "--heartbeat-interval", "20",
		"--election-timeout", "200", "--logger", "zap", "--log-outputs", "stderr",
		"--listen-metrics-urls", health,
		/* And these if it has a certificate. */
		server->certificate ? "--client-cert-auth" : NULL, "--trusted-ca-file", server->ca,
		"--cert-file", server->certificate, "--key-file", server->key, NULL,
	};
	int fd;

	snprintf(log, sizeof(log), "%s.log", server->data);
	snprintf(health, sizeof(health), "http://127.0.0.1:%u", server->health);
	server->pid = fork();
	assert_true(server->pid >= 0);
	if (!server->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		if (server->quota)
			setenv("ETCD_QUOTA_BACKEND_BYTES", server->quota, 1);
		fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		execv(etcd_server_program(), (char *const *)argv);
		_exit(127);
	}
}

static inline void etcd_server_wait(struct etcd_server *server)
{
	int status;

	for (int tries = 0; !etcd_server_is_healthy(server); tries++) {
		if (waitpid(server->pid, &status, WNOHANG) || tries > 1500)
			fail_msg("etcd does not serve, see %s.log", server->data);
		poll(NULL, 0, 20);
	}
}

static inline void etcd_server_start(struct etcd_server *server)
{
	etcd_server_spawn(server);
	etcd_server_wait(server);
}

/* Servers of one cluster. */
static inline void etcd_server_create(struct etcd_server *servers, unsigned int count,
				      const char *directory)
{
	char cluster[256] = "";
	int fds[3 * count];

	for (unsigned int i = 0; i < count; i++) {
		struct etcd_server *server = &servers[i];
		uint16_t peer;

		fds[3 * i] = listen_somewhere(&server->port);
		fds[3 * i + 1] = listen_somewhere(&peer);
		fds[3 * i + 2] = listen_somewhere(&server->health);
		snprintf(server->name, sizeof(server->name), "etcd%u", i);
		snprintf(server->client, sizeof(server->client), "%s://127.0.0.1:%u",
			 server->certificate ? "https" : "http", server->port);
		snprintf(server->peer, sizeof(server->peer), "http://127.0.0.1:%u", peer);
		snprintf(server->data, sizeof(server->data), "%s/etcd%u-of-%u", directory, i,
			 count);
		snprintf(cluster + strlen(cluster), sizeof(cluster) - strlen(cluster), "%s%s=%s",
			 i ? "," : "", server->name, server->peer);
	}
	for (unsigned int i = 0; i < 3 * count; i++)
		close(fds[i]);
	for (unsigned int i = 0; i < count; i++) {
		memcpy(servers[i].cluster, cluster, sizeof(cluster));
		etcd_server_spawn(&servers[i]);
	}
	for (unsigned int i = 0; i < count; i++)
		etcd_server_wait(&servers[i]);
}

#endif

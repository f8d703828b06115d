/* SPDX-License-Identifier: MIT */
/*
 * A conversation with distmindd about models: a connection, which carries one
 * exchange at a time. A message is a JSON object and up to four descriptors; what
 * may be large travels in a memfd. What lives as long as the connection, an upload
 * or the use of weights, ends with distmind_service_close() or with the process.
 *
 * Not part of the library's interface: distmindctl has an object of its own.
 */
#ifndef LIBDISTMIND_SERVICE_H
#define LIBDISTMIND_SERVICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISTMIND_SERVICE_SOCKET	      "/run/distmind/distmindd.sock"
#define DISTMIND_SERVICE_ENV	      "DISTMIND_SOCKET" /* another path */
#define DISTMIND_SERVICE_MESSAGE_MAX  32768		/* bytes of JSON */
#define DISTMIND_SERVICE_FDS	      4
#define DISTMIND_SERVICE_REASON_LEN   1024
#define DISTMIND_SERVICE_REPLICAS_MAX 8 /* that can be asked for; hot models may have more */

struct distmind_service {
	int fd;
	unsigned int late; /* replies that were not waited for */
	/* Of the last call that failed, in words. */
	char reason[DISTMIND_SERVICE_REASON_LEN];
};

struct distmind_service_request {
	json_t *body; /* taken over, also on failure; NULL: -ENOMEM */
	const int *fds;
	unsigned int fd_count;
	uint32_t timeout_ms; /* for the reply; 0: as long as it takes */
	void (*progress)(uint64_t done, uint64_t total, void *arg); /* or NULL */
	void *arg;
};

/* Owned by whoever asked; distmind_service_reply_end() also after a failure. */
struct distmind_service_reply {
	json_t *body;
	int fds[DISTMIND_SERVICE_FDS];
	unsigned int fd_count;
};

/* All return 0 or a negative errno, with service->reason in words. */
int distmind_service_open(struct distmind_service *service);
void distmind_service_close(struct distmind_service *service);
/* A refusal of the daemon's is a failure too. */
int distmind_service_ask(struct distmind_service *service,
			 const struct distmind_service_request *request,
			 struct distmind_service_reply *reply);
void distmind_service_reply_end(struct distmind_service_reply *reply);

/* A number of an object that is not negative. what names the object in the reason. */
int distmind_service_number(struct distmind_service *service, const json_t *object,
			    const char *key, const char *what, uint64_t *number);

/* What is in the reply's descriptor; *data is the caller's to free. */
int distmind_service_read(struct distmind_service *service,
			  const struct distmind_service_reply *reply, unsigned int fd, void **data,
			  size_t *size);
/* The same as JSON; *object is the caller's to json_decref(), NULL on failure. */
int distmind_service_object(struct distmind_service *service,
			    const struct distmind_service_reply *reply, unsigned int fd,
			    json_t **object);

/* A memfd that holds data and does not change any more: a descriptor. */
int distmind_service_memfd(const char *name, const void *data, size_t size);
/* For one that is filled bit by bit: no change from here on. */
int distmind_service_seal(int fd);

/* Keeps words as the reason, and returns error. */
int distmind_service_fail(struct distmind_service *service, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

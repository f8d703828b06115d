/* SPDX-License-Identifier: MIT */
/*
 * A conversation with distmindd about models: a connection, which carries one
 * exchange at a time, in messages (message.h). What lives as long as the connection, an
 * upload or the use of weights, ends with distmind_service_close() or with the process.
 *
 * Not part of the library's interface: distmindctl has an object of its own.
 */
#ifndef LIBDISTMIND_SERVICE_H
#define LIBDISTMIND_SERVICE_H

#include "../common/message.h"

#define DISTMIND_SERVICE_SOCKET	      "/run/distmind/distmindd.sock"
#define DISTMIND_SERVICE_ENV	      "DISTMIND_SOCKET" /* another path */
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

/* All return 0 or a negative errno, with service->reason in words. */
int distmind_service_open(struct distmind_service *service);
void distmind_service_close(struct distmind_service *service);
/* A refusal of the daemon's is a failure too. The reply is to be cleared whatever came of it. */
int distmind_service_ask(struct distmind_service *service,
			 const struct distmind_service_request *request,
			 struct message *reply);

/* A number of an object that is not negative. what names the object in the reason. */
int distmind_service_number(struct distmind_service *service, const json_t *object,
			    const char *key, const char *what, uint64_t *number);

/* What is in the reply's descriptor; *data is the caller's to free. */
int distmind_service_read(struct distmind_service *service,
			  const struct message *reply, unsigned int fd, void **data,
			  size_t *size);
/* The same as JSON; *object is the caller's to json_decref(), NULL on failure. */
int distmind_service_object(struct distmind_service *service,
			    const struct message *reply, unsigned int fd,
			    json_t **object);

/* Keeps words as the reason, and returns error. */
int distmind_service_fail(struct distmind_service *service, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

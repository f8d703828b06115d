/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Certificates for tests, made by openssl in a directory that goes away. */
#ifndef TESTS_CATALOG_CERTIFICATES_H
#define TESTS_CATALOG_CERTIFICATES_H

#include "../unit/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A certificate and its key, or those of an authority. */
struct pair {
	char certificate[128];
	char key[128];
};

static inline void run_quietly(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void run_quietly(const char *format, ...)
{
	char command[1024], line[1100];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	snprintf(line, sizeof(line), "{ %s; } >/dev/null 2>&1 </dev/null", command);
	if (system(line))
		fail_msg("%s", command);
}

/* By authority, or by itself if that is NULL; names: what it is for, as openssl writes it. */
static inline void make_pair(struct pair *pair, const char *directory, const char *name,
			     const struct pair *authority, const char *names)
{
	char by[400] = "-addext keyUsage=keyCertSign";

	snprintf(pair->certificate, sizeof(pair->certificate), "%s/%s.crt", directory, name);
	snprintf(pair->key, sizeof(pair->key), "%s/%s.key", directory, name);
	if (authority)
		snprintf(by, sizeof(by), "-CA %s -CAkey %s -addext basicConstraints=CA:FALSE "
					 "-addext subjectAltName=%s",
			 authority->certificate, authority->key, names);
	run_quietly("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
		    "-days 2 -subj /CN=%s -keyout %s -out %s %s",
		    name, pair->key, pair->certificate, by);
}

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/* distmindd: decides which gpu backs which vgpu, and keeps models for the memory pool. */
#include "common/background.h"
#include "daemon.h"
#include "common/lock.h"
#include "common/log.h"
#include "pool/models.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define PROGRAM "distmindd"

static const char usage[] =
	"usage: " PROGRAM " [options]\n"
	"\n"
	"Answers the requests for virtual GPUs of this host, and keeps models in its memory.\n"
	"\n"
	"  --foreground      stay in the foreground and log to stderr\n"
	"  --config FILE     configuration (default " CONFIG_FILE ")\n"
	"  --check           tell whether the configuration is right and exit\n"
	"  --version         print the version and exit\n"
	"  --help            print this and exit\n";

struct options {
	struct daemon_options daemon;
	bool foreground;
	bool check;
};

/* Returns an exit code, or -1 to go on. */
static int parse_options(int argc, char **argv, struct options *options)
{
	enum { FOREGROUND = 1, CONFIG, CHECK, VERSION, HELP };
	static const struct option known[] = {
		{ "foreground", no_argument, NULL, FOREGROUND },
		{ "config", required_argument, NULL, CONFIG },
		{ "check", no_argument, NULL, CHECK },
		{ "version", no_argument, NULL, VERSION },
		{ "help", no_argument, NULL, HELP },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case FOREGROUND:
			options->foreground = true;
			break;
		case CONFIG:
			options->daemon.config_path = optarg;
			options->daemon.config_optional = false;
			break;
		case CHECK:
			options->check = true;
			break;
		case VERSION:
			puts(PROGRAM " " DISTMIND_VERSION);
			return EX_OK;
		case HELP:
			fputs(usage, stdout);
			return EX_OK;
		default:
			fprintf(stderr, "Try " PROGRAM " --help\n");
			return EX_USAGE;
		}
	}
	if (optind < argc) {
		fprintf(stderr, PROGRAM ": takes options only, not %s\n", argv[optind]);
		return EX_USAGE;
	}
	return -1;
}

static int check(const struct daemon_options *options)
{
	char error[CONFIG_ERROR_LEN], reason[CATALOG_ERROR_LEN];
	struct config config;
	int err;

	err = config_read(options->config_path, &config, error);
	if (err == -ENOENT && options->config_optional) {
		printf("%s: is not there, so the defaults hold\n", options->config_path);
		return EX_OK;
	}
	if (err) {
		fprintf(stderr, "%s\n", error);
		return EX_CONFIG;
	}
	if (models_check(&config.models, reason)) {
		fprintf(stderr, "%s: %s\n", options->config_path, reason);
		return EX_CONFIG;
	}
	printf("%s: ok\n", options->config_path);
	return EX_OK;
}

static int exit_code(int err)
{
	switch (err) {
	case 0:
		return EX_OK;
	case -ENOENT:
		return EX_UNAVAILABLE;
	case -EPERM:
	case -EACCES:
		return EX_NOPERM;
	default:
		return EXIT_FAILURE;
	}
}

static void on_ready_foreground(void *arg)
{
	(void)arg;
}

static void on_ready_background(void *arg)
{
	background_ready(*(int *)arg);
	log_set_target(LOG_TO_SYSLOG);
}

int main(int argc, char **argv)
{
	struct options options = {
		.daemon = { .config_path = CONFIG_FILE, .config_optional = true },
	};
	struct config config;
	int code, lock, parent = -1;
	char error[512];

	code = parse_options(argc, argv, &options);
	if (code >= 0)
		return code;
	if (options.check)
		return check(&options.daemon);
	log_set_target(log_default_target());
	if (daemon_configure(&options.daemon, &config))
		return EX_CONFIG;
	log_set_level(config.log_level);

	lock = lock_take(error, sizeof(error));
	if (lock < 0) {
		log_error("no-lock", LOG_S("reason", error));
		return lock == -EBUSY ? EX_TEMPFAIL : exit_code(lock);
	}
	options.daemon.ready = on_ready_foreground;
	if (!options.foreground) {
		/* The lock is the open file's and goes with the child. */
		parent = background_start();
		if (parent < 0) {
			log_error("no-background", LOG_S("reason", strerror(-parent)));
			return EX_OSERR;
		}
		lock_sign(lock);
		options.daemon.ready = on_ready_background;
		options.daemon.arg = &parent;
	}
	code = exit_code(daemon_run(&options.daemon, &config));
	close(lock);
	return code;
}

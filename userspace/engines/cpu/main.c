// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * distmind-engine-cpu: a gpu made of host memory and host cores. The gpu is in
 * the pool for as long as this process lives.
 */
#include "../../common/size.h"
#include "../../libdistmind/distmind.h"
#include "lane.h"
#include "ops.h"
#include "profile.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define PROGRAM "distmind-engine-cpu"

static const char usage[] =
	"usage: " PROGRAM " --memory SIZE [options]\n"
	"\n"
	"Puts a gpu that lives in host memory into the pool until it is ended.\n"
	"\n"
	"  --memory SIZE     memory of the gpu, such as 512M or 1.5G\n"
	"  --name NAME       name of the gpu (default cpu0)\n"
	"  --kind KIND       kind of the gpu, for those who ask for one (default cpu)\n"
	"  --box N           box that the gpu is in (default 0)\n"
	"  --numa-node N     node that the memory comes from (default any)\n"
	"  --lanes N         jobs that it computes at a time (default 1)\n"
	"  --copy-lanes N    copies that it does at a time (default 1)\n"
	"  --profile FILE    speed of the gpu (default as fast as this machine)\n"
	"  --version         print the version and exit\n"
	"  --help            print this and exit\n";

static int parse_number(const char *option, const char *text, long max, long *value)
{
	char *end;

	errno = 0;
	*value = strtol(text, &end, 10);
	if (errno || end == text || *end || *value < 0 || *value > max) {
		fprintf(stderr, PROGRAM ": --%s %s: write a number from 0 to %ld\n", option, text,
			max);
		return -EINVAL;
	}
	return 0;
}

/* Returns an exit code, or -1 to go on. */
static int parse_options(int argc, char **argv, struct distmind_engine_params *params,
			 struct profile *profile)
{
	enum { MEMORY = 1, NAME, KIND, BOX, NUMA_NODE, LANES, COPY_LANES, PROFILE, VERSION, HELP };
	static const struct option options[] = {
		{ "memory", required_argument, NULL, MEMORY },
		{ "name", required_argument, NULL, NAME },
		{ "kind", required_argument, NULL, KIND },
		{ "box", required_argument, NULL, BOX },
		{ "numa-node", required_argument, NULL, NUMA_NODE },
		{ "lanes", required_argument, NULL, LANES },
		{ "copy-lanes", required_argument, NULL, COPY_LANES },
		{ "profile", required_argument, NULL, PROFILE },
		{ "version", no_argument, NULL, VERSION },
		{ "help", no_argument, NULL, HELP },
		{ 0 },
	};
	char error[PROFILE_ERROR_LEN];
	int option, index;
	long number;

	while ((option = getopt_long(argc, argv, "", options, &index)) != -1) {
		switch (option) {
		case MEMORY:
			if (size_parse(optarg, &params->memory) || !params->memory) {
				fprintf(stderr, PROGRAM ": --memory %s: write a size such as 1G\n",
					optarg);
				return EX_USAGE;
			}
			break;
		case NAME:
			params->name = optarg;
			break;
		case KIND:
			params->kind = optarg;
			break;
		case BOX:
			if (parse_number("box", optarg, UINT32_MAX, &number))
				return EX_USAGE;
			params->box = (uint32_t)number;
			break;
		case NUMA_NODE:
			if (parse_number("numa-node", optarg, INT_MAX, &number))
				return EX_USAGE;
			params->numa_node = (int32_t)number;
			break;
		case LANES:
			if (parse_number("lanes", optarg, DISTMIND_LANES_MAX, &number))
				return EX_USAGE;
			params->compute_lanes = (uint32_t)number;
			break;
		case COPY_LANES:
			if (parse_number("copy-lanes", optarg, DISTMIND_LANES_MAX, &number))
				return EX_USAGE;
			params->copy_lanes = (uint32_t)number;
			break;
		case PROFILE:
			if (profile_read(optarg, profile, error)) {
				fprintf(stderr, PROGRAM ": --profile %s\n", error);
				return EX_USAGE;
			}
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
	if (optind < argc || !params->memory) {
		fprintf(stderr, PROGRAM ": %s%s\n",
			optind < argc ? "takes options only, not " : "say how much: --memory 1G",
			optind < argc ? argv[optind] : "");
		return EX_USAGE;
	}
	return -1;
}

static const char *register_hint(int err)
{
	switch (err) {
	case -ENOENT:
		return "the distmind module is not loaded: modprobe distmind";
	case -EACCES:
	case -EPERM:
		return "engines are root's: run it as root";
	case -EEXIST:
		return "a gpu of that name is in the pool: choose another --name";
	case -ENOMEM:
		return "the host has not that much memory: ask for less with --memory";
	case -EINVAL:
		return "no such --numa-node, more than 16 lanes, or a --name or --kind that is empty, longer than 31 "
		       "or not of [A-Za-z0-9._-]";
	default:
		return strerror(-err);
	}
}

static pthread_t main_thread;

static void pass_on(int signal)
{
	pthread_kill(main_thread, signal);
}

/*
 * Blocks the signals that end an engine and gives them as a descriptor. The
 * BLAS library has started threads before main() was called; what they do not
 * block and so receive in our place is passed on to the thread that waits.
 */
static int open_signals(void)
{
	struct sigaction action = { .sa_handler = pass_on, .sa_flags = SA_RESTART };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	main_thread = pthread_self();
	if (sigprocmask(SIG_BLOCK, &set, NULL) || sigaction(SIGTERM, &action, NULL) ||
	    sigaction(SIGINT, &action, NULL))
		return -errno;
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int engine_fd; /* for on_bus_error() */

/*
 * The heap is closed to an engine whose gpu was removed or lost, in the middle of a job
 * maybe: it ends as it would have from serve(). Otherwise this is a bug, and ends so.
 */
static void on_bus_error(int signal)
{
	struct pollfd fd = { .fd = engine_fd };

	if (poll(&fd, 1, 0) > 0)
		_exit(fd.revents & POLLHUP ? EX_UNAVAILABLE : EX_TEMPFAIL);
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

/* The lanes work; what is left is to wait for the end. */
static int serve(struct distmind_engine *engine, int signals)
{
	struct pollfd fds[] = {
		{ .fd = distmind_engine_fd(engine), .events = 0 },
		{ .fd = signals, .events = POLLIN },
	};

	for (;;) {
		if (poll(fds, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			perror(PROGRAM ": poll");
			return EX_OSERR;
		}
		if (fds[1].revents)
			return EX_OK;
		if (fds[0].revents & POLLHUP) {
			fprintf(stderr, PROGRAM ": gpu %" PRIu32 " was removed from the pool\n",
				distmind_engine_gpu(engine));
			return EX_UNAVAILABLE;
		}
		if (fds[0].revents & (POLLERR | POLLNVAL)) {
			fprintf(stderr, PROGRAM ": gpu %" PRIu32 " is lost: it did not answer in time\n",
				distmind_engine_gpu(engine));
			return EX_TEMPFAIL;
		}
	}
}

int main(int argc, char **argv)
{
	struct distmind_engine_params params = {
		.name = "cpu0",
		.kind = "cpu",
		.numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1,
		.copy_lanes = 1,
		.capabilities = DISTMIND_ENGINE_YIELDS | DISTMIND_ENGINE_LENDS,
	};
	struct distmind_engine *engine;
	struct profile profile;
	char memory[SIZE_TEXT_LEN];
	int signals, code, err;

	profile_default(&profile);
	code = parse_options(argc, argv, &params, &profile);
	if (code >= 0)
		return code;
	signals = open_signals();
	if (signals < 0) {
		perror(PROGRAM ": signalfd");
		return EX_OSERR;
	}
	op_init();
	err = distmind_engine_register(&params, &engine);
	if (err) {
		fprintf(stderr, PROGRAM ": cannot register %s: %s\n", params.name,
			register_hint(err));
		return err == -ENOENT ? EX_UNAVAILABLE : EXIT_FAILURE;
	}
	engine_fd = distmind_engine_fd(engine);
	sigaction(SIGBUS, &(struct sigaction){ .sa_handler = on_bus_error }, NULL);
	err = lanes_start(engine, params.memory, params.compute_lanes + params.copy_lanes,
			  &profile);
	if (err) {
		fprintf(stderr, PROGRAM ": cannot start lanes: %s\n", strerror(-err));
		return EX_OSERR;
	}

	size_format(params.memory, memory, sizeof(memory));
	printf("gpu %" PRIu32 " name %s kind %s memory %s\n", distmind_engine_gpu(engine),
	       params.name, params.kind, memory);
	fflush(stdout);
	sd_notifyf(0, "READY=1\nSTATUS=serves gpu %" PRIu32, distmind_engine_gpu(engine));

	code = serve(engine, signals);
	sd_notify(0, "STOPPING=1");
	/* The lanes' threads use the engine to the end: it is closed with the process. */
	return code;
}

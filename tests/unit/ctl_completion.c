// SPDX-License-Identifier: GPL-2.0-or-later
/* The completion in a real bash, against a tool that prints a known pool. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char script[] =
	"set -u\n"
	"distmindctl() {\n"
	"	case \"$*\" in\n"
	"	'-j gpu list') printf '{\"gpus\": [\\n"
	"  {\"id\": 0, \"name\": \"cpu0\", \"kind\": \"cpu\", \"vgpus\": 1, \"engine_pid\": 77},\\n"
	"  {\"id\": 12, \"name\": \"big.1\", \"kind\": \"h100\", \"vgpus\": 0}\\n]}\\n' ;;\n"
	"	'-j vgpu list') printf '{\"vgpus\": [\\n"
	"  {\"id\": 3, \"name\": \"\", \"gpu\": 0, \"uid\": 1000, \"pid\": 9}\\n]}\\n' ;;\n"
	"	'-j host list') printf '{\"hosts\": [\\n"
	"  {\"host\": \"donor1\", \"address\": \"10.0.0.1\", \"state\": \"live\"},\\n"
	"  {\"host\": \"donor2\", \"address\": \"\", \"state\": \"away\"}\\n]}\\n' ;;\n"
	"	esac\n"
	"}\n"
	". userspace/distmindctl/distmindctl.bash\n"
	"complete -p distmindctl >/dev/null || exit 1\n"
	"IFS= read -r line\n"
	"read -ra COMP_WORDS <<<\"$line\"\n"
	"[[ $line == *' ' ]] && COMP_WORDS+=('')\n"
	"COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
	"_distmindctl\n"
	"echo \"${COMPREPLY[*]}\"\n";

static void expect(const char *line, const char *completions)
{
	char path[] = "/tmp/ctl_completion.XXXXXX";
	char command[256], text[512] = "";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	assert_non_null(file);
	fputs(script, file);
	fclose(file);
	snprintf(command, sizeof(command), "printf '%%s\\n' 'distmindctl %s' | bash --norc %s 2>&1",
		 line, path);
	file = popen(command, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	assert_int_equal(pclose(file), 0);
	remove(path);
	text[strcspn(text, "\n")] = '\0';
	assert_string_equal(text, completions);
}

static void nouns_and_verbs(void **state)
{
	(void)state;
	expect("", "gpu vgpu buffer claim limit model host pool policy top trace monitor run doctor completion help version");
	expect("v", "vgpu version");
	expect("gpu ", "list show drain undrain remove grace hang");
	expect("gpu d", "drain");
	expect("host ", "list show forget");
	expect("-j vgpu ", "list show create set delete");
	expect("help r", "run");
	expect("help gpu dr", "drain");
	expect("help run ", "");
}

static void gpus_and_vgpus_of_the_pool(void **state)
{
	(void)state;
	expect("gpu drain ", "0 12 cpu0 big.1");
	expect("gpu show b", "big.1");
	expect("policy ", "fifo fair slo srpt");
	expect("policy fair --gpu c", "cpu0");
	expect("gpu hang 0 ", "100ms 1s 10s");
	expect("vgpu show ", "3");
	expect("vgpu set 3 --gpu ", "none 0 12 cpu0 big.1");
	expect("run --kind ", "cpu h100");
	expect("host forget ", "donor1 donor2");
	expect("host forget donor2 --f", "--force");
}

static void options(void **state)
{
	(void)state;
	expect("vgpu set 3 --c", "--capped --class");
	expect("vgpu set 3 --class ", "best-effort standard latency");
	expect("run --s", "--share --same-box");
	expect("run --capped ", "yes no");
	expect("run ", "--memory --share --capped --class --objective --kind --count --same-box --timeout "
		       "--name --json --dry-run --help --");
	expect("gpu list --d", "--dry-run");
	expect("top --", "--interval --once --json --dry-run --help");
	expect("top --interval ", "100ms 1s 10s");
	expect("trace --s", "--svg");
	/* What an option has is no argument. */
	expect("model push --owner root --mode 0640 ",
	       "--order --replicas --owner --mode --json --dry-run --help");
}

static void a_command_of_its_own(void **state)
{
	(void)state;
	expect("run --memory 1G -- mapfil", "mapfile");
	expect("run --memory 1G mapfil", "");
	expect("run --memory 1G cat /dev/nul", "/dev/null");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nouns_and_verbs),
		cmocka_unit_test(gpus_and_vgpus_of_the_pool),
		cmocka_unit_test(options),
		cmocka_unit_test(a_command_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/distmindd/common/log.h"

#include <string.h>

static void a_line_is_logfmt(void **state)
{
	char text[128];

	(void)state;
	log_format(text, sizeof(text), "request-granted",
		   LOG_FIELDS(LOG_U("request", 7), LOG_S("kind", "cpu")));
	assert_string_equal(text, "event=request-granted request=7 kind=cpu");
	log_format(text, sizeof(text), "ready", LOG_FIELDS());
	assert_string_equal(text, "event=ready");
}

static void odd_values_are_quoted(void **state)
{
	char text[128];

	(void)state;
	log_format(text, sizeof(text), "x",
		   LOG_FIELDS(LOG_S("a", ""), LOG_S("b", "two words"), LOG_S("c", "k=v"),
			      LOG_S("d", "say \"no\""), LOG_S("e", "one\ntwo"), LOG_S("f", "\\")));
	assert_string_equal(text, "event=x a=\"\" b=\"two words\" c=\"k=v\" d=\"say \\\"no\\\"\" "
				  "e=\"one two\" f=\"\\\\\"");
}

static void what_does_not_fit_is_cut_off(void **state)
{
	char text[16];

	(void)state;
	log_format(text, sizeof(text), "a-very-long-event", LOG_FIELDS(LOG_U("n", 1)));
	assert_string_equal(text, "event=a-very-lo");
}

static void levels_have_names(void **state)
{
	(void)state;
	assert_int_equal(log_level_parse("error"), LOG_ERR);
	assert_int_equal(log_level_parse("debug"), LOG_DEBUG);
	assert_true(log_level_parse("loud") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_logfmt),
		cmocka_unit_test(odd_values_are_quoted),
		cmocka_unit_test(what_does_not_fit_is_cut_off),
		cmocka_unit_test(levels_have_names),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}

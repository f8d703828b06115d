# SPDX-License-Identifier: GPL-2.0-or-later
# The demo's application.

.PHONY: demo-programs
demo-programs: $(O)/demo/remote_memory

$(O)/demo/%: tests/demo/%.c $(O)/lib/libdistmind.so
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -g -Wall -Wextra -Werror -D_GNU_SOURCE -Iuapi -Iuserspace/libdistmind \
		$< -o $@ -L$(O)/lib -ldistmind -lrdmacm -libverbs

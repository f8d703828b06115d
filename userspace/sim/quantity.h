/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rates and durations as people write them: "12.5GB/s", "14T", "20us". */
#ifndef DISTMIND_SIM_QUANTITY_H
#define DISTMIND_SIM_QUANTITY_H

/* Of each a unit is needed, but for 0. In bytes/s, FLOP/s and seconds. */
enum sim_quantity {
	SIM_QUANTITY_BYTE_RATE,
	SIM_QUANTITY_FLOP_RATE,
	SIM_QUANTITY_TIME,
};

/* 0, or -EINVAL: not a number from 0 with such a unit. */
int sim_quantity_parse(enum sim_quantity quantity, const char *text, double *value);
/* One that can be read, for complaints. */
const char *sim_quantity_example(enum sim_quantity quantity);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_EXCHANGE_H
#define _DISTMIND_EXCHANGE_H

struct distmind_engine_exchange;
struct distmind_sched;

int distmind_exchange(struct distmind_sched *sched, struct distmind_engine_exchange *arg);

#endif /* _DISTMIND_EXCHANGE_H */

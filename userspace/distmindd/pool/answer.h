/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An answer that is too large for a message: JSON in a memfd, of which clients get a
 * descriptor. Its memory is the daemon's, and who has the descriptor can keep it for as long as
 * it likes. So it is lent: a connection has it until it asks for something else or ends, and when
 * neither a connection nor the daemon itself needs it any more its memory is taken back,
 * whoever still has the descriptor: that is of an empty file then. Thus the daemon has no
 * more answers than there are connections, which are limited for each user, and the few that
 * it keeps for those who ask next. How many bytes one user is lent is limited too
 * (client_lend()).
 *
 * Clients can only read, so that several can have the same one.
 */
#ifndef DISTMINDD_ANSWER_H
#define DISTMINDD_ANSWER_H

#include "../common/errands.h"

#include <jansson.h>

struct answer;

/* By any thread, a reference. Takes body, also on failure; NULL: -ENOMEM. */
int answer_make(struct answer **answer, json_t *body);

/* The loop's alone: */
struct answer *answer_get(struct answer *answer);
/*
 * With the last reference its memory goes, which can take long: by an errand of payer, or at
 * once if there are no errands any more. NULL is fine.
 */
void answer_put(struct answer *answer, struct errands *errands, uint64_t payer);
/* How many bytes it has. */
uint64_t answer_size(const struct answer *answer);
/* What a client gets; it stays the answer's. */
int answer_descriptor(const struct answer *answer);

#endif

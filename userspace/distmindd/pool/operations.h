/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What clients of the model service can ask for: the fields of each request, and who does it. */
#ifndef DISTMINDD_OPERATIONS_H
#define DISTMINDD_OPERATIONS_H

#include "client.h"

/* The client has no exchange. It is answered, at once or later, also if this makes no sense. */
void operation_begin(struct client *client, struct message *message);

#endif

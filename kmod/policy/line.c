// SPDX-License-Identifier: GPL-2.0-only
/*
 * The requests that are in one queue: which of them is in the greatest hurry.
 *
 * The order of a queue holds. So whoever wants a job done wants those before it done, and
 * the first job of a queue stands for the most urgent request behind it, too.
 *
 * A turn is what was submitted of a request at once, as that was known then, but for its
 * deadline, which the caller can move. Turns are in a tree in the order in which they came,
 * whose nodes know the least of what is below them: the root knows it of all, and a turn
 * comes, goes or is moved in O(log n), however many there are.
 *
 * For srpt, what is before a request is to be done as well. Instead of counting that anew
 * for each when something is done, the line counts all work that ever came and all that
 * was done, and a turn remembers what had come before it.
 */
#include "core.h"

static bool turn_compute(struct policy_turn *turn, bool exit)
{
	struct policy_hurry least = turn->own;
	const struct rb_node *children[] = { turn->node.rb_left, turn->node.rb_right };
	const struct policy_turn *child;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(children); i++) {
		if (!children[i])
			continue;
		child = rb_entry(children[i], struct policy_turn, node);
		least.due_ns = min(least.due_ns, child->least.due_ns);
		least.key = min(least.key, child->least.key);
	}
	if (exit && least.due_ns == turn->least.due_ns && least.key == turn->least.key)
		return true;
	turn->least = least;
	return false;
}

RB_DECLARE_CALLBACKS(static, turns, struct policy_turn, node, least, turn_compute)

static struct policy_turn *line_turn_at(struct rb_node *node)
{
	return rb_entry_safe(node, struct policy_turn, node);
}

void policy_line_init(struct policy_line *line)
{
	memset(line, 0, sizeof(*line));
}

void policy_line_add(struct policy_line *line, struct policy_turn *turn, u64 request_ns,
		     u64 deadline_ns, u64 left_ns)
{
	struct rb_node **place = &line->turns.rb_node, *parent = NULL;

	turn->request_ns = request_ns;
	turn->own.due_ns = max(deadline_ns, request_ns);
	turn->own.key = request_ns / POLICY_SRPT_AGING + line->came_ns +
			min(left_ns, POLICY_RUN_MAX);
	turn->least = turn->own;
	while (*place) {
		parent = *place;
		place = &parent->rb_right;
	}
	rb_link_node(&turn->node, parent, place);
	turns.propagate(parent, NULL);
	rb_insert_augmented(&turn->node, &line->turns, &turns);
}

void policy_line_del(struct policy_line *line, struct policy_turn *turn)
{
	rb_erase_augmented(&turn->node, &line->turns, &turns);
}

void policy_turn_set_deadline(struct policy_turn *turn, u64 deadline_ns)
{
	turn->own.due_ns = max(deadline_ns, turn->request_ns);
	turns.propagate(&turn->node, NULL);
}

void policy_line_came(struct policy_line *line, u64 work_ns)
{
	line->came_ns += work_ns;
}

void policy_line_went(struct policy_line *line, u64 work_ns)
{
	line->went_ns += work_ns;
}

u64 policy_line_due(const struct policy_line *line)
{
	const struct policy_turn *root = line_turn_at(line->turns.rb_node);

	return root ? root->least.due_ns : U64_MAX;
}

bool policy_line_shortest(const struct policy_line *line, u64 *request_ns, u64 *left_ns)
{
	struct policy_turn *turn = line_turn_at(line->turns.rb_node), *below;
	u64 key;

	if (!turn)
		return false;
	key = turn->least.key;
	while (turn->own.key != key) {
		below = line_turn_at(turn->node.rb_left);
		if (!below || below->least.key != key)
			below = line_turn_at(turn->node.rb_right);
		turn = below;
	}
	*request_ns = turn->request_ns;
	*left_ns = key - turn->request_ns / POLICY_SRPT_AGING - line->went_ns;
	return true;
}

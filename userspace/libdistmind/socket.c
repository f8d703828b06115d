// SPDX-License-Identifier: MIT
#include "socket.h"

#include "attribute.h"
#include "distmind.h"

#include <errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The kernel makes no datagram larger than this, so none need be peeked at. */
#define DATAGRAM_MAX 32768

int distmind_socket_errno(int nl_error)
{
	switch (nl_error < 0 ? -nl_error : nl_error) {
	case NLE_SUCCESS:
		return 0;
	case NLE_AGAIN:
	case NLE_DUMP_INTR:
		return -EAGAIN;
	case NLE_INTR:
		return -EINTR;
	case NLE_NOMEM:
		return -ENOMEM;
	case NLE_PERM:
	case NLE_NOACCESS:
		return -EPERM;
	case NLE_OBJ_NOTFOUND:
		return -ENOENT;
	case NLE_AF_NOSUPPORT:
	case NLE_PROTO_MISMATCH:
		return -EAFNOSUPPORT;
	case NLE_MSGSIZE:
	case NLE_MSG_TRUNC:
	case NLE_MSG_TOOSHORT:
		return -EMSGSIZE;
	default:
		return -EIO;
	}
}

int distmind_socket_fail(struct distmind_socket *socket, int err, const char *text)
{
	if (!text)
		text = err == -EPERM ? "not permitted: it needs CAP_NET_ADMIN, so run it as root" :
				       strerror(-err);
	snprintf(socket->error, sizeof(socket->error), "%s", text);
	return err;
}

int distmind_socket_open(struct distmind_socket *socket)
{
	int one = 1, fd, err;

	socket->error[0] = '\0';
	socket->nl = nl_socket_alloc();
	if (!socket->nl)
		return -ENOMEM;
	err = genl_connect(socket->nl);
	if (err < 0)
		goto err_free;
	/* For a kernel without one of these the errors only have fewer words. */
	fd = nl_socket_get_fd(socket->nl);
	setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof(one));
	setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	socket->family = genl_ctrl_resolve(socket->nl, DISTMIND_FAMILY_NAME);
	if (socket->family < 0) {
		err = socket->family;
		goto err_free;
	}
	nl_socket_disable_msg_peek(socket->nl);
	err = nl_socket_set_msg_buf_size(socket->nl, DATAGRAM_MAX);
	if (err < 0)
		goto err_free;
	return 0;

err_free:
	nl_socket_free(socket->nl);
	socket->nl = NULL;
	return distmind_socket_errno(err);
}

void distmind_socket_close(struct distmind_socket *socket)
{
	nl_socket_free(socket->nl);
	socket->nl = NULL;
}

struct nl_msg *distmind_socket_request(struct distmind_socket *socket, uint8_t command, int flags)
{
	struct nl_msg *msg = nlmsg_alloc();

	if (msg && !genlmsg_put(msg, NL_AUTO_PORT, NL_AUTO_SEQ, socket->family, 0, flags, command,
				DISTMIND_FAMILY_VERSION)) {
		nlmsg_free(msg);
		msg = NULL;
	}
	return msg;
}

/* What the kernel adds to an error. */
struct extack {
	const char *text; /* NULL: nothing */
	uint32_t offset;  /* in the request, of the attribute at fault; 0: none */
};

/* The attributes that follow the first bytes of a message's payload. */
static struct extack parse_extack(struct nlmsghdr *hdr, size_t skip)
{
	struct extack extack = { 0 };
	struct nlattr *head, *attr;
	int len;

	skip = NLMSG_ALIGN(skip);
	if (!(hdr->nlmsg_flags & NLM_F_ACK_TLVS) || nlmsg_datalen(hdr) < (int)skip)
		return extack;
	head = (struct nlattr *)((char *)nlmsg_data(hdr) + skip);
	len = nlmsg_datalen(hdr) - (int)skip;
	attr = nla_find(head, len, NLMSGERR_ATTR_MSG);
	if (attr && nla_len(attr) > 0 && !((char *)nla_data(attr))[nla_len(attr) - 1])
		extack.text = nla_data(attr);
	attr = nla_find(head, len, NLMSGERR_ATTR_OFFS);
	if (attr && nla_len(attr) >= (int)sizeof(uint32_t))
		extack.offset = nla_get_u32(attr);
	return extack;
}

/* The name of the request's attribute at an offset, or NULL. */
static const char *attribute_at(struct nlmsghdr *request, uint32_t offset)
{
	struct genlmsghdr *genl = nlmsg_data(request);
	struct nlattr *attr;

	if (offset < NLMSG_HDRLEN + GENL_HDRLEN || offset % NLA_ALIGNTO ||
	    offset > request->nlmsg_len - NLA_HDRLEN)
		return NULL;
	attr = (struct nlattr *)((char *)request + offset);
	return distmind_attribute_name(genl->cmd, nla_type(attr));
}

/*
 * The module's words name the field; those of netlink itself, such as "integer
 * out of range", do not.
 */
static int refuse(struct distmind_socket *socket, struct nlmsghdr *request, int err,
		  const struct extack *extack)
{
	const char *name = attribute_at(request, extack->offset);
	char text[sizeof(socket->error)];

	if (!extack->text || !name || strstr(extack->text, name))
		return distmind_socket_fail(socket, err, extack->text);
	snprintf(text, sizeof(text), "%s: %s", name, extack->text);
	return distmind_socket_fail(socket, err, text);
}

/* An acknowledgement, which is an error of 0, or a refusal. */
static int take_error(struct distmind_socket *socket, struct nlmsghdr *request,
		      struct nlmsghdr *hdr)
{
	struct nlmsgerr *answer = nlmsg_data(hdr);
	size_t skip = sizeof(*answer);
	struct extack extack;

	if (nlmsg_datalen(hdr) < (int)sizeof(*answer))
		return distmind_socket_fail(socket, -EBADMSG, NULL);
	if (!answer->error)
		return 0;
	if (!(hdr->nlmsg_flags & NLM_F_CAPPED) && answer->msg.nlmsg_len > NLMSG_HDRLEN)
		skip += answer->msg.nlmsg_len - NLMSG_HDRLEN;
	extack = parse_extack(hdr, skip);
	return refuse(socket, request, answer->error, &extack);
}

/* The end of a dump carries the dump's own error. */
static int take_done(struct distmind_socket *socket, struct nlmsghdr *request,
		     struct nlmsghdr *hdr)
{
	struct extack extack;
	int err;

	if (nlmsg_datalen(hdr) < (int)sizeof(err))
		return 0;
	memcpy(&err, nlmsg_data(hdr), sizeof(err));
	if (err >= 0)
		return 0;
	extack = parse_extack(hdr, sizeof(err));
	return refuse(socket, request, err, &extack);
}

static int take_message(struct distmind_socket *socket, struct nlmsghdr *hdr,
			int (*each)(const struct distmind_message *message, void *arg), void *arg)
{
	struct distmind_message message;
	struct genlmsghdr *genl;

	if (hdr->nlmsg_type != socket->family || !genlmsg_valid_hdr(hdr, 0))
		return 0;
	genl = nlmsg_data(hdr);
	message.command = genl->cmd;
	message.head = genlmsg_attrdata(genl, 0);
	message.len = genlmsg_attrlen(genl, 0);
	return each ? each(&message, arg) : 0;
}

/* The state of one exchange. */
struct answer {
	struct nlmsghdr *request;
	bool complete;
	bool interrupted;
	int err; /* the first one; reading goes on to leave the socket clean */
};

static int receive_answer(struct distmind_socket *socket, struct answer *answer,
			  int (*each)(const struct distmind_message *message, void *arg), void *arg)
{
	struct sockaddr_nl from;
	unsigned char *buf = NULL;
	struct nlmsghdr *hdr;
	int len, err;

	len = nl_recv(socket->nl, &from, &buf, NULL);
	if (len <= 0)
		return len ? distmind_socket_errno(len) : -EIO;
	hdr = (struct nlmsghdr *)buf;
	for (; nlmsg_ok(hdr, len) && !answer->complete; hdr = nlmsg_next(hdr, &len)) {
		/* What is left of an exchange that broke off is of no interest. */
		if (from.nl_pid || hdr->nlmsg_seq != answer->request->nlmsg_seq)
			continue;
		if (hdr->nlmsg_flags & NLM_F_DUMP_INTR)
			answer->interrupted = true;
		if (hdr->nlmsg_type == NLMSG_ERROR) {
			err = take_error(socket, answer->request, hdr);
			answer->complete = true;
		} else if (hdr->nlmsg_type == NLMSG_DONE) {
			err = take_done(socket, answer->request, hdr);
			answer->complete = true;
		} else {
			err = take_message(socket, hdr, each, arg);
		}
		if (!answer->err)
			answer->err = err;
	}
	free(buf);
	return 0;
}

int distmind_socket_exchange(struct distmind_socket *socket, struct nl_msg *request,
			     int (*each)(const struct distmind_message *message, void *arg),
			     void *arg)
{
	struct answer answer = { .request = nlmsg_hdr(request) };
	int err;

	err = nl_send_auto(socket->nl, request);
	err = err < 0 ? distmind_socket_errno(err) : 0;
	while (!err && !answer.complete)
		err = receive_answer(socket, &answer, each, arg);
	nlmsg_free(request);
	if (err)
		return distmind_socket_fail(socket, err, NULL);
	if (!answer.err && answer.interrupted)
		return distmind_socket_fail(socket, -EAGAIN, "the pool changes too fast to list");
	return answer.err;
}

int distmind_socket_receive(struct distmind_socket *socket,
			    int (*each)(const struct distmind_message *message, void *arg),
			    void *arg)
{
	struct sockaddr_nl from;
	unsigned char *buf = NULL;
	struct nlmsghdr *hdr;
	int len, err = 0;

	len = nl_recv(socket->nl, &from, &buf, NULL);
	if (len == -NLE_AGAIN || !len)
		return 0;
	/* libnl has one word for ENOBUFS and ENOMEM; both mean: list again. */
	if (len == -NLE_NOMEM)
		return -ENOBUFS;
	if (len < 0)
		return distmind_socket_errno(len);
	hdr = (struct nlmsghdr *)buf;
	for (; nlmsg_ok(hdr, len) && !from.nl_pid && !err; hdr = nlmsg_next(hdr, &len))
		err = take_message(socket, hdr, each, arg);
	free(buf);
	return err < 0 ? err : 1;
}

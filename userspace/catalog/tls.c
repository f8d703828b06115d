// SPDX-License-Identifier: GPL-2.0-or-later
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (16 << 20) /* bytes; all that a system trusts are a quarter of one */

/* A file of one of the settings; NULL: error and errno say why. */
static FILE *open_file(const char *setting, const char *path, bool secret, char *error)
{
	/* Without waiting: it might be a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat status;
	FILE *file;

	if (fd < 0 || fstat(fd, &status)) {
		snprintf(error, CATALOG_ERROR_LEN,
			 "%s: cannot read %s: %s: name a file that distmindd may read", setting,
			 path, strerror(errno));
		goto fail;
	}
	if (!S_ISREG(status.st_mode)) {
		snprintf(error, CATALOG_ERROR_LEN, "%s: %s is not a file: name one in PEM",
			 setting, path);
		errno = EINVAL;
		goto fail;
	}
	if (status.st_size > FILE_MAX) {
		snprintf(error, CATALOG_ERROR_LEN,
			 "%s: %s is larger than %d bytes, which no file in PEM is: name the right "
			 "one",
			 setting, path, FILE_MAX);
		errno = EFBIG;
		goto fail;
	}
	/*
	 * Whoever has the key can change the models of every host. A warning would be read
	 * by nobody, and the fix is one command, so it is refused, as ssh does.
	 */
	if (secret && status.st_mode & 077) {
		snprintf(error, CATALOG_ERROR_LEN,
			 "%s: others have access to %s (mode %04o): run chmod 600 on it", setting,
			 path, (unsigned int)status.st_mode & 07777);
		errno = EACCES;
		goto fail;
	}
	file = fdopen(fd, "r");
	if (file)
		return file;
	snprintf(error, CATALOG_ERROR_LEN, "no memory");
fail:
	if (fd >= 0) {
		int err = errno;

		close(fd);
		errno = err;
	}
	return NULL;
}

/* The first certificate of a file. */
static X509 *read_certificate(const char *setting, const char *path, char *error)
{
	FILE *file = open_file(setting, path, false, error);
	X509 *certificate;

	if (!file)
		return NULL;
	certificate = PEM_read_X509(file, NULL, NULL, NULL);
	fclose(file);
	if (!certificate) {
		snprintf(error, CATALOG_ERROR_LEN,
			 "%s: there is no certificate in %s: name a file that has one in PEM",
			 setting, path);
		errno = EINVAL;
	}
	return certificate;
}

/* Without it libcrypto would ask on the terminal. */
static int no_passphrase(char *text, int room, int writing, void *arg)
{
	(void)text;
	(void)room;
	(void)writing;
	(void)arg;
	return -1;
}

static EVP_PKEY *read_key(const char *path, char *error)
{
	FILE *file = open_file("key", path, true, error);
	EVP_PKEY *key;

	if (!file)
		return NULL;
	key = PEM_read_PrivateKey(file, NULL, no_passphrase, NULL);
	fclose(file);
	if (!key) {
		snprintf(error, CATALOG_ERROR_LEN,
			 "key: there is no key in %s that can be read: name a file that has one in "
			 "PEM, without a passphrase",
			 path);
		errno = EINVAL;
	}
	return key;
}

static int check_pair(const struct catalog_tls *tls, char *error)
{
	X509 *certificate = read_certificate("certificate", tls->certificate, error);
	EVP_PKEY *key = certificate ? read_key(tls->key, error) : NULL;
	int err = key ? 0 : -errno;

	if (key && X509_check_private_key(certificate, key) != 1) {
		snprintf(error, CATALOG_ERROR_LEN,
			 "key: %s is not the key of %s: name the two that were made together",
			 tls->key, tls->certificate);
		err = -EINVAL;
	}
	EVP_PKEY_free(key);
	X509_free(certificate);
	return err;
}

int catalog_tls_check(const struct catalog_tls *tls, char *error)
{
	X509 *ca;

	if (tls->ca) {
		ca = read_certificate("ca", tls->ca, error);
		if (!ca)
			return -errno;
		X509_free(ca);
	}
	return tls->certificate ? check_pair(tls, error) : 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
#include "encode.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

json_t *catalog_base64(const void *bytes, size_t size)
{
	json_t *string = NULL;
	char *text;
	int len;

	if (size > INT_MAX / 2)
		return NULL;
	text = malloc((size + 2) / 3 * 4 + 1);
	if (!text)
		return NULL;
	len = EVP_EncodeBlock((unsigned char *)text, bytes, (int)size);
	if (len >= 0)
		string = json_stringn(text, (size_t)len);
	free(text);
	return string;
}

void *catalog_base64_decode(const json_t *string, size_t *size)
{
	const char *text = json_string_value(string);
	size_t len = json_string_length(string);
	size_t padding = 0;
	char *bytes;

	/* libcrypto would forgive white space and take '=' for a zero anywhere. */
	if (!text || len % 4 || len > INT_MAX / 2)
		return NULL;
	while (padding < 2 && padding < len && text[len - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < len - padding; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '+' && text[i] != '/')
			return NULL;
	bytes = malloc(len / 4 * 3 + 1);
	if (!bytes)
		return NULL;
	if (len && EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)text,
				   (int)len) != (int)(len / 4 * 3)) {
		free(bytes);
		return NULL;
	}
	*size = len / 4 * 3 - padding;
	bytes[*size] = '\0';
	return bytes;
}

bool catalog_json_u64(const json_t *object, const char *name, uint64_t *number)
{
	const json_t *value = json_object_get(object, name);
	const char *text = json_string_value(value);
	char *end;

	*number = 0;
	if (!value)
		return true;
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*number = (uint64_t)json_integer_value(value);
		return true;
	}
	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && !*end;
}

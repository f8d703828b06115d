// SPDX-License-Identifier: GPL-2.0-or-later
#include "checkpoint.h"

#include "../common/text_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_SUFFIX ".index.json"

static int by_name(const void *a, const void *b)
{
	const struct model_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

const struct model_tensor *model_checkpoint_find(const struct model_checkpoint *checkpoint,
						 const char *name)
{
	const struct model_tensor wanted = { .name = (char *)name }, *key = &wanted;
	const struct model_tensor **found =
		bsearch(&key, checkpoint->tensors, checkpoint->count,
			sizeof(*checkpoint->tensors), by_name);

	return found ? *found : NULL;
}

/* Which of the files a tensor is in. */
static const struct model_safetensors *file_of(const struct model_checkpoint *checkpoint,
					       const struct model_tensor *tensor)
{
	for (size_t i = 0; i < checkpoint->file_count; i++) {
		const struct model_safetensors *file = &checkpoint->files[i];

		if (tensor >= file->tensors && tensor < file->tensors + file->count)
			return file;
	}
	return NULL;
}

static int collect_tensors(struct model_checkpoint *checkpoint, char *error)
{
	size_t count = 0;

	for (size_t i = 0; i < checkpoint->file_count; i++)
		count += checkpoint->files[i].count;
	checkpoint->tensors = calloc(count + 1, sizeof(*checkpoint->tensors));
	if (!checkpoint->tensors)
		return model_error(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < checkpoint->file_count; i++)
		for (size_t j = 0; j < checkpoint->files[i].count; j++)
			checkpoint->tensors[checkpoint->count++] = &checkpoint->files[i].tensors[j];
	qsort(checkpoint->tensors, count, sizeof(*checkpoint->tensors), by_name);
	for (size_t i = 1; i < count; i++) {
		const struct model_tensor *a = checkpoint->tensors[i - 1];
		const struct model_tensor *b = checkpoint->tensors[i];

		if (!strcmp(a->name, b->name))
			return model_error(error, -EINVAL,
					   "tensor \"%s\" is in %s and in %s: name each file once",
					   a->name, file_of(checkpoint, a)->path,
					   file_of(checkpoint, b)->path);
	}
	return 0;
}

static int open_files(struct model_checkpoint *checkpoint, const char *const *paths, size_t count,
		      char *error)
{
	int err;

	checkpoint->files = calloc(count, sizeof(*checkpoint->files));
	if (!checkpoint->files)
		return model_error(error, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		err = model_safetensors_open(&checkpoint->files[i], paths[i], error);
		if (err)
			return err;
		checkpoint->file_count++;
	}
	return collect_tensors(checkpoint, error);
}

/* The files of an index, each once; what is in the array belongs to the caller. */
struct file_list {
	char **paths;
	size_t count;
};

static int add_file(struct file_list *list, const char *directory, const char *name)
{
	char *path;

	if (asprintf(&path, "%s%s", directory, name) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->paths[i], path)) {
			free(path);
			return 0;
		}
	list->paths[list->count++] = path;
	return 0;
}

static int list_files(const char *index, json_t *map, struct file_list *list, char *error)
{
	char *directory = strdup(index), *slash;
	const char *name;
	json_t *value;
	int err = 0;

	list->paths = calloc(json_object_size(map), sizeof(*list->paths));
	if (!directory || !list->paths) {
		free(directory);
		return model_error(error, -ENOMEM, "%s: out of memory", index);
	}
	slash = strrchr(directory, '/');
	*(slash ? slash + 1 : directory) = '\0';
	json_object_foreach(map, name, value) {
		const char *file = json_string_value(value);

		/* An index from elsewhere does not reach other directories. */
		if (!file || !*file || strchr(file, '/') || *file == '.')
			err = model_error(error, -EINVAL,
					  "%s: weight_map: \"%.200s\": not the name of a file "
					  "beside the index: write it so",
					  index, name);
		else if (add_file(list, directory, file))
			err = model_error(error, -ENOMEM, "%s: out of memory", index);
		if (err)
			break;
	}
	free(directory);
	return err;
}

/* Each tensor is in the file that the index says, and none is left over. */
static int compare(const struct model_checkpoint *checkpoint, const char *index, json_t *map,
		   char *error)
{
	for (size_t i = 0; i < checkpoint->count; i++) {
		const struct model_tensor *tensor = checkpoint->tensors[i];
		const char *path = file_of(checkpoint, tensor)->path;
		const char *slash = strrchr(path, '/');
		const char *file = json_string_value(json_object_get(map, tensor->name));

		if (!file || strcmp(file, slash ? slash + 1 : path))
			return model_error(error, -EINVAL,
					   "%s: weight_map: tensor \"%s\" is in %s: the index "
					   "is of another checkpoint",
					   index, tensor->name, path);
	}
	if (checkpoint->count != json_object_size(map)) {
		const char *name;
		json_t *value;

		json_object_foreach(map, name, value)
			if (!model_checkpoint_find(checkpoint, name))
				return model_error(error, -EINVAL,
						   "%s: weight_map: tensor \"%.200s\" is not "
						   "in %s: fetch that file again",
						   index, name, json_string_value(value));
	}
	return 0;
}

static int open_index(struct model_checkpoint *checkpoint, const char *index, char *error)
{
	char why[TEXT_FILE_ERROR_LEN], *text;
	struct file_list list = { 0 };
	json_error_t json_error;
	json_t *root, *map;
	size_t size;
	int err = text_file_read(index, MODEL_SAFETENSORS_HEADER_MAX, &text, &size, why);

	if (err)
		return model_error(error, err, "%s: %s", index, why);
	root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &json_error);
	free(text);
	if (!root)
		return model_error(error, -EINVAL, "%s: byte %d: %s: fetch it again", index,
				   json_error.position, json_error.text);
	map = json_object_get(root, "weight_map");
	if (!json_is_object(map) || !json_object_size(map))
		err = model_error(error, -EINVAL,
				  "%s: weight_map: not an object of tensors and files: fetch "
				  "it again",
				  index);
	else
		err = list_files(index, map, &list, error);
	if (!err)
		err = open_files(checkpoint, (const char *const *)list.paths, list.count, error);
	if (!err)
		err = compare(checkpoint, index, map, error);
	for (size_t i = 0; i < list.count; i++)
		free(list.paths[i]);
	free(list.paths);
	json_decref(root);
	return err;
}

static bool is_index(const char *path)
{
	size_t len = strlen(path), suffix = strlen(INDEX_SUFFIX);

	return len > suffix && !strcmp(path + len - suffix, INDEX_SUFFIX);
}

int model_checkpoint_open(struct model_checkpoint *checkpoint, const char *const *paths,
			  size_t count, char *error)
{
	int err;

	*checkpoint = (struct model_checkpoint){ 0 };
	if (!count)
		return model_error(error, -EINVAL, "no file: name a safetensors file");
	if (count == 1 && is_index(paths[0]))
		err = open_index(checkpoint, paths[0], error);
	else
		err = open_files(checkpoint, paths, count, error);
	if (err)
		model_checkpoint_close(checkpoint);
	return err;
}

void model_checkpoint_close(struct model_checkpoint *checkpoint)
{
	for (size_t i = 0; i < checkpoint->file_count; i++)
		model_safetensors_close(&checkpoint->files[i]);
	free(checkpoint->files);
	free(checkpoint->tensors);
	*checkpoint = (struct model_checkpoint){ 0 };
}

/*
 * runner/sandbox/outputs.h -- checks and hashes the files that a payload made, or will get, before they are used.
 *
 * The folder is walked by descriptors: no name leads out of the folder, and no symbolic link is followed (openat2(2)). The first thing that breaks
 * a rule ends the walk, and the error names its path and the rule. So an output is complete or it is refused.
 */
#pragma once

#include "base/json.h"
#include "crypto/digest.h"

#define OUTPUT_PATH_MAX  1024 /* bytes, with '\0' */
#define OUTPUT_NAME_MAX  128  /* bytes of one name */
#define OUTPUT_DEPTH_MAX 16   /* folders in folders */

struct output_rules {
    int64_t files_max; /* files and folders */
    int64_t bytes_max; /* all files together */
    bool takes_links;  /* a file may have other names (hard links), because it is only copied */
};

/** One file, with an open descriptor of its content. `path` is relative, such as "model/weights.onnx". */
struct output_file {
    const char *path;
    int64_t size;
    int64_t mode; /* 0644, or 0755 for a program */
    struct digest digest;
    int fd; /* at offset 0 */
};

struct output_walk {
    const char *what; /* "output", for messages */
    struct output_rules rules;
    RESULT(*take)
    (void *context, const struct output_file *file, struct error *err); /* for each file, folders in order of their names */
    void *context;
    int64_t files, bytes; /* so far */
};

/**
 * Walks `folder`. ERROR_DENIED for an entry that breaks a rule: a link, hard link, pipe, socket, device, setuid file, sparse
 * file, a name that has control characters or is not UTF-8. ERROR_LIMIT for too much. ERROR_CONFLICT for a file that changes
 * while it is read.
 */
RESULT output_walk(struct output_walk *walk, int folder, struct error *err);
/** The same for one file or folder in `folder`. Paths begin with its name. */
RESULT output_walk_entry(struct output_walk *walk, int folder, const char *name, struct error *err);
/** NULL, or the rule that the name of a file breaks. */
const char *output_name_breaks(const char *name);

/*
 * runner/sandbox/copy.h -- copies the code and the inputs of a payload. A copy is never a hard link: nobody can change it through
 * its source.
 */
#pragma once

#include "base/result.h"
#include "crypto/digest.h"

/** The source of a copy. */
struct copy_source {
    const char *what; /* "code", "input train" */
    const char *path; /* a file, or a folder */
};

/**
 * Copies to the new name `name` in `folder`, readable for all, writable for nobody. *digest_out is that of the file; of a folder, it is the
 * SHA-256 of the lines "DIGEST  PATH\n" of its files, in the order of their names. Errors: those of output_walk(), ERROR_FULL.
 */
RESULT copy_in(const struct copy_source *source, int folder, const char *name, struct digest *digest_out, struct error *err);
/** Copies one open file to the new name `path` below `folder`, whose folders it makes. */
RESULT copy_file(int from, int64_t size, int folder, const char *path, unsigned mode, struct error *err);
/** Removes a name with all below it. Symbolic links are not followed. */
RESULT copy_remove(int folder, const char *name, struct error *err);
/**
 * Makes `name` a regular file in the folder etc of an unpacked image, unless it is one. bwrap(1) puts a file over it: a link there would lead out of the sandbox while
 * bwrap still sees this machine. ERROR_INVALID: it is a folder.
 */
RESULT copy_settle(int root, const char *name, struct error *err);

/*
 * cmd/passphrase.h -- the folder and the passphrase of a program that holds keys: sijil-keyd, sijil-witness.
 */
#pragma once

#include "crypto/secret.h"

/** Exactly one of the two, which the command line names. */
struct passphrase_source {
    const char *file; /* only its owner may read it; NULL: none */
    unsigned fd;
    bool has_fd;
};

/** The first line. ERROR_DENIED if others may read the file. Closes the descriptor. */
RESULT passphrase_read(const struct passphrase_source *source, struct secret **passphrase_out, struct error *err);
/** Opens the folder. ERROR_DENIED unless it belongs to this user alone. */
RESULT passphrase_open_directory(const char *path, int *directory_out, struct error *err);
/** Closes descriptors that a parent process forgot to close; not the passphrase's, which is read next. */
void passphrase_close_inherited(const struct passphrase_source *source);

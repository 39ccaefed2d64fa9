/*
 * audit/format/log_list.h -- the logs that a witness cosigns (docs/formats/audit-log.md section 9; the "log" lines of C2SP tlog-policy).
 *
 * Each line is "log VKEY [URL]"; a '#' begins a comment line. Several keys with one name are keys of one log: each counts. The URL is
 * for people. Lines of other kinds are refused: they are for programs that verify cosignatures.
 */
#pragma once

#include "audit/format/checkpoint.h"
#include "audit/format/note.h"
#include "base/owned.h"

#define LOG_LIST_BYTES_MAX (256 << 10)
#define LOG_LIST_LOGS_MAX  256
#define LOG_LIST_KEYS_MAX  4 /* of one log: while it changes its key it has two */

struct listed_log {
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    size_t key_count;
    struct note_key keys[LOG_LIST_KEYS_MAX]; /* Ed25519 */
};

struct log_list {
    size_t count;
    struct listed_log logs[LOG_LIST_LOGS_MAX];
};

/** ERROR_INVALID with the number of the line; ERROR_LIMIT for more logs, keys or bytes. */
RESULT log_list_read(struct bytes text, struct log_list **list_out, struct error *err);
void log_list_free(struct log_list *list);
DEFINE_OWNED(log_list);

/*
 * documents/approver_keys.h -- the keys that approvers have, or had: by whom a document was signed long ago.
 *
 * sijil-keyd counts twelve at a time; here are those of before, too, and those that were withdrawn.
 */
#pragma once

#include "documents/format/signing_key.h"
#include "documents/view.h"

#define APPROVER_KEYS_MAX 4096 /* twelve at a time, each for months: a bound that no registry meets */

struct approver_keys {
    size_t count, capacity;
    struct signing_key *keys;
};
#define APPROVER_KEYS       ((struct approver_keys){.count = 0})
#define OWNED_APPROVER_KEYS __attribute__((cleanup(approver_keys_done))) struct approver_keys

/** Reads them into an empty list. ERROR_LIMIT: there are more than APPROVER_KEYS_MAX. ERROR_NO_MEMORY, and errors of the view. */
RESULT approver_keys_read(struct document_view *view, struct approver_keys *keys, struct error *err);
void approver_keys_done(struct approver_keys *keys);

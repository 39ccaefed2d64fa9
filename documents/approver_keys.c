#include "documents/approver_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static struct result reserve(struct approver_keys *keys, struct error *err)
{
    const size_t capacity = keys->capacity == 0 ? 16 : 2 * keys->capacity;

    if (keys->count < keys->capacity) return SUCCESS;
    if (keys->count == APPROVER_KEYS_MAX) return failure(err, ERROR_LIMIT, "more than %d keys of approvers", APPROVER_KEYS_MAX);
    struct signing_key *more = memory_zeroed(capacity, sizeof *more);
    if (more == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of approvers");
    if (keys->count > 0) memcpy(more, keys->keys, keys->count * sizeof *more);
    free(keys->keys);
    keys->keys = more;
    keys->capacity = capacity;
    return SUCCESS;
}

static struct result note_key(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct approver_keys *keys = context;
    struct signing_key key;

    TRY(signing_key_read(pinned->document, &key, err));
    if (key.purpose != SIGNING_APPROVE) return SUCCESS;
    TRY(reserve(keys, err));
    keys->keys[keys->count++] = key;
    return SUCCESS;
}

struct result approver_keys_read(struct document_view *view, struct approver_keys *keys, struct error *err)
{
    return document_view_visit_all(view, DOCUMENT_SIGNING_KEY, note_key, keys, err);
}

void approver_keys_done(struct approver_keys *keys)
{
    free(keys->keys);
    *keys = APPROVER_KEYS;
}

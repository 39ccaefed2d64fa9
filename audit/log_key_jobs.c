#include <inttypes.h>
#include <stdio.h>

#include "audit/job_permit.h"
#include "audit/log_key_priv.h"
#include "base/text.h"

/* "OLD NEW SIZE": the public keys in base64url, and the size of the first checkpoint that needs the new key. */
static struct result describe(const struct log_keys *keys, size_t index, struct resource *resource, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(sizeof resource->detail);

    for (size_t i = index - 1; i <= index; i++) {
        const struct bytes key = {keys->keys[i].public_key, sizeof keys->keys[i].public_key};
        TRY(text_base64(&text, BASE64_URL, key, err));
        TRY(buffer_add_u8(&text, ' ', err));
    }
    TRY(buffer_format(&text, err, "%" PRIu64, keys->starts[index].size + 1));
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", buffer_text(&text));
    return SUCCESS;
}

static struct result record(struct sequencer *sequencer, struct pg *pg, const struct log_keys *keys, size_t index,
                            struct error *err)
{
    struct action_pair pair = {.action = ACTION_LOG_KEY_FOLLOW, .resource.kind = RESOURCE_SYSTEM};
    const struct bytes key = {keys->keys[index].public_key, sizeof keys->keys[index].public_key};
    OWNED(permit) *permit = NULL;

    TRY(describe(keys, index, &pair.resource, err));
    TRY(permit_for_job(sequencer, &pair, &permit, err));
    return log_key_insert(pg, keys->starts[index].size, key, err);
}

struct result log_key_record(struct sequencer *sequencer, struct pg *pg, const struct log_keys *keys, struct error *err)
{
    for (size_t i = 1; i < keys->count; i++) {
        bool is_recorded = false;
        TRY(log_key_is_recorded(pg, keys->starts[i].size, &is_recorded, err));
        if (!is_recorded) TRY(record(sequencer, pg, keys, i, err));
    }
    return SUCCESS;
}

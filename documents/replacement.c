#include "documents/replacement.h"

#include "documents/document_store_priv.h"
#include "documents/pin_event.h"

static struct result run(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    (void)permit, (void)change, (void)pg, (void)err;
    return SUCCESS;
}

void replacement_change_init(struct replacement_change *change, const struct document *document)
{
    *change = (struct replacement_change){.change = {.run = run, .invalidates = CHANGE_INVALIDATES_NOTHING}};
    document_detail(document, change->detail);
    change->change.detail = change->detail;
}

/* In the form of a call that pins: the time is in place of the pin's number. */
static struct result replace_key(struct keyd_client *keyd, const struct document_pin_request *request,
                                 struct document_pin *pin_out, struct error *err)
{
    int64_t counts_ms = 0;

    TRY(keyd_replace_key(keyd, request, &counts_ms, err));
    pin_out->epoch = (uint64_t)counts_ms;
    return SUCCESS;
}

static struct result ask(const struct document_source *source, struct document_pin_request *request, int64_t *counts_ms_out,
                         struct error *err)
{
    struct keyd_identity identity;
    struct document_pin answered = {0};

    TRY(keyd_identify(source->keyd, &identity, err));
    TRY(document_pin_event(source, identity.log_size, request, replace_key, &answered, err));
    *counts_ms_out = (int64_t)answered.epoch;
    return SUCCESS;
}

struct result replacement_begin(const struct permit *permit, const struct document_source *source,
                                const struct replacement *replacement, int64_t *counts_ms_out, struct error *err)
{
    struct document_pin_request request = {.envelope_count = replacement->count, .sequence = permit_sequence(permit)};
    OWNED(pg_rows) *rows = NULL;
    struct result asked = SUCCESS;

    (void)permit_resource(permit, ACTION_KEY_REPLACE);
    for (size_t i = 0; i < replacement->count; i++) request.envelopes[i] = replacement->envelopes[i];
    TRY(document_leaf(source->pg, request.sequence, &rows, err));
    request.leaf = pg_bytes(rows, 0, 0);
    for (unsigned tries = 0; tries < DOCUMENT_PIN_TRIES; tries++) {
        asked = ask(source, &request, counts_ms_out, err);
        if (asked.ok || err->kind != ERROR_CONFLICT) return asked;
    }
    return asked;
}

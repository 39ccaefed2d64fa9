#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "crypto/digest.h"
#include "documents/format/document.h"

void document_detail(const struct document *document, char detail_out[DOCUMENT_DETAIL_SIZE])
{
    struct digest outer = {.algorithm = DIGEST_SHA256}, inner = {.algorithm = DIGEST_SHA256};
    char outer_text[DIGEST_TEXT_SIZE], inner_text[DIGEST_TEXT_SIZE];

    memcpy(outer.bytes, document->envelopes_digest, DOCUMENT_DIGEST_SIZE);
    memcpy(inner.bytes, document->digest, DOCUMENT_DIGEST_SIZE);
    digest_format(&outer, outer_text);
    digest_format(&inner, inner_text);
    const int length =
        snprintf(detail_out, DOCUMENT_DETAIL_SIZE, "%s %llu %s", outer_text, (unsigned long long)document->version, inner_text);
    assert(length > 0 && length < DOCUMENT_DETAIL_SIZE);
}

struct result document_check_event(const struct document *document, struct bytes entry, uint64_t sequence, struct error *err)
{
    return document_check_event_of(document, document_action(document), &(struct document_entry){entry, sequence}, err);
}

struct result document_check_event_of(const struct document *document, const char *action, const struct document_entry *entry,
                                      struct error *err)
{
    char resource[DOCUMENT_SCOPE_SIZE + DOCUMENT_DETAIL_SIZE], detail[DOCUMENT_DETAIL_SIZE];
    const uint64_t sequence = entry->sequence;
    struct leaf leaf;

    TRY(leaf_read(entry->leaf, &leaf, err));
    document_detail(document, detail);
    (void)snprintf(resource, sizeof resource, "%s#%s", document->scope, detail);
    if (leaf.sequence == sequence && leaf.target_count == 1 && strcmp(leaf.outcome, "allowed") == 0 &&
        strcmp(leaf.targets[0].action, action) == 0 && strcmp(leaf.targets[0].resource, resource) == 0)
        return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "entry %llu of the log is not the event %s of version %llu of this document",
                   (unsigned long long)sequence, action, (unsigned long long)document->version);
}

/* A set replaces the previous one as a whole, so its own epoch and digest are the pin. */
static struct document_pin pin_of_set(const struct document *document)
{
    struct document_pin pin = {.epoch = document->version};

    memcpy(pin.digest, document->digest, sizeof pin.digest);
    return pin;
}

static struct document_pin add_link(const struct document_pin *pin, uint64_t sequence,
                                    const uint8_t envelopes[DOCUMENT_DIGEST_SIZE])
{
    uint8_t link[2 * DOCUMENT_DIGEST_SIZE + 8];
    struct document_pin next = {.epoch = sequence};

    memcpy(link, pin->digest, DOCUMENT_DIGEST_SIZE);
    store_u64(link + DOCUMENT_DIGEST_SIZE, sequence);
    memcpy(link + DOCUMENT_DIGEST_SIZE + 8, envelopes, DOCUMENT_DIGEST_SIZE);
    sha256_of((struct bytes){link, sizeof link}, next.digest);
    return next;
}

/* For other kinds the pin is a chain over all pinned documents, so leaving one out or adding one breaks the chain. */
static struct document_pin pin_of_chain(const struct document_pin *pin, const struct document *document, uint64_t sequence)
{
    return add_link(pin, sequence, document->envelopes_digest);
}

struct result document_check_chain(const struct document *document, const struct document_chain *chain,
                                   const struct document_pin *pin, struct error *err)
{
    struct document_pin at = {0};

    if (document->kind == DOCUMENT_POLICY_SET) return failure(err, ERROR_INVALID, "policy sets have no chain");
    memcpy(at.digest, chain->before, sizeof at.digest);
    at = add_link(&at, chain->sequence, document->envelopes_digest);
    for (size_t i = 0; i + DOCUMENT_LINK_SIZE <= chain->later.length; i += DOCUMENT_LINK_SIZE)
        at = add_link(&at, load_u64(chain->later.data + i), chain->later.data + i + 8);
    if (at.epoch < pin->epoch)
        return failure(err, ERROR_CONFLICT, "event %llu of this kind was pinned meanwhile: prove from there",
                       (unsigned long long)pin->epoch);
    if (at.epoch == pin->epoch && memcmp(at.digest, pin->digest, sizeof at.digest) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "this document of the kind %s was never pinned", document_kind(document->kind)->name);
}

/* To pin the same document again is not an error: a client that lost the answer asks again. */
static bool is_same(const struct document_pin *pin, const struct document_pin *next, bool is_set)
{
    return next->epoch == pin->epoch && (!is_set || memcmp(next->digest, pin->digest, sizeof pin->digest) == 0);
}

struct result document_pin_next(const struct document_pin *pin, const struct document *document, uint64_t sequence,
                                struct document_pin *pin_out, struct error *err)
{
    const bool is_set = document->kind == DOCUMENT_POLICY_SET;
    const struct document_pin next = is_set ? pin_of_set(document) : pin_of_chain(pin, document, sequence);
    const bool is_again = is_same(pin, &next, is_set);

    if (next.epoch == 0) return failure(err, ERROR_DENIED, "the log begins with no document"); /* 0: none is pinned yet */
    if (next.epoch <= pin->epoch && !is_again)
        return failure(err, ERROR_DENIED, "epoch %llu of the kind %s is pinned; %llu may not replace it",
                       (unsigned long long)pin->epoch, document_kind(document->kind)->name, (unsigned long long)next.epoch);
    *pin_out = is_again ? *pin : next;
    return SUCCESS;
}

/* The chain of pins: the documents that it proves, and those that it does not prove. */
#include "tests/support/unit.h"

#include <string.h>

#include "base/json.h"
#include "documents/format/signing_key.h"

#define NOW_MS INT64_C(1795000000000)

enum { FIRST, SECOND, THIRD, OTHER, DOCUMENTS };
static const uint64_t events[DOCUMENTS] = {3, 7, 9, 11};
static struct document *documents[DOCUMENTS];
static struct document_pin pins[DOCUMENTS]; /* after each but OTHER */

static struct document *make(void)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct buffer OWNED_BUFFER envelope = BUFFER(16384);
    struct signing_key body = {.principal = "robot:7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22", .purpose = SIGNING_SIGN};
    OWNED(ecdsa_key) *key = NULL;
    struct document *document = NULL;
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    assert_true(ecdsa_key_new(&key, &err).ok);
    ecdsa_key_public(key, body.point);
    signing_key_name(&body, name);
    OWNED_JSON json = signing_key_body(&body);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = NOW_MS,
                                         .expires_ms = NOW_MS + 86400000,
                                         .body = json};
    assert_true(document_compose(&parts, &payload, &err).ok);
    assert_true(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), key, &envelope, &err).ok);
    const struct bytes view = buffer_bytes(&envelope);
    assert_true(document_read(&view, 1, &document, &err).ok);
    return document;
}

static void pin_all(void)
{
    struct document_pin pin = {0};
    struct error err = {0};

    for (size_t i = 0; i < DOCUMENTS; i++) {
        documents[i] = make();
        if (i == OTHER) continue;
        assert_true(document_pin_next(&pin, documents[i], events[i], &pins[i], &err).ok);
        pin = pins[i];
    }
}

static const struct row {
    const char *name;
    int document, before; /* before: the pin that the chain begins with; -1: none */
    uint64_t event;       /* 0: the document's own */
    int from, until;      /* links of these documents, the last excluded */
    int pin;              /* that keyd has */
    enum error_kind kind;
} rows[] = {
    {"the first", FIRST, -1, 0, SECOND, OTHER, THIRD, ERROR_NONE},
    {"the second", SECOND, FIRST, 0, THIRD, OTHER, THIRD, ERROR_NONE},
    {"the newest", THIRD, SECOND, 0, OTHER, OTHER, THIRD, ERROR_NONE},
    {"the first, when it was the newest", FIRST, -1, 0, SECOND, SECOND, FIRST, ERROR_NONE},
    {"a chain that is too short", FIRST, -1, 0, SECOND, THIRD, THIRD, ERROR_CONFLICT},
    {"no link at all", FIRST, -1, 0, SECOND, SECOND, THIRD, ERROR_CONFLICT},
    {"a link that is left out", FIRST, -1, 0, THIRD, OTHER, THIRD, ERROR_DENIED},
    {"a document that was never pinned, in the place of another", OTHER, -1, 3, SECOND, OTHER, THIRD, ERROR_DENIED},
    {"one more, which keyd does not have", THIRD, SECOND, 0, OTHER, DOCUMENTS, THIRD, ERROR_DENIED},
    {"another event", SECOND, FIRST, 8, THIRD, OTHER, THIRD, ERROR_DENIED},
    {"another begin", SECOND, -1, 0, THIRD, OTHER, THIRD, ERROR_DENIED},
    {"a keyd of an older backup", THIRD, SECOND, 0, OTHER, OTHER, SECOND, ERROR_DENIED},
};

static void proves(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER later = BUFFER(4096);
    struct document_chain chain = {.sequence = row->event != 0 ? row->event : events[row->document]};
    struct error err = {0};

    if (row->before >= 0) memcpy(chain.before, pins[row->before].digest, sizeof chain.before);
    for (int i = row->from; i < row->until; i++) {
        assert_true(buffer_add_u64(&later, events[i], &err).ok);
        assert_true(buffer_add(&later, documents[i]->envelopes_digest, DOCUMENT_DIGEST_SIZE, &err).ok);
    }
    chain.later = buffer_bytes(&later);
    const bool is_proven = document_check_chain(documents[row->document], &chain, &pins[row->pin], &err).ok;
    assert_int_equal(is_proven, row->kind == ERROR_NONE);
    assert_int_equal(err.kind, row->kind);
}

int main(void)
{
    pin_all();
    const int failed = RUN_TABLE(rows, proves);
    for (size_t i = 0; i < DOCUMENTS; i++) document_free(documents[i]);
    return failed;
}

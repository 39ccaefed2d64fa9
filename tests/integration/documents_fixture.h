/*
 * tests/integration/documents_fixture.h -- keys of people as documents of the store, on the real PostgreSQL, sequencer and sijil-keyd.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "audit/job_permit.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/query.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "documents/change.h"
#include "documents/format/signing_key.h"
#include "documents/invitation.h"
#include "documents/view.h"
#include "tests/support/audit_log.h"

#define DAY_MS      INT64_C(86400000)
#define HOLDER      "robot:00000000-0000-0000-0000-000000000001"
#define HOLDERS_MAX 40

static const struct pg_table *const document_tables[] = {&document_table, &invitation_table, &audit_tree_table, NULL};

struct store {
    struct audit_log log;
    struct ecdsa_key *root;
    struct ecdsa_key *holders[HOLDERS_MAX];
    struct document_view *view;
    struct pg *pg;
    const char *scope;     /* of the documents that the test makes and finds */
    const char *principal; /* of the keys that are made */
    int64_t begins_in_ms;  /* when the documents that are made come into force, from now */
};

/* The first event of a log is a server's start. */
static inline void begin_log(struct store *store)
{
    const struct action_pair pair = {.action = ACTION_SERVER_START, .resource.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = NULL;
    struct error err = {0};

    if (!permit_for_job(store->log.sequencer, &pair, &permit, &err).ok) fail_msg("%s", err.message);
}

static inline void store_open(struct store *store)
{
    uint8_t root[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    memset(store, 0, sizeof *store);
    store->scope = "";
    store->principal = HOLDER;
    store->begins_in_ms = -1000;
    audit_log_init(&store->log);
    store->log.tables = document_tables;
    store->log.sequencer = audit_log_start(&store->log, "gw1");
    begin_log(store);
    assert_true(ecdsa_key_new(&store->root, &err).ok);
    ecdsa_key_public(store->root, root);
    assert_true(keyd_pin_approver(keyd_process_client(store->log.keyd), root, &err).ok);
    assert_true(document_view_new(&store->view, &err).ok);
    if (!pg_open(database_app(store->log.database), document_tables, &store->pg, &err).ok) fail_msg("%s", err.message);
}

static inline void store_close(struct store *store)
{
    document_view_free(store->view);
    pg_free(store->pg);
    for (size_t i = 0; i < HOLDERS_MAX; i++) ecdsa_key_free(store->holders[i]);
    ecdsa_key_free(store->root);
    audit_log_close(&store->log);
}

/* Replaces the view by an empty one, as in a gateway that was just started. */
static inline void forget(struct store *store)
{
    struct error err = {0};

    document_view_free(store->view);
    assert_true(document_view_new(&store->view, &err).ok);
}

static inline struct result look(struct store *store, struct error *err)
{
    const struct document_source source = {store->pg, keyd_process_client(store->log.keyd), store->log.sequencer};

    return document_view_refresh(store->view, &source, err);
}

static inline void look_well(struct store *store)
{
    struct error err = {0};

    if (!look(store, &err).ok) fail_msg("%s", err.message);
    if (!document_view_is_sound(store->view, &err).ok) fail_msg("%s", err.message);
}

/* ---- one document ---- */

struct made_document {
    struct buffer envelopes[2];
    struct bytes views[2];
    size_t count;
    struct document *document;
};

static inline void made_done(struct made_document *made)
{
    for (size_t i = 0; i < 2; i++) buffer_done(&made->envelopes[i]);
    document_free(made->document);
}

static inline void holder_name(struct store *store, unsigned holder, char name_out[ECDSA_THUMBPRINT_SIZE])
{
    struct signing_key key = {0};
    struct error err = {0};

    if (store->holders[holder] == NULL) assert_true(ecdsa_key_new(&store->holders[holder], &err).ok);
    ecdsa_key_public(store->holders[holder], key.point);
    signing_key_name(&key, name_out);
}

static inline void compose_key(struct store *store, unsigned holder, uint64_t version, struct buffer *payload)
{
    struct signing_key key = {.purpose = SIGNING_SIGN};
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    (void)snprintf(key.principal, sizeof key.principal, "%s", store->principal);
    holder_name(store, holder, name);
    ecdsa_key_public(store->holders[holder], key.point);
    OWNED_JSON body = signing_key_body(&key);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = store->scope,
                                         .name = name,
                                         .version = version,
                                         .effective_ms = clock_wall_ms() + store->begins_in_ms,
                                         .expires_ms = clock_wall_ms() + 30 * DAY_MS,
                                         .withdrawn = version == 2 ? "lost" : NULL,
                                         .body = body};
    if (!document_compose(&parts, payload, &err).ok) fail_msg("%s", err.message);
}

/* Makes version 1, signed by the holder and the root or by the holder alone; or version 2, signed by the holder. */
static inline void make(struct store *store, unsigned holder, uint64_t version, bool is_approved, struct made_document *made)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8 * 1024);
    const struct ecdsa_key *const signers[] = {NULL, store->root};
    struct error err = {0};

    *made = (struct made_document){.envelopes = {BUFFER(16 * 1024), BUFFER(16 * 1024)}, .count = is_approved ? 2 : 1};
    compose_key(store, holder, version, &payload);
    for (size_t i = 0; i < made->count; i++) {
        const struct ecdsa_key *signer = i == 0 ? store->holders[holder] : signers[i];
        assert_true(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), signer, &made->envelopes[i], &err).ok);
        made->views[i] = buffer_bytes(&made->envelopes[i]);
    }
    if (!document_read(made->views, made->count, &made->document, &err).ok) fail_msg("%s", err.message);
}

/* ---- recording it, as a handler does ---- */

static inline struct decision *decision_of(struct store *store, enum action action)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .id = "sha256:test", .pair_count = 1};
    struct decision *decision = NULL;
    struct error err = {0};

    parts.pairs[0].action = action;
    parts.pairs[0].resource.kind = store->scope[0] == '\0' ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION;
    (void)snprintf(parts.pairs[0].resource.name, sizeof parts.pairs[0].resource.name, "%s", store->scope);
    assert_true(text_to_u64(bytes_of_text(database_ask(store->log.database, "SELECT epoch FROM authorization_epoch")), UINT32_MAX,
                            &parts.epoch));
    assert_true(decision_make(&parts, &decision, &err).ok);
    return decision;
}

static inline enum error_kind submit(struct store *store, enum action action, struct change *change)
{
    struct record record = {.change = change, .decision = decision_of(store, action)};

    sequencer_submit_and_wait(store->log.sequencer, &record);
    const enum record_status status = record.status;
    const enum error_kind kind = record.error.kind;
    record_done(&record);
    return status == RECORD_DONE ? ERROR_NONE : kind;
}

static inline enum error_kind record_made(struct store *store, const struct made_document *made, bool ends_draft)
{
    const bool is_withdrawn = made->document->is_withdrawn;
    const enum action action = is_withdrawn ? ACTION_KEY_REVOKE : ACTION_KEY_APPROVE;
    const struct document_row row = {action, made->document, made->views, made->count, "robot$ci"};
    struct document_change change;

    document_change_init(&change, &row, ends_draft);
    return submit(store, action, &change.change);
}

static inline void record_key(struct store *store, unsigned holder, uint64_t version, bool is_approved)
{
    struct made_document made;

    make(store, holder, version, is_approved, &made);
    assert_int_equal(record_made(store, &made, false), ERROR_NONE);
    made_done(&made);
}

static inline enum error_kind draft_of(struct store *store, const struct made_document *made, const char *by)
{
    const struct document_draft_row row = {ACTION_KEY_ENROLL, made->document, made->views, 1, by, NULL};
    struct document_draft_change change;

    document_draft_change_init(&change, &row);
    return submit(store, ACTION_KEY_ENROLL, &change.change);
}

/* ---- what is in force ---- */

struct seen {
    bool is_in_force;
    uint64_t version, sequence;
};

static inline struct result see(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct seen *seen = context;

    (void)err;
    *seen = (struct seen){document_is_in_force(pinned->document, clock_wall_ms()), pinned->document->version, pinned->sequence};
    return SUCCESS;
}

static inline enum error_kind find(struct store *store, unsigned holder, struct seen *seen_out)
{
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    holder_name(store, holder, name);
    struct document_scope scope;
    if (!document_scope_find(lookup_of(store->pg), store->scope, &scope, &err).ok) fail_msg("%s", err.message);
    const struct view_range one = {DOCUMENT_SIGNING_KEY, &scope, name, 1};
    *seen_out = (struct seen){0};
    return document_view_find(store->view, &one, see, seen_out, &err).ok ? ERROR_NONE : err.kind;
}

static inline bool is_in_force(struct store *store, unsigned holder)
{
    struct seen seen;
    const enum error_kind kind = find(store, holder, &seen);

    assert_true(kind == ERROR_NONE || kind == ERROR_NOT_FOUND);
    return seen.is_in_force;
}

static inline uint64_t pinned_event(const struct store *store)
{
    struct keyd_documents documents;
    struct error err = {0};

    assert_true(keyd_ask_documents(keyd_process_client(store->log.keyd), &documents, &err).ok);
    return documents.pins[1].epoch;
}

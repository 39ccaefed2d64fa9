/*
 * tests/integration/decider_fixture.h -- a registry of one project for the decider, on the real PostgreSQL, sequencer and
 * sijil-keyd. For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/query.h"
#include "base/clock.h"
#include "base/text.h"
#include "policy/decider/decider.h"
#include "policy/decider/set_install.h"
#include "policy/decider/set_store.h"
#include "tests/support/audit_log.h"

#define PROJECT_SQL                                                                                             \
    "INSERT INTO organisation (organisation_id, name) VALUES ('00000000-0000-0000-0000-00000000000a', 'acme');" \
    "INSERT INTO region VALUES ('local/main', '0123456789abcdef', 'fs', '/x');"                                 \
    "INSERT INTO project (project_id, organisation_id, name, home_region, label) VALUES"                        \
    " ('00000000-0000-0000-0000-00000000000b', '00000000-0000-0000-0000-00000000000a', 'models', 'local/main'," \
    " '{\"class\":\"confidential\"}');"                                                                         \
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at) VALUES"                            \
    " ('00000000-0000-0000-0000-00000000000c', 'robot$ci', decode(repeat('00', 32), 'hex'), 'system',"          \
    " now() + interval '1 day');"                                                                               \
    "INSERT INTO binding (binding_id, robot_id, role, organisation_id, project_id, granted_by) VALUES"          \
    " ('00000000-0000-0000-0000-00000000000d', '00000000-0000-0000-0000-00000000000c', 'publisher',"            \
    " '00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000b', 'system');"               \
    "SELECT raise_authorization_epoch()"

/* Adds a row of a policy set without the application: epoch, digest, envelope and author follow. */
#define INSERT_SET "INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by) SELECT 1, '', 'policies', "

struct place {
    struct audit_log log;
    struct ecdsa_key *officer;
    struct decider *decider;
};

#ifndef MORE_TABLES
#define MORE_TABLES /* of a test that does more with the same log: each with a comma after it */
#endif
static const struct pg_table *const tables[] = {&policy_set_table, &document_table, &audit_tree_table, MORE_TABLES NULL};

/* As place_open(), but no approver of policy sets is pinned. */
static inline void place_open_unpinned(struct place *place)
{
    struct error err = {0};

    memset(place, 0, sizeof *place);
    audit_log_init(&place->log);
    place->log.tables = tables;
    place->log.sequencer = audit_log_start(&place->log, "gw1");
    assert_true(ecdsa_key_new(&place->officer, &err).ok);
}

static inline void place_open(struct place *place)
{
    struct error err = {0};
    uint8_t public_key[ECDSA_PUBLIC_SIZE];

    place_open_unpinned(place);
    database_execute(place->log.database, PROJECT_SQL);
    ecdsa_key_public(place->officer, public_key);
    if (!keyd_pin_approver(keyd_process_client(place->log.keyd), public_key, &err).ok) fail_msg("%s", err.message);
}

static inline void place_close(struct place *place)
{
    decider_free(place->decider);
    ecdsa_key_free(place->officer);
    audit_log_close(&place->log);
}

static inline struct decider_options options_of(const struct place *place, unsigned poll_ms, unsigned stale_ms)
{
    return (struct decider_options){.conninfo = database_app(place->log.database),
                                    .keyd = keyd_process_client(place->log.keyd),
                                    .sequencer = place->log.sequencer,
                                    .poll_ms = poll_ms,
                                    .stale_ms = stale_ms};
}

/* Polls so seldom that it sees no change by polling during a test. */
static inline bool start(struct place *place, struct error *err)
{
    const struct decider_options options = options_of(place, 60000, 120000);

    return decider_start(&options, &place->decider, err).ok;
}

static inline void start_with(struct place *place, unsigned poll_ms, unsigned stale_ms)
{
    const struct decider_options options = options_of(place, poll_ms, stale_ms);
    struct error err = {0};

    if (!decider_start(&options, &place->decider, &err).ok) fail_msg("%s", err.message);
}

static inline void start_well(struct place *place)
{
    struct error err = {0};

    if (!start(place, &err)) fail_msg("%s", err.message);
}

static inline void restart_well(struct place *place)
{
    decider_free(place->decider);
    place->decider = NULL;
    start_well(place);
}

/* A set of this epoch, signed. */
static inline void sign(const struct place *place, uint64_t epoch, struct buffer *envelope)
{
    static int64_t in_force_ms; /* the same time for all, so that one epoch is always the same set */
    if (in_force_ms == 0) in_force_ms = clock_wall_ms() - 60000;
    const struct policy_default_options options = {.epoch = epoch, .region = "local/main", .now_ms = in_force_ms};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct error err = {0};

    assert_true(policy_default_set(&options, &payload, &err).ok);
    assert_true(policy_set_sign(buffer_bytes(&payload), place->officer, envelope, &err).ok);
}

static inline bool install(struct place *place, uint64_t epoch, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED(pg) *pg = NULL;

    sign(place, epoch, &envelope);
    assert_true(pg_open(database_app(place->log.database), tables, &pg, err).ok);
    struct policy_set_source source = {pg, keyd_process_client(place->log.keyd), place->log.sequencer, {0}};
    return policy_set_install(&source, buffer_bytes(&envelope), err).ok;
}

static inline void install_well(struct place *place, uint64_t epoch)
{
    struct error err = {0};

    if (!install(place, epoch, &err)) fail_msg("%s", err.message);
}

/* As place_open(), with the first set in force. */
static inline void place_open_ruled(struct place *place)
{
    place_open(place);
    install_well(place, 1);
}

static inline struct decision *decide(struct place *place, enum action action, const char *name)
{
    struct principal principal = {.kind = PRINCIPAL_ROBOT};
    struct decision_request request = {.principal = &principal, .pair_count = 1, .now_ms = clock_wall_ms()};
    struct decision *decision = NULL;
    struct error err = {0};

    principal.id.bytes[15] = 0x0c;
    request.pairs[0].action = action;
    decider_resolve(place->decider, name, &request.pairs[0].resource);
    assert_true(decider_decide(place->decider, &request, &decision, &err).ok);
    return decision;
}

static inline void expect(struct place *place, enum verdict verdict, const char *rule)
{
    OWNED(decision) *decision = decide(place, ACTION_UPLOAD_BEGIN, "acme/models/a");

    assert_int_equal(decision_verdict(decision), verdict);
    if (rule != NULL) assert_string_equal(decision_denial(decision, 0)->rule, rule);
}

static inline void refresh(struct place *place)
{
    struct error err = {0};

    if (!decider_refresh(place->decider, &err).ok) fail_msg("%s", err.message);
}

static inline struct policy_set *set_in_force(struct place *place)
{
    OWNED(pg) *pg = NULL;
    struct policy_set *set = NULL;
    struct error err = {0};

    assert_true(pg_open(database_app(place->log.database), tables, &pg, &err).ok);
    struct policy_set_source source = {pg, keyd_process_client(place->log.keyd), place->log.sequencer, {0}};
    if (!policy_set_load(&source, NULL, &set, &err).ok) fail_msg("%s", err.message);
    return set;
}

/* Loads a set as a handler does: checks it, then records it together with its event. */
static inline enum record_status load_over(struct place *place, struct bytes envelope, const struct policy_set *before)
{
    OWNED(ecdsa_key) *officer = NULL;
    OWNED(policy_set) *set = NULL;
    struct policy_set_change change;
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .id = "sha256:test", .pair_count = 1};
    struct record record = {.change = &change.change};
    uint8_t public_key[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    ecdsa_key_public(place->officer, public_key);
    assert_true(ecdsa_key_from_public(public_key, &officer, &err).ok);
    assert_true(policy_set_read(envelope, officer, &set, &err).ok);
    policy_set_load_change(&change, envelope, set, before, "robot$ci");
    parts.pairs[0].action = ACTION_POLICY_LOAD;
    assert_true(text_to_u64(bytes_of_text(database_ask(place->log.database, "SELECT epoch FROM authorization_epoch")), UINT32_MAX,
                            &parts.epoch));
    assert_true(decision_make(&parts, &record.decision, &err).ok);
    sequencer_submit_and_wait(place->log.sequencer, &record);
    const enum record_status status = record.status;
    record_done(&record);
    return status;
}

static inline enum record_status load_signed(struct place *place, struct bytes envelope)
{
    OWNED(policy_set) *before = set_in_force(place);

    return load_over(place, envelope, before);
}

static inline enum record_status load(struct place *place, uint64_t epoch)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);

    sign(place, epoch, &envelope);
    return load_signed(place, buffer_bytes(&envelope));
}

static inline uint64_t pinned(const struct place *place)
{
    struct keyd_identity identity;
    struct error err = {0};

    assert_true(keyd_identify(keyd_process_client(place->log.keyd), &identity, &err).ok);
    return identity.policy_epoch;
}

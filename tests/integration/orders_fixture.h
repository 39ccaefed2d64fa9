/*
 * tests/integration/orders_fixture.h -- a registry with a trainer, an approver and a runner, whose keys are enrolled, and runs that they
 * ask for. For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "audit/query.h"
#include "registry/brought_label.h"
#include "training/label.h"
#include "training/label_stated.h"
#include "training/order_jobs.h"
#include "training/work.h"
#define MORE_TABLES                                                                                                             \
    &audit_query_table, &run_table, &run_lease_table, &run_claim_table, &run_session_table, &run_queue_table, &run_offer_table, \
        &run_draft_table, &run_budget_table, &brought_label_statements, &run_stated_table, &held_manifest_statements,
#include "tests/integration/decider_fixture.h"
#include "tests/integration/documents_fixture.h"

#include "documents/format/runner_key.h"
#include "training/format/compose.h"
#include "training/run.h"

#define TRAINER   "00000000-0000-0000-0000-0000000000c1"                                 /* a robot of a person */
#define PERSON    "ext:abdf91bd10792a0c6deb57203b4a036a2d7957175a635d2181ebd0f8ed422296" /* tom at ISSUER */
#define REQUESTER "robot:" TRAINER
#define APPROVER  "ext:776c3e6a20a1746a58548b7b1b4a70a39c09a72d519c3874b533a6383d859cbd" /* eve at ISSUER */
#define ISSUER    "https://id.example"
#define RUNNER    "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"
#define HOUR_MS   INT64_C(3600000)
enum { HOLDER_REQUESTER, HOLDER_APPROVER, HOLDER_RUNNER };

static struct place place;
static struct store store;
static struct run_bundle_source source;
static struct resource project = {.kind = RESOURCE_PROJECT, .name = "acme/models"};

#define SPEC                                                                                                                          \
    "{\"code\":{\"repository\":\"acme/models/code\",\"digest\":\"sha256:" ZEROS                                                       \
    "\"},\"inputs\":[],\"outputs\":[{\"name\":\"model\","                                                                             \
    "\"repository\":\"acme/models/trained\",\"type\":\"application/vnd.example+json\"}],\"argv\":[\"/bin/true\"],\"environment\":{}," \
    "\"limits\":{\"time_s\":60,\"grace_s\":5,\"cpus\":1,\"memory_bytes\":1048576,\"output_bytes\":4096,\"output_files\":1,"           \
    "\"log_bytes\":4096,\"processes\":8},\"nodes\":1,\"tasks\":1,\"network\":\"none\",\"pool\":\"default\",\"jurisdictions\":[%s],"   \
    "\"isolation\":\"rlimits\",\"assurance\":1}"
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* ---- the world ---- */

static void enrol(unsigned holder, const char *principal)
{
    store.principal = principal;
    record_key(&store, holder, 1, true);
}

static void enrol_runner(void)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8 * 1024), text = BUFFER(128), first = BUFFER(16 * 1024),
                               second = BUFFER(16 * 1024);
    char name[ECDSA_THUMBPRINT_SIZE];
    uint8_t point[ECDSA_PUBLIC_SIZE];
    OWNED(document) *document = NULL;
    struct document_change change;
    struct error err = {0};

    holder_name(&store, HOLDER_RUNNER, name);
    ecdsa_key_public(store.holders[HOLDER_RUNNER], point);
    assert_true(text_base64(&text, BASE64_URL, (struct bytes){point, sizeof point}, &err).ok);
    OWNED_JSON body =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:[s]}", "runner", RUNNER, "public_key", buffer_text(&text), "pool",
                  "default", "region", "local/main", "isolation", "rlimits", "assurance", 3, "devices", 0, "jurisdictions", "AE");
    const struct document_parts parts = {.kind = DOCUMENT_RUNNER,
                                         .scope = "",
                                         .name = name,
                                         .version = 1,
                                         .effective_ms = clock_wall_ms() - 1000,
                                         .expires_ms = clock_wall_ms() + 300 * DAY_MS,
                                         .body = body};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(document_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), store.holders[HOLDER_RUNNER], &first, &err).ok);
    assert_true(document_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), store.root, &second, &err).ok);
    const struct bytes views[] = {buffer_bytes(&first), buffer_bytes(&second)};
    if (!document_read(views, 2, &document, &err).ok) fail_msg("%s", err.message);
    const struct document_row row = {ACTION_RUNNER_APPROVE, document, views, 2, "robot$ci"};
    document_change_init(&change, &row, false);
    assert_int_equal(submit(&store, ACTION_RUNNER_APPROVE, &change.change), ERROR_NONE);
}

static int set_up(void **state)
{
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    database_execute(place.log.database,
                     "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at, person, behind) SELECT '" TRAINER
                     "', 'robot$trainer',"
                     " decode(repeat('01', 32), 'hex'), '" PERSON "', expires_at, '" PERSON "', ARRAY['" PERSON " " ISSUER
                     "'] FROM robot LIMIT 1;"
                     "INSERT INTO binding (binding_id, robot_id, role, organisation_id, project_id, granted_by) VALUES"
                     " ('00000000-0000-0000-0000-00000000000e', '" TRAINER "', 'trainer',"
                     " '00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000b', 'system');"
                     "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by) VALUES"
                     " ('00000000-0000-0000-0000-00000000000f', '" ISSUER
                     "', 'eve', 'auditor', '00000000-0000-0000-0000-00000000000a', 'system');"
                     "SELECT raise_authorization_epoch()");
    start_well(&place);
    project.organisation.bytes[15] = 0x0a;
    project.project.bytes[15] = 0x0b;
    store = (struct store){.log = place.log, .root = place.officer, .scope = ""};
    assert_true(document_view_new(&store.view, &err).ok);
    if (!pg_open(database_app(place.log.database), tables, &store.pg, &err).ok) fail_msg("%s", err.message);
    enrol(HOLDER_REQUESTER, REQUESTER);
    enrol(HOLDER_APPROVER, APPROVER);
    enrol_runner();
    look_well(&store);
    source =
        (struct run_bundle_source){store.pg, keyd_process_client(place.log.keyd), place.log.sequencer, store.view, place.decider};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    document_view_free(store.view);
    pg_free(store.pg);
    for (size_t i = 0; i < HOLDERS_MAX; i++) ecdsa_key_free(store.holders[i]);
    place_close(&place);
    return 0;
}

/* ---- a run ---- */

static enum error_kind change_it(enum action action, struct change *change)
{
    const struct action_pair pair = {action, project};
    struct record record;
    struct error err = {0};

    assert_true(record_prepare_for_job(&pair, change, &record, &err).ok);
    sequencer_submit_and_wait(place.log.sequencer, &record);
    const enum error_kind kind = record.status == RECORD_DONE ? ERROR_NONE : record.error.kind;
    record_done(&record);
    return kind;
}

static struct permit *permit_to(enum action action)
{
    const struct action_pair pair = {action, project};
    struct permit *permit = NULL;
    struct error err = {0};

    if (!permit_for_job(place.log.sequencer, &pair, &permit, &err).ok) fail_msg("%s", err.message);
    return permit;
}

static struct run_signed signed_of(const struct run_envelope *envelope, const char *who, struct bytes text)
{
    struct run_signed made = {.principal = who, .envelope = text};

    assert_true(text_from_hex(bytes_of_text(envelope->digest + 7), made.digest, sizeof made.digest));
    return made;
}

/* A request for these jurisdictions, `"AE","SA"`. */
static struct uuid request(const char *jurisdictions, int64_t approvals)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), text = BUFFER(RUN_ENVELOPE_MAX), spec_text = BUFFER(4096);
    struct run run = {
        .id = uuid_random(), .approvals_wanted = approvals, .pool = "default", .expires_ms = clock_wall_ms() + HOUR_MS};
    OWNED(run_envelope) *envelope = NULL;
    struct run_request change;
    char id[UUID_TEXT_SIZE];
    struct error err = {0};

    uuid_format(&run.id, id);
    assert_true(buffer_format(&spec_text, &err, SPEC, jurisdictions).ok);
    OWNED_JSON spec = json_loads(buffer_text(&spec_text), 0, NULL);
    const struct run_request_parts parts = {.run = id,
                                            .audience = TEST_ORIGIN,
                                            .project = "acme/models",
                                            .requester = REQUESTER,
                                            .nonce = "000102030405060708090a0b0c0d0e0f",
                                            .issued_ms = clock_wall_ms(),
                                            .expires_ms = run.expires_ms,
                                            .spec = spec};
    if (!run_request_write(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    if (!run_sign(RUN_REQUEST, buffer_bytes(&payload), store.holders[HOLDER_REQUESTER], &text, &err).ok)
        fail_msg("%s", err.message);
    assert_true(run_envelope_read(buffer_bytes(&text), RUN_REQUEST, &envelope, &err).ok);
    const struct run_signed made = signed_of(envelope, REQUESTER, buffer_bytes(&text));
    run_request_prepare(&project, &run, &made, &change);
    assert_int_equal(change_it(ACTION_RUN_REQUEST, &change.change), ERROR_NONE);
    return run.id;
}

static struct run_papers *papers_of(const struct uuid *id)
{
    const struct run_papers_query query = {.action = ACTION_RUN_READ, .run = *id, .last = RUN_ADMISSION};
    OWNED(permit) *permit = permit_to(ACTION_RUN_READ);
    struct run_papers *papers = NULL;
    struct error err = {0};

    if (!run_papers_read(permit, store.pg, &query, &papers, &err).ok) fail_msg("%s", err.message);
    return papers;
}

/* With the approver's key: the order does not come so far that somebody asks whose key it is. */
static void approve_as(const struct uuid *id, const char *approver)
{
    struct buffer OWNED_BUFFER payload = BUFFER(RUN_PAYLOAD_MAX), text = BUFFER(RUN_ENVELOPE_MAX);
    OWNED(run_papers) *papers = papers_of(id);
    OWNED(run_envelope) *envelope = NULL;
    const struct run run = {.id = *id, .approvals_wanted = 1};
    const struct run_approval_parts parts = {.approver = approver,
                                             .nonce = "000102030405060708090a0b0c0d0e0f",
                                             .issued_ms = clock_wall_ms(),
                                             .expires_ms = clock_wall_ms() + HOUR_MS};
    struct run_approve change;
    struct error err = {0};

    if (!run_approval_write(papers->chain.request, &parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(run_sign(RUN_APPROVAL, buffer_bytes(&payload), store.holders[HOLDER_APPROVER], &text, &err).ok);
    assert_true(run_envelope_read(buffer_bytes(&text), RUN_APPROVAL, &envelope, &err).ok);
    const struct run_signed made = signed_of(envelope, approver, buffer_bytes(&text));
    run_approve_prepare(&project, &run, &made, &change);
    assert_int_equal(change_it(ACTION_RUN_APPROVE, &change.change), ERROR_NONE);
}

static void approve(const struct uuid *id)
{
    approve_as(id, APPROVER);
}

static struct run found(const struct uuid *id)
{
    OWNED(permit) *permit = permit_to(ACTION_RUN_READ);
    struct error err = {0};
    struct run run;

    if (!run_find(permit, store.pg, ACTION_RUN_READ, id, &run, &err).ok) fail_msg("%s", err.message);
    return run;
}

static void expect_state(const struct uuid *id, const char *state, const char *reason)
{
    const struct run run = found(id);

    if (strcmp(run_state_name(run.state), state) != 0 || strstr(run.reason, reason) == NULL)
        fail_msg("the run is %s: %s", run_state_name(run.state), run.reason);
}

static bool order_one(const struct run_bundle_source *from, struct error *err)
{
    bool is_found = false;

    database_execute(place.log.database, "UPDATE run SET claimed_until = 'epoch' WHERE ended_at IS NULL");
    const struct result ordered = run_order_next(from, "gw1", &is_found, err);
    assert_true(is_found);
    return ordered.ok;
}

static void order_well(void)
{
    struct error err = {0};

    if (!order_one(&source, &err)) fail_msg("%s", err.message);
}

static inline void digest_of_order(const struct uuid *id, char digest_out[RUN_DIGEST_TEXT])
{
    OWNED(run_papers) *papers = papers_of(id);

    assert_non_null(papers->chain.order);
    memcpy(digest_out, papers->chain.order->digest, RUN_DIGEST_TEXT);
}

/* Loads the default set with one more policy, for acme/models/trained. */
static inline void load_with_rule(uint64_t epoch, const char *rule)
{
    struct buffer OWNED_BUFFER first = BUFFER(POLICY_SET_BYTES_MAX), payload = BUFFER(POLICY_SET_BYTES_MAX),
                               envelope = BUFFER(POLICY_SET_ENVELOPE_MAX), policy = BUFFER(4096);
    const struct policy_default_options options = {.epoch = epoch, .region = "local/main", .now_ms = clock_wall_ms() - 60000};
    struct error err = {0};

    assert_true(policy_default_set(&options, &first, &err).ok);
    assert_true(
        buffer_format(&policy, &err,
                      "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"closed\":false,\"metadata\":{\"id\":"
                      "\"persons\",\"version\":1,\"scope\":[\"acme/models/trained\"],\"effective_from\":"
                      "\"2020-01-01T00:00:00Z\",\"review_by\":\"2099-01-01\"},\"rules\":[%s]}",
                      rule)
            .ok);
    OWNED_JSON json = json_loads(buffer_text(&first), 0, NULL);
    assert_int_equal(json_array_append_new(json_object_get(json, "policies"), json_loads(buffer_text(&policy), 0, NULL)), 0);
    const struct policy_set_parts parts = {.epoch = epoch,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .groups = json_object_get(json, "groups")};
    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_sign(buffer_bytes(&payload), place.officer, &envelope, &err).ok);
    assert_int_equal(load_signed(&place, buffer_bytes(&envelope)), RECORD_DONE);
    refresh(&place);
}

static inline const char *statement(const char *before, const struct uuid *id, const char *after)
{
    static char sql[400];
    char text[UUID_TEXT_SIZE];

    uuid_format(id, text);
    assert_true(snprintf(sql, sizeof sql, "%s'%s'%s", before, text, after) < (int)sizeof sql);
    return sql;
}

static inline const char *ask_of(const char *before, const struct uuid *id)
{
    return database_ask(place.log.database, statement(before, id, ""));
}

/* A gateway whose sijil-keyd does not answer gets as far as the event. */

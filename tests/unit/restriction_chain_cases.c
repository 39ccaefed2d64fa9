/* Who has signed the restrictions of an organisation, counted from the root's key on: what sijil-keyd refuses counts for nothing. */
#include "tests/support/policy.h"
#include "tests/unit/policy_set_change_parts.h"

#include <string.h>

#include "documents/format/officers.h"
#include "documents/format/signing_key.h"
#include "policy/restriction_chain.h"

#define NOW_MS INT64_C(1797292800000) /* 2026-12-15 */
#define DAY_MS INT64_C(86400000)
#define POLICY                                                                                                                   \
    "{\"policy\":{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"closed\":false,\"metadata\":{\"id\":\""      \
    "acme.closed\",\"organisation\":\"acme\",\"version\":1,\"scope\":[\"acme/closed/**\"],\"effective_from\":\"2026-01-01T00:0"  \
    "0:00Z\",\"review_by\":\"2027-01-01\"},\"rules\":[{\"id\":\"R\",\"effect\":\"deny\",\"ops\":[\"ingest\"],\"target\":{\"geo_" \
    "within\":[\"US\"]}}]}}"

/* The keys: the root's, and those of two persons. */
enum { ROOT, DORA, EVE, KEYS };
#define BY(key) (1U << (key))

enum what { NOTHING, KEY, KEY_ENDS, OFFICER, OFFICER_ENDS, RESTRICT, RESTRICT_ENDS };
struct step {
    enum what what;
    int who;          /* of KEY and OFFICER */
    unsigned signers; /* whose keys */
    unsigned number;  /* of persons, as the officer's document says */
    uint64_t version; /* 0: 1 */
    int days;         /* since the step before */
    const char *on;   /* NULL: acme */
};
#define BOTH_KEYS                                       \
    {KEY, .who = DORA, .signers = BY(DORA) | BY(ROOT)}, \
    {                                                   \
        KEY, .who = EVE, .signers = BY(EVE) | BY(ROOT)  \
    }
#define DORA_IS                                   \
    {                                             \
        OFFICER, .who = DORA, .signers = BY(ROOT) \
    }
#define BOTH_ARE                                 \
    DORA_IS,                                     \
    {                                            \
        OFFICER, .who = EVE, .signers = BY(ROOT) \
    }
#define BY_DORA                       \
    {                                 \
        RESTRICT, .signers = BY(DORA) \
    }

static const struct row {
    const char *name;
    struct step steps[10];
    size_t proven, refused;
    bool is_in_force;
    const char *says; /* why the first one counts for nothing */
} rows[] = {
    {"one officer", {BOTH_KEYS, DORA_IS, BY_DORA}, 1, 0, true, ""},
    {"no officer", {BOTH_KEYS, BY_DORA}, 0, 1, false, "has 0"},
    {"an officer whose key is not there", {DORA_IS, BY_DORA}, 0, 2, false, "not its officer's"},
    {"a key that no approver knows", {{KEY, .who = DORA, .signers = BY(DORA)}, DORA_IS, BY_DORA}, 0, 3, false, ""},
    {"an officer whom another one appoints",
     {BOTH_KEYS, DORA_IS, {OFFICER, .who = EVE, .signers = BY(DORA)}, {RESTRICT, .signers = BY(EVE)}},
     0,
     2,
     false,
     "a document of officers needs"},
    {"an officer of another organisation",
     {BOTH_KEYS, {OFFICER, .who = DORA, .signers = BY(ROOT), .on = "beta"}, BY_DORA},
     0,
     1,
     false,
     "has 0"},
    {"the root", {BOTH_KEYS, DORA_IS, {RESTRICT, .signers = BY(ROOT)}}, 0, 1, false, "has 0"},
    {"one of two", {BOTH_KEYS, {OFFICER, .who = DORA, .signers = BY(ROOT), .number = 2}, BY_DORA}, 0, 1, false, "of 2"},
    {"two of two",
     {BOTH_KEYS,
      BOTH_ARE,
      {OFFICER, .who = DORA, .signers = BY(ROOT), .number = 2, .version = 2},
      {RESTRICT, .signers = BY(DORA) | BY(EVE)}},
     1,
     0,
     true,
     ""},
    {"an officer that was withdrawn",
     {BOTH_KEYS, DORA_IS, {OFFICER_ENDS, .who = DORA, .signers = BY(ROOT), .version = 2}, BY_DORA},
     0,
     1,
     false,
     "has 0"},
    {"a key that was withdrawn",
     {BOTH_KEYS, DORA_IS, {KEY_ENDS, .who = DORA, .signers = BY(DORA), .version = 2}, BY_DORA},
     0,
     1,
     false,
     "has 0"},
    {"an officer whose time is over", {BOTH_KEYS, DORA_IS, {RESTRICT, .signers = BY(DORA), .days = 40}}, 0, 1, false, "has 0"},
    {"a second version by one",
     {BOTH_KEYS, BOTH_ARE, BY_DORA, {RESTRICT, .signers = BY(DORA), .version = 2}},
     1,
     1,
     true,
     "of 2"},
    {"a second version alone: nobody knows that there was no first one",
     {BOTH_KEYS, BOTH_ARE, {RESTRICT, .signers = BY(DORA), .version = 2}},
     0,
     1,
     false,
     "of 2"},
    {"a second version by two",
     {BOTH_KEYS, BOTH_ARE, BY_DORA, {RESTRICT, .signers = BY(DORA) | BY(EVE), .version = 2}},
     2,
     0,
     true,
     ""},
    {"the same version again",
     {BOTH_KEYS, BOTH_ARE, BY_DORA, {RESTRICT, .signers = BY(DORA) | BY(EVE)}},
     1,
     1,
     true,
     "older than"},
    {"its end by one", {BOTH_KEYS, BOTH_ARE, BY_DORA, {RESTRICT_ENDS, .signers = BY(DORA), .version = 2}}, 1, 1, true, "of 2"},
    {"its end by two",
     {BOTH_KEYS, BOTH_ARE, BY_DORA, {RESTRICT_ENDS, .signers = BY(DORA) | BY(EVE), .version = 2}},
     2,
     0,
     false,
     ""},
    {"of another organisation",
     {BOTH_KEYS, DORA_IS, {RESTRICT, .signers = BY(DORA), .on = "beta"}},
     0,
     1,
     false,
     "another organisation"},
};

/* ---- making ---- */

struct making {
    struct ecdsa_key *keys[KEYS];
    struct set_chain *sets;
    struct restriction_chain *chain;
    uint64_t sequence;
    int64_t now_ms;
};

static void making_done(struct making *making)
{
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(making->keys[i]);
    restriction_chain_free(making->chain);
    set_chain_free(making->sets);
}
#define OWNED_MAKING __attribute__((cleanup(making_done))) struct making

static void principal_of(int who, char principal_out[SIGNING_PRINCIPAL_SIZE])
{
    (void)snprintf(principal_out, SIGNING_PRINCIPAL_SIZE, "ext:%064d", who);
}

static json_t *body_of(const struct making *making, const struct step *step, char name_out[DOCUMENT_NAME_SIZE])
{
    const char *on = step->on == NULL ? "acme" : step->on;
    char principal[SIGNING_PRINCIPAL_SIZE], thumbprint[ECDSA_THUMBPRINT_SIZE];
    struct signing_key key = {.purpose = SIGNING_SIGN};

    principal_of(step->who, principal);
    ecdsa_key_public(making->keys[step->who], key.point);
    memcpy(key.principal, principal, sizeof principal);
    signing_key_name(&key, thumbprint);
    (void)snprintf(name_out, DOCUMENT_NAME_SIZE, "acme.closed");
    if (step->what == KEY || step->what == KEY_ENDS) (void)snprintf(name_out, DOCUMENT_NAME_SIZE, "%s", thumbprint);
    if (step->what == KEY || step->what == KEY_ENDS) return signing_key_body(&key);
    if (step->what == OFFICER || step->what == OFFICER_ENDS)
        (void)snprintf(name_out, DOCUMENT_NAME_SIZE, "security-officer.%d", step->who);
    if (step->what == OFFICER_ENDS || step->what == RESTRICT_ENDS) return json_object();
    if (step->what == RESTRICT) return json_loads(POLICY, 0, NULL);
    return officer_body(&(struct officer){principal, thumbprint, "security-officer", on, step->number});
}

static enum document_kind kind_of(enum what what)
{
    if (what == KEY || what == KEY_ENDS) return DOCUMENT_SIGNING_KEY;
    return what == OFFICER || what == OFFICER_ENDS ? DOCUMENT_OFFICERS : DOCUMENT_RESTRICTION;
}

static void add(struct making *making, const struct step *step)
{
    struct buffer OWNED_BUFFER payload = BUFFER(16384);
    struct buffer envelopes[KEYS] = {BUFFER(32768), BUFFER(32768), BUFFER(32768)};
    const bool ends = step->what == KEY_ENDS || step->what == OFFICER_ENDS || step->what == RESTRICT_ENDS;
    const enum document_kind kind = kind_of(step->what);
    struct bytes views[KEYS];
    char name[DOCUMENT_NAME_SIZE];
    struct error err = {0};
    size_t count = 0;

    making->now_ms += step->days * DAY_MS;
    OWNED_JSON body = body_of(making, step, name);
    const struct document_parts parts = {.kind = kind,
                                         .scope = kind != DOCUMENT_RESTRICTION ? ""
                                                  : step->on == NULL           ? "acme"
                                                                               : step->on,
                                         .name = name,
                                         .version = step->version == 0 ? 1 : step->version,
                                         .effective_ms = making->now_ms,
                                         .expires_ms = kind == DOCUMENT_RESTRICTION ? 0 : making->now_ms + 30 * DAY_MS,
                                         .withdrawn = ends ? "the end" : NULL,
                                         .body = body};
    must(document_compose(&parts, &payload, &err), &err);
    for (int key = KEYS - 1; key >= 0; key--)
        if ((step->signers & BY(key)) != 0) {
            must(document_sign(kind, buffer_bytes(&payload), making->keys[key], &envelopes[count], &err), &err);
            views[count] = buffer_bytes(&envelopes[count]);
            count++;
        }
    const struct set_chain_link link = {views, count, {NULL, 0}, ++making->sequence, making->now_ms, true};
    must(restriction_chain_add(making->chain, &link, making->sets, &err), &err);
    for (size_t i = 0; i < KEYS; i++) buffer_done(&envelopes[i]);
}

static void begin(struct making *making)
{
    struct error err = {0};

    *making = (struct making){.now_ms = NOW_MS};
    for (size_t i = 0; i < KEYS; i++) must(ecdsa_key_new(&making->keys[i], &err), &err);
    must(set_chain_new(making->keys[ROOT], &making->sets, &err), &err);
    must(restriction_chain_new("acme", &making->chain, &err), &err);
}

static void check_row(void **state)
{
    const struct row *row = *state;
    const char *why = "";
    OWNED_JSON policies = NULL;
    OWNED_MAKING making;
    struct error err = {0};

    begin(&making);
    for (const struct step *step = row->steps; step->what != NOTHING; step++) add(&making, step);
    assert_int_equal(restriction_chain_count(making.chain), row->proven);
    assert_int_equal(restriction_chain_refused(making.chain, &why), row->refused);
    if (strstr(why, row->says) == NULL) fail_msg("%s", why);
    must(restriction_chain_policies(making.chain, &policies, &err), &err);
    assert_int_equal(json_array_size(policies), row->is_in_force);
}

static void another_kind_and_another_order_are_errors(void **state)
{
    static const struct step first = {KEY, .who = DORA, .signers = BY(DORA) | BY(ROOT)};
    struct buffer OWNED_BUFFER payload = BUFFER(16384), envelope = BUFFER(32768);
    OWNED_JSON body = json_object();
    const struct document_parts parts = {.kind = DOCUMENT_PERSONS,
                                         .scope = "",
                                         .name = "persons",
                                         .version = 1,
                                         .effective_ms = NOW_MS,
                                         .withdrawn = "x",
                                         .body = body};
    OWNED_MAKING making;
    struct error err = {0};

    (void)state;
    begin(&making);
    add(&making, &first);
    must(document_compose(&parts, &payload, &err), &err);
    must(document_sign(DOCUMENT_PERSONS, buffer_bytes(&payload), making.keys[ROOT], &envelope, &err), &err);
    const struct bytes view = buffer_bytes(&envelope);
    assert_false(
        restriction_chain_add(making.chain, &(struct set_chain_link){&view, 1, {NULL, 0}, 9, NOW_MS, true}, making.sets, &err)
            .ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    struct buffer OWNED_BUFFER again = BUFFER(16384), signed_again = BUFFER(32768);
    const struct document_parts ended = {.kind = DOCUMENT_RESTRICTION,
                                         .scope = "acme",
                                         .name = "acme.closed",
                                         .version = 1,
                                         .effective_ms = NOW_MS,
                                         .withdrawn = "x",
                                         .body = body};
    must(document_compose(&ended, &again, &err), &err);
    must(document_sign(DOCUMENT_RESTRICTION, buffer_bytes(&again), making.keys[DORA], &signed_again, &err), &err);
    const struct bytes late = buffer_bytes(&signed_again);
    assert_false(
        restriction_chain_add(making.chain, &(struct set_chain_link){&late, 1, {NULL, 0}, 1, NOW_MS, true}, making.sets, &err)
            .ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

int restriction_chain_cases(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(another_kind_and_another_order_are_errors)};

    return RUN_TABLE(rows, check_row) + cmocka_run_group_tests_name("restriction chain", tests, NULL, NULL);
}

/* What a set changes of the one before it: how many persons must sign depends on it. */
#include "tests/support/unit.h"

#include "base/text.h"
#include "crypto/dsse.h"
#include "policy/set_change.h"
#include "tests/support/policy.h"
#include "tests/unit/policy_set_change_parts.h"

#define NOW_MS INT64_C(1797292800000) /* 2026-12-15 */

#define POLICY(id, version, members, rules)                                                                                      \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"" id "\",\"version\":" version      \
    ",\"scope\":[\"**\"],\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2027-01-01\"}," members "\"rules\":[" rules \
    "]}"
#define PERMIT(most) \
    "{\"id\":\"P-1\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\"],\"when\":{\"class_at_most\":\"" most "\"}}"
#define ONE    POLICY("one", "1", "", PERMIT("confidential"))
#define AE     "{\"id\":\"R-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"AE\"]}}"
#define NOT_SA "{\"id\":\"D-1\",\"effect\":\"deny\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"SA\"]}}"
#define OBLIGE "{\"id\":\"O-1\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_min_days\":3}}"
#define TYPE   "\"exception_types\":{\"t\":{\"lifts\":[\"R-1\"],\"required_evidence\":[],\"max_days\":3,\"approvals\":2}},"
#define LABELS "\"labels\":{\"class\":\"confidential\"},"
#define FREE   "\"closed\":false," /* it only adds restrictions */
#define TYPED                                                                                                             \
    POLICY("one", "1",                                                                                                    \
           "\"exception_types\":{\"t\":{\"lifts\":[\"R-1\"],\"required_evidence\":[],\"max_days\":90,\"approvals\":2}},", \
           AE "," PERMIT("confidential"))
/* The digest of TYPED, which make_pair() writes, has the place of these letters. */
#define OF_TYPED "sha256:dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
#define EXCEPTION(id, policy)                                                                                                                                        \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"" id                                                                               \
    "\",\"type\":\"t\",\"policy\":{\"id\":\"" policy "\",\"version\":1,\"digest\":\"" OF_TYPED                                                                       \
    "\"},\"project\":\"10000000-0000-4000-8000-000000000001\",\"lifts\":[\"R-1\"],\"ops\":[\"ingest\"],"                                                             \
    "\"targets\":[\"azure/one\"],\"digests\":[\"sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"],\"not_before\":\"2026-12-01T00:00:00Z\"," \
    "\"not_after\":\"2027-01-01T00:00:00Z\",\"evidence\":{},\"requested_by\":{\"iss\":\"i\",\"sub\":\"c\"},\"approvals\":[{\"iss\":\"i\",\"sub\":\"a\"},{\"iss\":\"i\",\"sub\":\"b\"}]}"
#define WITH(exceptions) ",\"exceptions\":[" exceptions "]"
#define REGION(geo)      ",\"regions\":{\"azure/one\":{\"geo\":\"" geo "\"}}"

#define RECORD(members) ",\"regions\":{\"azure/one\":{\"geo\":\"AE\"" members "},\"azure/two\":{\"geo\":\"AE\",\"site\":\"dc1\"}}"
#define STORE(members)  ",\"store\":{\"driver\":\"s3\",\"bucket\":\"models\"" members "}"
#define LOCATION        ",\"bucket_location\":\"me-central-1\""
#define KEYD(last)      ",\"keyd\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" last "\"" /* the thumbprint of a key */

#define CLIENTS(entries) ",\"networks\":[" entries "]"
#define NETWORK(cidr)    "{\"cidr\":\"" cidr "\",\"facts\":{\"geo\":\"AE\"}}"
#define FRONT            "{\"facts\":{\"geo\":\"AE\"},\"listener\":\"front\"}"

static const struct row {
    const char *name, *base, *next; /* policies, and other members behind them */
    uint64_t unused;                /* of the policies of `next`, in their order */
    enum set_change change;
} rows[] = {
    {"nothing", "[" ONE "]", "[" ONE "]", 0, SET_CHANGES},
    {"a permit is wider", "[" ONE "]", "[" POLICY("one", "2", "", PERMIT("sensitive")) "]", 0, SET_LOOSENS},
    {"a permit is narrower", "[" ONE "]", "[" POLICY("one", "2", "", PERMIT("open")) "]", 0, SET_CHANGES},
    {"an added requirement", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE, AE) "]", 2, SET_RESTRICTS},
    {"in front", "[" ONE "]", "[" POLICY("two", "1", FREE, AE "," NOT_SA) "," ONE "]", 1, SET_RESTRICTS},
    {"two of them", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE, AE) "," POLICY("three", "1", FREE, NOT_SA) "]", 6,
     SET_RESTRICTS},
    {"two, and one of an old id", "[" ONE "]",
     "[" ONE "," POLICY("two", "1", FREE, AE) "," POLICY("three", "1", FREE, NOT_SA) "]", 2, SET_LOOSENS},
    {"under an id that a set had", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE, AE) "]", 0, SET_LOOSENS},
    {"another bit is set", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE, AE) "]", 1, SET_LOOSENS},
    {"under an id of the set", "[" ONE "]", "[" ONE "," POLICY("one", "2", FREE, AE) "]", 3, SET_CHANGES},
    {"with labels", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE LABELS, AE) "]", 2, SET_LOOSENS},
    {"with a permit", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE, AE "," PERMIT("secret")) "]", 2, SET_CHANGES},
    {"with a duty", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE, AE "," OBLIGE) "]", 2, SET_CHANGES},
    {"with a type of exceptions", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE TYPE, AE) "]", 2, SET_LOOSENS},
    {"and one is gone", "[" ONE "," POLICY("two", "1", FREE, AE) "]", "[" ONE "," POLICY("three", "1", FREE, NOT_SA) "]", 2,
     SET_LOOSENS},
    {"and a region moves", "[" ONE "," POLICY("three", "1", FREE, AE) "]" REGION("SA"),
     "[" ONE "," POLICY("three", "1", FREE, AE) "," POLICY("two", "1", FREE, AE) "]" REGION("AE"), 4, SET_LOOSENS},
    {"an exception comes", "[" TYPED "]" REGION("SA"), "[" TYPED "]" REGION("SA") WITH(EXCEPTION("x1", "one")), 0, SET_LOOSENS},
    {"an exception ends", "[" TYPED "]" REGION("SA") WITH(EXCEPTION("x1", "one")), "[" TYPED "]" REGION("SA"), 0, SET_RESTRICTS},
    {"one of two ends", "[" TYPED "]" WITH(EXCEPTION("x1", "one") "," EXCEPTION("x2", "two")),
     "[" TYPED "]" WITH(EXCEPTION("x2", "two")), 0, SET_RESTRICTS},
    {"an exception ends, and one takes its place",
     "[" TYPED "]" REGION("SA") WITH(EXCEPTION("x1", "one") "," EXCEPTION("x2", "one")),
     "[" TYPED "]" REGION("SA") WITH(EXCEPTION("x2", "one")), 0, SET_CHANGES},
    {"an exception is changed", "[" TYPED "]" REGION("SA") WITH(EXCEPTION("x1", "one")),
     "[" TYPED "]" REGION("SA") WITH(EXCEPTION("x3", "one")), 0, SET_LOOSENS},
    {"an exception comes that lifts nothing", "[" TYPED "]", "[" TYPED "]" WITH(EXCEPTION("x1", "two")), 0, SET_LOOSENS},
    {"an exception ends, and a requirement comes", "[" TYPED "]" WITH(EXCEPTION("x1", "one")),
     "[" TYPED "," POLICY("two", "1", FREE, NOT_SA) "]", 2, SET_RESTRICTS},
    {"a listener comes", "[" ONE "]" CLIENTS(NETWORK("10.1.0.0/16")), "[" ONE "]" CLIENTS(NETWORK("10.1.0.0/16") "," FRONT), 0,
     SET_LOOSENS},
    {"the listener stays", "[" ONE "]" CLIENTS(FRONT), "[" POLICY("one", "2", "", PERMIT("open")) "]" CLIENTS(FRONT), 0,
     SET_CHANGES},
    {"a network goes beside a listener", "[" ONE "]" CLIENTS(NETWORK("10.1.0.0/16") "," FRONT), "[" ONE "]" CLIENTS(FRONT), 0,
     SET_LOOSENS},
    {"a network goes beside none", "[" ONE "]" CLIENTS(NETWORK("10.1.0.0/16")), "[" ONE "]", 0, SET_CHANGES},
    {"a store may be elsewhere", "[" ONE "]" RECORD(STORE(LOCATION)), "[" ONE "]" RECORD(STORE("")), 0, SET_LOOSENS},
    {"a store is elsewhere", "[" ONE "]" RECORD(STORE(LOCATION)), "[" ONE "]" RECORD(STORE(",\"bucket_location\":\"us-east-1\"")),
     0, SET_LOOSENS},
    {"nothing is demanded of a store", "[" ONE "]" RECORD(STORE("")), "[" ONE "]" RECORD(""), 0, SET_LOOSENS},
    {"more is demanded of a store", "[" ONE "]" RECORD(STORE("")), "[" ONE "]" RECORD(STORE(LOCATION)), 0, SET_CHANGES},
    {"keys may be elsewhere", "[" ONE "]" RECORD(KEYD("A")), "[" ONE "]" RECORD(""), 0, SET_LOOSENS},
    {"keys are elsewhere", "[" ONE "]" RECORD(KEYD("A")), "[" ONE "]" RECORD(KEYD("B")), 0, SET_LOOSENS},
    {"keys come to a place of their own", "[" ONE "]" RECORD(""), "[" ONE "]" RECORD(KEYD("A")), 0, SET_CHANGES},
    {"one site is two", "[" ONE "]" RECORD(",\"site\":\"dc1\""), "[" ONE "]" RECORD(",\"site\":\"dc2\""), 0, SET_LOOSENS},
    {"one site is two, without a name", "[" ONE "]" RECORD(",\"site\":\"dc1\""), "[" ONE "]" RECORD(""), 0, SET_LOOSENS},
    {"two sites are one", "[" ONE "]" RECORD(",\"site\":\"dc2\""), "[" ONE "]" RECORD(",\"site\":\"dc1\""), 0, SET_CHANGES},
    {"and a region comes that no rule asks for", "[" ONE "]", "[" ONE "," POLICY("two", "1", FREE, AE) "]" REGION("AE"), 2,
     SET_CHANGES},
};

/* Binds exceptions to TYPED, whose digest no constant can have. */
static void bind_to_typed(json_t *exceptions)
{
    OWNED_JSON json = policy_json(TYPED);
    OWNED(policy_document) *typed = NULL;
    struct error err = {0};

    must(policy_document_new(json, &typed, &err), &err);
    for (size_t i = 0; i < json_array_size(exceptions); i++)
        assert_int_equal(json_object_set_new(json_object_get(json_array_get(exceptions, i), "policy"), "digest",
                                             json_string(policy_document_digest(typed))),
                         0);
}

static void compose(const char *policies, uint64_t epoch, struct buffer *envelope)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16), payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    must(buffer_format(&text, &err, "{\"policies\":%s}", policies), &err);
    OWNED_JSON json = policy_json(buffer_text(&text));
    bind_to_typed(json_object_get(json, "exceptions"));
    const struct policy_set_parts parts = {.epoch = epoch,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .networks = json_object_get(json, "networks"),
                                           .exceptions = json_object_get(json, "exceptions"),
                                           .declassified = json_object_get(json, "declassified")};
    must(policy_set_compose(&parts, &payload, &err), &err);
    must(ecdsa_key_new(&key, &err), &err);
    must(policy_set_sign(buffer_bytes(&payload), key, envelope, &err), &err);
}

static void open_set(const struct buffer *envelope, struct policy_set **set_out, struct buffer *payload)
{
    OWNED(dsse) *dsse = NULL;
    struct error err = {0};

    must(dsse_read(buffer_bytes(envelope), POLICY_SET_ENVELOPE_MAX, &dsse, &err), &err);
    must(buffer_add(payload, dsse->payload.data, dsse->payload.length, &err), &err);
    must(policy_set_compile(buffer_bytes(payload), set_out, &err), &err);
}

static void pin_of(const struct policy_set *set, struct document_pin *pin)
{
    pin->epoch = policy_set_epoch(set);
    assert_true(text_from_hex(bytes_of_text(policy_set_digest(set) + 7), pin->digest, sizeof pin->digest));
}

struct pair {
    struct buffer base, next, base_payload, next_payload;
    struct policy_set *old, *new;
};

static void pair_done(struct pair *pair)
{
    policy_set_free(pair->old);
    policy_set_free(pair->new);
    buffer_done(&pair->base);
    buffer_done(&pair->next);
    buffer_done(&pair->base_payload);
    buffer_done(&pair->next_payload);
}
#define OWNED_PAIR __attribute__((cleanup(pair_done))) struct pair

static void make_pair(const struct row *row, struct pair *pair)
{
    *pair = (struct pair){BUFFER(POLICY_SET_ENVELOPE_MAX),
                          BUFFER(POLICY_SET_ENVELOPE_MAX),
                          BUFFER(POLICY_SET_BYTES_MAX),
                          BUFFER(POLICY_SET_BYTES_MAX),
                          NULL,
                          NULL};
    compose(row->base, 1, &pair->base);
    compose(row->next, 2, &pair->next);
    open_set(&pair->base, &pair->old, &pair->base_payload);
    open_set(&pair->next, &pair->new, &pair->next_payload);
}

static void the_change_is_found(void **state)
{
    const struct row *row = *state;
    OWNED_PAIR pair;
    struct set_change_found found;
    struct error err = {0};

    make_pair(row, &pair);
    struct set_change_query query = {
        .base = buffer_bytes(&pair.base), .payload = buffer_bytes(&pair.next_payload), .unused = row->unused, .now_ms = NOW_MS};
    pin_of(pair.old, &query.pinned);
    must(policy_set_change_to_pin(&query, &found, &err), &err);
    if (found.change != row->change) fail_msg("%d: %s", (int)found.change, found.why);
    assert_true(found.change == SET_CHANGES || found.why[0] != '\0');
}

/* A gateway that somebody has taken over shows another set as the one before. */
static void another_base_is_refused(void **state)
{
    OWNED_PAIR pair;
    struct set_change_found found;
    struct error err = {0};

    (void)state;
    make_pair(&rows[1], &pair);
    struct set_change_query query = {
        .base = buffer_bytes(&pair.next), .payload = buffer_bytes(&pair.next_payload), .now_ms = NOW_MS};
    pin_of(pair.old, &query.pinned);
    assert_false(policy_set_change(&query, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    query.base = buffer_bytes(&pair.base);
    query.pinned.epoch++;
    assert_false(policy_set_change(&query, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    query.pinned.epoch--;
    query.base.length /= 2;
    assert_false(policy_set_change(&query, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    query.base = buffer_bytes(&pair.base);
    query.payload = bytes_of_text("{}");
    assert_false(policy_set_change(&query, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

#define FREED(more) ",\"declassified\":[{\"policy\":\"old\",\"reason\":\"r\",\"scope\":[\"acme/**\"]" more "}]"
#define GROUNDS     ",\"evidence\":\"sha256:1111111111111111111111111111111111111111111111111111111111111111\""

/* sijil-keyd asks for the evidence; a reader of older sets does not. */
static void what_is_pinned_has_evidence(void **state)
{
    static const struct {
        struct row row;
        bool is_good;
    } cases[] = {{{"", "[" ONE "]", "[" ONE "]" FREED(""), 0, SET_LOOSENS}, false},
                 {{"", "[" ONE "]", "[" ONE "]" FREED(GROUNDS), 0, SET_LOOSENS}, true},
                 {{"", "[" ONE "]" FREED(""), "[" ONE "]" FREED(""), 0, SET_CHANGES}, true}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        OWNED_PAIR pair;
        struct set_change_found found;
        struct error err = {0};
        make_pair(&cases[i].row, &pair);
        struct set_change_query query = {
            .base = buffer_bytes(&pair.base), .payload = buffer_bytes(&pair.next_payload), .now_ms = NOW_MS};
        pin_of(pair.old, &query.pinned);
        must(policy_set_change(&query, &found, &err), &err);
        assert_int_equal(policy_set_change_to_pin(&query, &found, &err).ok, cases[i].is_good);
        if (!cases[i].is_good) assert_non_null(strstr(err.message, "evidence"));
    }
}

/* It was pinned when nobody asked for one signature more: a reader of older sets counts as sijil-keyd did then. */
static void records_of_older_sets_do_not_count(void **state)
{
    static const struct row row = {"", "[" ONE "]" RECORD(KEYD("A")), "[" ONE "]" RECORD(""), 0, SET_LOOSENS};
    OWNED_PAIR pair;
    struct set_change_found found;
    struct error err = {0};

    (void)state;
    make_pair(&row, &pair);
    struct set_change_query query = {
        .base = buffer_bytes(&pair.base), .payload = buffer_bytes(&pair.next_payload), .now_ms = NOW_MS};
    pin_of(pair.old, &query.pinned);
    must(policy_set_change(&query, &found, &err), &err);
    assert_int_equal(found.change, SET_CHANGES);
    must(policy_set_change_to_pin(&query, &found, &err), &err);
    assert_string_equal(found.why, "record-demands-less: the keys may be with another sijil-keyd");
}

/* What the set before has, too, was signed then; without analysis, where only that is asked. */
static void kept_exceptions_are_found(void **state)
{
    static const struct row both = {"", "[" TYPED "]" WITH(EXCEPTION("x1", "one") "," EXCEPTION("x2", "one")),
                                    "[" TYPED "]" WITH(EXCEPTION("x3", "one") "," EXCEPTION("x2", "one")), 0, SET_LOOSENS};
    OWNED_PAIR pair;
    struct set_change_found found;
    struct error err = {0};

    (void)state;
    make_pair(&both, &pair);
    struct set_change_query query = {.base = buffer_bytes(&pair.base),
                                     .payload = buffer_bytes(&pair.next_payload),
                                     .now_ms = NOW_MS,
                                     .is_about_exceptions = true};
    pin_of(pair.old, &query.pinned);
    must(policy_set_change(&query, &found, &err), &err);
    assert_int_equal(found.kept[0], 2);
    assert_int_equal(found.change, SET_LOOSENS);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(rows) + 4];

    for (size_t i = 0; i < COUNT(rows); i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = the_change_is_found, .initial_state = (void *)(uintptr_t)&rows[i]};
    tests[COUNT(rows)] = (struct CMUnitTest)cmocka_unit_test(another_base_is_refused);
    tests[COUNT(rows) + 2] = (struct CMUnitTest)cmocka_unit_test(what_is_pinned_has_evidence);
    tests[COUNT(rows) + 1] = (struct CMUnitTest)cmocka_unit_test(kept_exceptions_are_found);
    tests[COUNT(rows) + 3] = (struct CMUnitTest)cmocka_unit_test(records_of_older_sets_do_not_count);
    return cmocka_run_group_tests_name("what a policy set changes", tests, NULL, NULL) + policy_chain_cases() +
           restriction_chain_cases();
}

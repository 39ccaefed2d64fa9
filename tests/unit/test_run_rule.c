/* A trust rule that asks for a run: its document, and what its grants allow; and one approval more than the policies ask for. */
#include "tests/support/made_run.h"

#include "training/format/run_keys.h"

#define NOW_MS INT64_C(1795428000000) /* of the order's event in the vectors */
#define DAY_MS INT64_C(86400000)

struct grant {
    const char *role, *on;
};

static struct document *document_of(const char *scope, uint64_t version, const struct grant grants[4])
{
    struct buffer OWNED_BUFFER payload = BUFFER(16384);
    struct document *document = NULL;
    struct error err = {0};
    json_t *list = json_array();
    OWNED_JSON body = json_pack("{s:s, s:s, s:s, s:{s:{s:s}, s:{s:s}}, s:o, s:i, s:i, s:b}", "issuer",
                                "https://token.actions.githubusercontent.com", "audience", "https://registry.example", "system",
                                "github", "match", "/repository_id", "eq", "1", "/ref", "eq", "refs/heads/main", "grant", list,
                                "priority", 100, "max_ttl", 300, "single_use", 1);
    OWNED_JSON none = json_object();

    for (size_t i = 0; grants != NULL && i < 4 && grants[i].role != NULL; i++)
        assert_int_equal(json_array_append_new(list, json_pack("{s:s, s:s}", "role", grants[i].role, "on", grants[i].on)), 0);
    const struct document_parts parts = {.kind = DOCUMENT_TRUST_RULE,
                                         .scope = scope,
                                         .name = "gh-train",
                                         .version = version,
                                         .effective_ms = NOW_MS - 2 * DAY_MS,
                                         .expires_ms = NOW_MS + 2 * DAY_MS,
                                         .withdrawn = grants == NULL ? "a test" : NULL,
                                         .body = grants == NULL ? none : body};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    if (!document_read_payload(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), &document, &err).ok) fail_msg("%s", err.message);
    return document;
}

/* The request of the vectors: of the rule acme:gh-train, in acme/models. */
static struct run_envelope *request_of(const json_t *vectors)
{
    struct run_envelope *request = NULL;
    struct error err = {0};

    assert_true(
        run_envelope_read(bytes_of_text(json_text_of(made_bundle(vectors, MADE_RULE), "request")), RUN_REQUEST, &request, &err)
            .ok);
    return request;
}

static const struct row {
    const char *name, *scope;
    struct grant grants[4];
    int64_t at_ms;
    const char *says; /* NULL: it counts */
} rows[] = {
    {"a grant on the organisation", "acme", {{"trainer", "acme"}}, 0, NULL},
    {"on the project", "acme", {{"trainer", "acme/models"}}, 0, NULL},
    {"on the project, and all below it", "acme", {{"trainer", "acme/models"}, {"trainer", "acme/models/*"}}, 0, NULL},
    {"all below the project alone", "acme", {{"trainer", "acme/models/*"}}, 0, "no grant of \"trainer\" on acme/models"},
    {"one repository alone", "acme", {{"trainer", "acme/models/code"}}, 0, "no grant of \"trainer\" on acme/models"},
    {"another role", "acme", {{"publisher", "acme"}}, 0, "no grant of \"trainer\""},
    {"another project", "acme", {{"trainer", "acme/models2"}}, 0, "no grant of \"trainer\""},
    {"at its beginning", "acme", {{"trainer", "acme"}}, -2 * DAY_MS, NULL},
    {"before it", "acme", {{"trainer", "acme"}}, -2 * DAY_MS - 1, "was not in force"},
    {"at its end", "acme", {{"trainer", "acme"}}, 2 * DAY_MS, "was not in force"},
    {"a rule of the same name elsewhere", "acme/models", {{"trainer", "acme/models"}}, 0, "no document of the bundle"},
};

static void a_rule_asks_for_what_it_grants(void **state)
{
    const struct row *row = *state;
    OWNED_JSON vectors = made_vectors();
    OWNED(run_envelope) *request = request_of(vectors);
    struct run_keys keys = {.count = 1};
    const struct run_key *rule = NULL;
    struct error err = {0};

    keys.each[0] = (struct run_key){document_of(row->scope, 1, row->grants), 3, NOW_MS - 3 * DAY_MS};
    const struct run_use use = {.project = "acme/models", .sequence = 6, .time_ms = NOW_MS + row->at_ms};
    const bool ok = run_keys_rule(&keys, request, &use, &rule, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it counts" : err.message);
    if (!ok && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    run_keys_done(&keys);
}

static void the_newest_version_before_the_event_counts(void **state)
{
    static const struct grant grants[4] = {{"trainer", "acme"}};
    OWNED_JSON vectors = made_vectors();
    OWNED(run_envelope) *request = request_of(vectors);
    struct run_keys keys = {.count = 3};
    struct run_use use = {.project = "acme/models", .time_ms = NOW_MS};
    const struct run_key *rule = NULL;
    struct error err = {0};

    (void)state;
    keys.each[0] = (struct run_key){document_of("acme", 1, grants), 3, NOW_MS - DAY_MS};
    keys.each[1] = (struct run_key){document_of("acme", 2, NULL), 5, NOW_MS - DAY_MS + 1};
    keys.each[2] = (struct run_key){document_of("acme", 3, grants), 7, NOW_MS - DAY_MS + 2};
    use.sequence = 3;
    assert_false(run_keys_rule(&keys, request, &use, &rule, &err).ok);
    use.sequence = 5;
    assert_true(run_keys_rule(&keys, request, &use, &rule, &err).ok && rule == &keys.each[0]);
    use.sequence = 7;
    assert_false(run_keys_rule(&keys, request, &use, &rule, &err).ok);
    assert_non_null(strstr(err.message, "was withdrawn before"));
    use.sequence = 8;
    assert_true(run_keys_rule(&keys, request, &use, &rule, &err).ok && rule == &keys.each[2]);
    run_keys_done(&keys);
}

/* Its signatures are as good as ever. That it is in the log again is the word of a gateway. */
static void an_older_version_that_comes_again_counts_no_more(void **state)
{
    static const struct grant wide[4] = {{"trainer", "acme"}}, narrow[4] = {{"trainer", "acme/other"}};
    static const struct {
        const struct grant *second;
        uint64_t version;
        const char *says; /* NULL: it counts */
    } seconds[] = {{NULL, 2, "was withdrawn before"}, {narrow, 2, "no grant of \"trainer\""}, {wide, 2, NULL}, {narrow, 1, NULL}};
    OWNED_JSON vectors = made_vectors();
    OWNED(run_envelope) *request = request_of(vectors);
    const struct run_use use = {.project = "acme/models", .sequence = 8, .time_ms = NOW_MS};

    (void)state;
    for (size_t i = 0; i < COUNT(seconds); i++) {
        struct run_keys keys = {.count = 3};
        const struct run_key *rule = NULL;
        struct error err = {0};
        keys.each[0] = (struct run_key){document_of("acme", 1, wide), 3, NOW_MS - DAY_MS};
        keys.each[1] = (struct run_key){document_of("acme", seconds[i].version, seconds[i].second), 5, NOW_MS - DAY_MS + 1};
        keys.each[2] = (struct run_key){document_of("acme", 1, wide), 7, NOW_MS - DAY_MS + 2};
        const bool ok = run_keys_rule(&keys, request, &use, &rule, &err).ok;
        assert_int_equal(ok, seconds[i].says == NULL);
        if (!ok && strstr(err.message, seconds[i].says) == NULL) fail_msg("%s", err.message);
        if (ok) assert_ptr_equal(rule, &keys.each[seconds[i].version == 2 ? 1 : 0]); /* of one version the first */
        run_keys_done(&keys);
    }
}

/* ---- approvals ---- */

static void nobody_needs_one_approval_more(void **state)
{
    static const struct {
        const char *issuer;
        int64_t more;
    } issuers[] = {{"sijil:rule", 1}, {"sijil:registry", 1}, {"https://id.example", 0}};
    OWNED_JSON vectors = made_vectors();
    OWNED(run_envelope) *request = request_of(vectors);

    (void)state;
    for (size_t i = 0; i < COUNT(issuers); i++) {
        json_t *claims = json_object_get(request->json, "claims");
        assert_int_equal(json_object_set_new(claims, "issuer", json_string(issuers[i].issuer)), 0);
        assert_int_equal(run_approvals_needed(request, 0), 0);
        assert_int_equal(run_approvals_needed(request, 1), 1 + issuers[i].more);
        assert_int_equal(run_approvals_needed(request, 8), 8 + issuers[i].more);
    }
    assert_int_equal(json_object_del(request->json, "claims"), 0);
    assert_int_equal(run_approvals_needed(request, 3), 3);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_newest_version_before_the_event_counts),
        cmocka_unit_test(an_older_version_that_comes_again_counts_no_more),
        cmocka_unit_test(nobody_needs_one_approval_more),
    };
    const int failed = RUN_TABLE(rows, a_rule_asks_for_what_it_grants);

    return failed + cmocka_run_group_tests(others, NULL, NULL);
}

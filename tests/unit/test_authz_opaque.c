/* Opaque tokens: whom the registry asks about them, what an answer is worth, and for how long. */
#include "tests/support/token_world.h"

#include <unistd.h>

#include "authz/group_entry.h"
#include "authz/opaque_login.h"
#include "base/json.h"

static struct introspection *introspection;
static struct attempts *attempts;

static int begin(void **state)
{
    struct introspection_client clients[2] = {{.endpoint = "https://a.example/x", .client = "c", .secret = "s"},
                                              {.endpoint = "https://b.example/x", .client = "c", .secret = "s"}};
    const struct attempts_limits limits = {.per_network = 5, .per_name = 5};
    struct error err = {0};

    (void)state;
    (void)snprintf(clients[0].issuer, sizeof clients[0].issuer, "%s", ISSUER_A);
    (void)snprintf(clients[1].issuer, sizeof clients[1].issuer, "%s", ISSUER_B);
    assert_true(introspection_new(clients, 2, &introspection, &err).ok);
    assert_true(attempts_new(&limits, &attempts, &err).ok);
    return 0;
}

static int end(void **state)
{
    introspection_free(introspection);
    attempts_free(attempts);
    (void)state;
    return 0;
}

static struct authentication try_token_of(const char *text, const char *issuer, bool is_first, bool *is_counted, bool *is_waiting)
{
    struct trust_use use = {.ttl_max_s = 0};
    const struct credential credential = {.endpoint = CREDENTIAL_AT_TOKEN, .now_ms = world.now_s * 1000, .rule = &use};
    const struct opaque_login login = {introspection, world.directory, &credential, issuer,
                                       attempts,      is_first,        is_counted,  bytes_of_text(text)};
    struct authentication found = {.error = OAUTH_INVALID_SCOPE};
    struct error err = {0};

    if (!authenticate_opaque(&login, &found, is_waiting, &err).ok) {
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        found.error = OAUTH_UNSUPPORTED_GRANT; /* stands for 503 */
    }
    return found;
}

static struct authentication try_token(const char *text, const char *issuer, bool is_first, bool *is_waiting)
{
    static bool is_counted;

    return try_token_of(text, issuer, is_first, &is_counted, is_waiting);
}

/* As the thread of the issuer answers. */
static void answer(size_t issuer, const char *said, int64_t kept_ms)
{
    struct introspection_question question;
    OWNED_STRING text = fill(said);
    OWNED_JSON claims = NULL;
    struct error err = {0};

    assert_true(introspection_take(introspection, issuer, 0, &question));
    const bool is_read =
        introspection_answer_read(bytes_of_text(text), introspection_client_at(introspection, issuer)->issuer, &claims, &err).ok;
    const enum introspection_state state = !is_read         ? INTROSPECTION_FAILED
                                           : claims == NULL ? INTROSPECTION_INACTIVE
                                                            : INTROSPECTION_ACTIVE;
    introspection_settle(introspection, &question, state, claims, clock_monotonic_ms() + kept_ms);
    assert_string_equal(question.token, "");
}

#define CLAIMS "\"sub\":\"ann\",\"aud\":\"" OURS "\""

static const struct answer_row {
    const char *name, *said;
    enum oauth_error error; /* OAUTH_UNSUPPORTED_GRANT: 503 */
} answer_rows[] = {
    {"active", "{\"active\":true," CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"token_type\":\"Bearer\"}", OAUTH_NONE},
    {"without iat", "{\"active\":true," CLAIMS ",\"exp\":@+300}", OAUTH_NONE},
    {"with its issuer", "{\"active\":true,\"iss\":\"" ISSUER_A "\"," CLAIMS ",\"exp\":@+300}", OAUTH_NONE},
    {"inactive", "{\"active\":false}", OAUTH_INVALID_GRANT},
    {"a refresh token", "{\"active\":true," CLAIMS ",\"exp\":@+300,\"token_type\":\"refresh_token\"}", OAUTH_INVALID_GRANT},
    {"a refresh token of Hydra",
     "{\"active\":true," CLAIMS ",\"exp\":@+300,\"token_type\":\"Bearer\",\"token_use\":\"refresh_token\"}", OAUTH_INVALID_GRANT},
    {"an access token of Hydra",
     "{\"active\":true," CLAIMS ",\"exp\":@+300,\"token_type\":\"Bearer\",\"token_use\":\"access_token\"}", OAUTH_NONE},
    {"an ID token", "{\"active\":true," CLAIMS ",\"exp\":@+300,\"token_type\":\"id_token\"}", OAUTH_INVALID_GRANT},
    {"for another", "{\"active\":true,\"sub\":\"ann\",\"aud\":\"https://other\",\"exp\":@+300}", OAUTH_INVALID_GRANT},
    {"for nobody in particular", "{\"active\":true,\"sub\":\"ann\",\"exp\":@+300}", OAUTH_INVALID_GRANT},
    {"for us and another", "{\"active\":true,\"sub\":\"ann\",\"aud\":[\"" OURS "\",\"https://other\"],\"exp\":@+300}",
     OAUTH_INVALID_GRANT},
    {"without an end", "{\"active\":true," CLAIMS "}", OAUTH_INVALID_GRANT},
    {"expired", "{\"active\":true," CLAIMS ",\"iat\":@-300,\"exp\":@-1}", OAUTH_INVALID_GRANT},
    {"for too long", "{\"active\":true," CLAIMS ",\"exp\":@+999999}", OAUTH_INVALID_GRANT},
    {"without a subject", "{\"active\":true,\"aud\":\"" OURS "\",\"exp\":@+300}", OAUTH_INVALID_GRANT},
    {"bound to a key", "{\"active\":true," CLAIMS ",\"exp\":@+300,\"cnf\":{\"jkt\":\"x\"}}", OAUTH_INVALID_GRANT},
    {"about another issuer's", "{\"active\":true,\"iss\":\"" ISSUER_B "\"," CLAIMS ",\"exp\":@+300}", OAUTH_UNSUPPORTED_GRANT},
    {"a text for a truth", "{\"active\":\"true\"," CLAIMS ",\"exp\":@+300}", OAUTH_UNSUPPORTED_GRANT},
    {"no JSON", "active", OAUTH_UNSUPPORTED_GRANT},
    {"active twice", "{\"active\":false,\"active\":true," CLAIMS ",\"exp\":@+300}", OAUTH_UNSUPPORTED_GRANT},
};

static void an_answer_is_worth_what_it_says(void **state)
{
    const struct answer_row *row = *state;
    char token[64];
    bool is_waiting = false;

    (void)snprintf(token, sizeof token, "opaque-%zu", (size_t)(row - answer_rows));
    (void)try_token(token, ISSUER_A, true, &is_waiting);
    assert_true(is_waiting);
    answer(0, row->said, 30000);
    const struct authentication found = try_token(token, ISSUER_A, false, &is_waiting);
    assert_false(is_waiting);
    assert_int_equal(found.error, row->error);
    if (row->error != OAUTH_NONE) return;
    assert_string_equal(found.principal.issuer, ISSUER_A);
    assert_string_equal(found.principal.subject, "ann");
    assert_int_equal(found.principal.expires_ms, (world.now_s + 300) * 1000);
    assert_non_null(strstr(found.principal.source, "token:"));
}

/* ISSUER_A's groups have a role. */
static struct trust_rules *rules_of_groups(void)
{
    struct buffer OWNED_BUFFER payload = BUFFER(GROUP_ROLES_BYTES_MAX);
    OWNED_JSON body = json_pack("{s:s, s:s, s:[{s:s, s:s, s:s}]}", "issuer", ISSUER_A, "claim", "/groups", "grant", "group", "g",
                                "role", "consumer", "on", "acme");
    const struct document_parts parts = {.kind = DOCUMENT_GROUP_ROLES,
                                         .scope = "",
                                         .name = "bank",
                                         .version = 1,
                                         .effective_ms = world.now_s * 1000 - 1000,
                                         .expires_ms = world.now_s * 1000 + 3600000,
                                         .body = body};
    OWNED(document) *document = NULL;
    struct trust_rules *rules = NULL;
    struct error err = {0};

    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_GROUP_ROLES, buffer_bytes(&payload), &document, &err), &err);
    must(trust_rules_of(&(struct pinned_document){document, 1}, 1, &rules, &err), &err);
    group_entry_place(group_entries_at(rules, 0), 0, &(struct uuid){{0xac}});
    return rules;
}

/* An answer without iat is about a token of any age: as the newest one it could bring a group back that the person has left. */
static void groups_need_the_time_of_the_token(void **state)
{
    OWNED(trust_rules) *rules = rules_of_groups();
    OWNED_STRING jwks = hostile_jwks(world.a, "key-a", "ES256");
    const struct issuer_record issuer = make_issuer(ISSUER_A, 1U << JOSE_ES256, jwks);
    struct authentication found;
    bool is_waiting = false;

    (void)state;
    publish(&(struct authz_parts){.issuers = &issuer, .issuer_count = 1, .rules = rules});
    (void)try_token("undated", ISSUER_A, true, &is_waiting);
    answer(0, "{\"active\":true," CLAIMS ",\"exp\":@+300,\"groups\":[\"g\"]}", 30000);
    found = try_token("undated", ISSUER_A, false, &is_waiting);
    assert_int_equal(found.error, OAUTH_INVALID_GRANT);
    assert_non_null(strstr(found.description, "iat"));
    (void)try_token("dated", ISSUER_A, true, &is_waiting);
    answer(0, "{\"active\":true," CLAIMS ",\"iat\":@-10,\"exp\":@+300,\"groups\":[\"g\"]}", 30000);
    assert_int_equal(try_token("dated", ISSUER_A, false, &is_waiting).error, OAUTH_NONE);
    publish_all();
}

static void one_question_serves_all_and_ends_in_time(void **state)
{
    struct introspection_question question;
    bool is_waiting = false;

    (void)state;
    for (int i = 0; i < 4; i++) {
        (void)try_token("shared", ISSUER_A, true, &is_waiting);
        assert_true(is_waiting);
    }
    answer(0, "{\"active\":true," CLAIMS ",\"exp\":@+300}", 60);
    assert_false(introspection_take(introspection, 0, 0, &question)); /* it was asked once */
    assert_int_equal(try_token("shared", ISSUER_A, false, &is_waiting).error, OAUTH_NONE);
    assert_int_equal(try_token("shared", ISSUER_B, true, &is_waiting).error, OAUTH_INVALID_SCOPE); /* no other issuer's answer */
    assert_true(is_waiting);
    (void)usleep(80000);
    (void)try_token("shared", ISSUER_A, true, &is_waiting); /* it was revoked meanwhile, perhaps: asked again */
    assert_true(is_waiting);
}

static void nobody_else_sees_a_token(void **state)
{
    struct introspection_question question;
    bool is_waiting = false;

    (void)state;
    assert_int_equal(try_token("mine", NULL, true, &is_waiting).error, OAUTH_INVALID_GRANT);
    assert_int_equal(try_token("mine", "https://c.example", true, &is_waiting).error, OAUTH_INVALID_GRANT);
    publish(&(struct authz_parts){.robot_count = 0}); /* no issuer is trusted any more */
    assert_int_equal(try_token("mine", ISSUER_A, true, &is_waiting).error, OAUTH_INVALID_GRANT);
    publish_all();
    assert_false(introspection_take(introspection, 0, 0, &question) || introspection_take(introspection, 1, 0, &question));
}

static void wrong_tokens_are_limited_and_right_ones_are_not(void **state)
{
    char token[32];
    bool is_waiting = false;

    (void)state;
    for (int i = 0; i < 5; i++) {
        (void)snprintf(token, sizeof token, "wrong-%d", i);
        (void)try_token(token, ISSUER_A, true, &is_waiting);
        assert_true(is_waiting);
        answer(0, "{\"active\":false}", 30000);
        assert_int_equal(try_token(token, ISSUER_A, false, &is_waiting).error, OAUTH_INVALID_GRANT);
    }
    const struct authentication found = try_token("one-more", ISSUER_A, true, &is_waiting);
    assert_int_equal(found.error, OAUTH_TOO_MANY);
    assert_true(found.wait_s > 0 && !is_waiting);
}

/* Requests beyond the limit may wait for the answer about a token that somebody else has brought. They give nothing back when it is right. */
static void who_was_not_counted_gives_nothing_back(void **state)
{
    bool counted[10] = {false}, is_waiting = false;

    (void)state;
    for (size_t i = 0; i < COUNT(counted); i++) {
        (void)try_token_of("right", ISSUER_A, true, &counted[i], &is_waiting);
        assert_true(is_waiting && counted[i] == (i < 5));
    }
    for (int i = 0; i < 5; i++)
        attempts_reset(attempts, &(struct attempts_who){.name = bytes_of_text("an opaque token")}, clock_monotonic_ms());
    for (int i = 0; i < 4; i++) (void)try_token_of("right", ISSUER_A, true, &(bool){false}, &is_waiting);
    answer(0, "{\"active\":true," CLAIMS ",\"exp\":@+300}", 30000);
    for (size_t i = 5; i < COUNT(counted); i++)
        assert_int_equal(try_token_of("right", ISSUER_A, false, &counted[i], &is_waiting).error, OAUTH_NONE);
    (void)try_token("wrong", ISSUER_A, true, &is_waiting); /* the fifth */
    assert_true(is_waiting);
    assert_int_equal(try_token("wrong-2", ISSUER_A, true, &is_waiting).error, OAUTH_TOO_MANY);
}

static void a_queue_that_is_full_costs_its_own_issuer_alone(void **state)
{
    char token[32];
    bool is_waiting = false;
    json_t *claims = NULL;

    (void)state;
    for (int i = 0; i < INTROSPECTION_QUEUE; i++) {
        (void)snprintf(token, sizeof token, "many-%d", i);
        assert_int_equal(introspection_look(introspection, 0, bytes_of_text(token), clock_monotonic_ms(), true, &claims),
                         INTROSPECTION_WAITS);
    }
    assert_int_equal(introspection_look(introspection, 0, bytes_of_text("late"), clock_monotonic_ms(), true, &claims),
                     INTROSPECTION_FAILED);
    (void)try_token("other", ISSUER_B, true, &is_waiting);
    assert_true(is_waiting);
    assert_int_equal(introspection_look(introspection, 0, bytes_of_text("many-0"),
                                        clock_monotonic_ms() + INTROSPECTION_PATIENCE_MS, true, &claims),
                     INTROSPECTION_FAILED); /* nobody has answered */
}

static void texts_are_opaque_or_not(void **state)
{
    static char large[INTROSPECTION_TOKEN_MAX + 2];

    (void)state;
    memset(large, 'a', sizeof large - 1);
    assert_true(introspection_token_is_opaque(bytes_of_text("mF_9.B5f-4.1JqM.x")) &&
                introspection_token_is_opaque(bytes_of_text("a")));
    assert_false(introspection_token_is_opaque(bytes_of_text("sijil_0123"))); /* a robot's secret */
    assert_false(introspection_token_is_opaque(bytes_of_text("a.b.c")) || introspection_token_is_opaque(bytes_of_text("")) ||
                 introspection_token_is_opaque(bytes_of_text("a b")) ||
                 introspection_token_is_opaque(bytes_of_text("https://x")) ||
                 introspection_token_is_opaque(bytes_of_text(large)));
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest others[] = {
        CASE(one_question_serves_all_and_ends_in_time),
        CASE(groups_need_the_time_of_the_token),
        CASE(nobody_else_sees_a_token),
        CASE(wrong_tokens_are_limited_and_right_ones_are_not),
        CASE(who_was_not_counted_gives_nothing_back),
        CASE(a_queue_that_is_full_costs_its_own_issuer_alone),
        cmocka_unit_test(texts_are_opaque_or_not),
    };
    struct CMUnitTest tests[COUNT(answer_rows) + COUNT(others)];

    for (size_t i = 0; i < COUNT(answer_rows); i++)
        tests[i] = (struct CMUnitTest){answer_rows[i].name, an_answer_is_worth_what_it_says, begin, end,
                                       (void *)(uintptr_t)&answer_rows[i]};
    memcpy(tests + COUNT(answer_rows), others, sizeof others);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

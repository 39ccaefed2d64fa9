/* sijil-keyd signs a request for the subject of a token that it has signed itself, once for each run. */
#include "tests/unit/keyd_runs_fixture.h"

#include "keyd/token.h"
#include "keyd/token_check.h"

#define REGISTRY "https://registry.example"
#define SERVICE  "registry.example"
#define ROBOT    "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"
#define OTHER    "8b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"

/* ---- tokens ---- */

static void sign_token(const struct ecdsa_key *key, const json_t *payload, struct buffer *token)
{
    struct buffer OWNED_BUFFER text = BUFFER(KEYD_TOKEN_MAX);
    uint8_t signature[ECDSA_JOSE_SIZE];
    struct error err = {0};

    buffer_truncate(token, 0);
    assert_true(json_write_canonical(&text, payload, &err).ok);
    assert_true(token_write_header(key, token, &err).ok && buffer_add_u8(token, '.', &err).ok);
    assert_true(text_base64(token, BASE64_URL, buffer_bytes(&text), &err).ok);
    assert_true(ecdsa_sign_jose(key, buffer_bytes(token), signature, &err).ok && buffer_add_u8(token, '.', &err).ok);
    assert_true(text_base64(token, BASE64_URL, (struct bytes){signature, sizeof signature}, &err).ok);
}

static void write_external(const char *issuer, const char *subject, char sub_out[256])
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    sha256_of(bytes_of_text(issuer), digest);
    text_hex(digest, sizeof digest, hex);
    (void)snprintf(sub_out, 256, "ext:%.32s:%s", hex, subject);
}

static json_t *payload_for(const char *sub)
{
    json_t *payload = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:[], s:b}", "iss", REGISTRY, "aud", SERVICE, "sub",
                                sub, "src", "x", "jti", "1", "iat", (json_int_t)(NOW_S - 10), "nbf", (json_int_t)(NOW_S - 10),
                                "exp", (json_int_t)(NOW_S + 290), "access", "admin", 1);

    assert_non_null(payload);
    return payload;
}

/* What a test asks for, until it changes something. */
struct asking {
    struct world *world;
    struct keyd_run_request wanted;
    struct buffer token, spec, envelope;
};

static void asking_done(struct asking *asking)
{
    buffer_done(&asking->token);
    buffer_done(&asking->spec);
    buffer_done(&asking->envelope);
}
#define OWNED_ASKING __attribute__((cleanup(asking_done))) struct asking

static void begin_asking(struct world *world, const char *sub, struct asking *asking)
{
    OWNED(run_envelope) *request = NULL;
    struct error err = {0};

    begin_without(world, NULL);
    *asking = (struct asking){
        .world = world, .token = BUFFER(KEYD_TOKEN_MAX), .spec = BUFFER(KEYD_SPEC_MAX), .envelope = BUFFER(RUN_ENVELOPE_MAX)};
    OWNED_JSON payload = payload_for(sub);
    sign_token(world->key, payload, &asking->token);
    assert_true(run_envelope_read(bytes_of_text(json_text_of(world->bundle, "request")), RUN_REQUEST, &request, &err).ok);
    assert_true(json_write_canonical(&asking->spec, run_member(request, "spec"), &err).ok);
    asking->wanted = (struct keyd_run_request){.issuer = bytes_of_text(REGISTRY),
                                               .audience = bytes_of_text(SERVICE),
                                               .run = {.bytes = {1}},
                                               .project = bytes_of_text("acme/models"),
                                               .lifetime_s = 3600};
}

static enum error_kind ask_again(struct asking *asking, struct error *err)
{
    asking->wanted.token = buffer_bytes(&asking->token);
    asking->wanted.spec = buffer_bytes(&asking->spec);
    buffer_truncate(&asking->envelope, 0);
    return run_sign_request(&asking->world->signer, &asking->wanted, &asking->envelope, err).ok ? ERROR_NONE : err->kind;
}

/* ---- whose token ---- */

#define ALICE "ext:345794e1bae062269a8796a7313dbed5f5d151d6272282749a4307871eccc5f9" /* of https://id.example */

static const struct holder_row {
    const char *name, *issuer, *subject; /* issuer NULL: a robot */
    const char *requester, *claimed, *named;
} holder_rows[] = {
    {"a robot", NULL, ROBOT, "robot:" ROBOT, "sijil:registry", ROBOT},
    {"a trust rule", "sijil:rule", "acme:gh-train", NULL, "sijil:rule", "acme:gh-train"},
    {"a person", "https://id.example", "alice", ALICE, "https://id.example", ALICE},
    {"one with the name of a hash", "https://id.example", ALICE,
     "ext:4cdf598fcbbbc99035c319596c030ff09b1412d3ef19047f90360a37cb6dcdc2", "https://id.example",
     "ext:4cdf598fcbbbc99035c319596c030ff09b1412d3ef19047f90360a37cb6dcdc2"},
};

static void a_token_asks_for_its_subject(void **state)
{
    const struct holder_row *row = *state;
    OWNED(run_envelope) *made = NULL;
    char sub[256] = "robot:" ROBOT, digest[TOKEN_DIGEST_SIZE] = "sha256:";
    uint8_t hash[SHA256_SIZE];
    OWNED_WORLD world;
    OWNED_ASKING asking;
    struct error err = {0};

    if (row->issuer != NULL) write_external(row->issuer, row->subject, sub);
    begin_asking(&world, sub, &asking);
    if (row->issuer != NULL) asking.wanted.subject_issuer = bytes_of_text(row->issuer);
    if (ask_again(&asking, &err) != ERROR_NONE) fail_msg("%s", err.message);
    assert_true(run_envelope_read(buffer_bytes(&asking.envelope), RUN_REQUEST, &made, &err).ok);
    assert_true(run_check_signer(made, world.key, &err).ok);
    assert_string_equal(run_text(made, "claims.issuer"), row->claimed);
    assert_string_equal(run_text(made, "claims.subject"), row->named);
    if (row->requester != NULL) assert_string_equal(run_text(made, "requester"), row->requester);
    assert_string_equal(run_text(made, "audience"), world.signer.origin);
    sha256_of(buffer_bytes(&asking.token), hash);
    text_hex(hash, sizeof hash, digest + strlen(digest));
    assert_string_equal(run_text(made, "claims.token"), digest);
    assert_int_equal(run_time(made, "expires") - run_time(made, "issued_at"), 3600 * 1000);
}

/* ---- refusals ---- */

struct change {
    const char *name, *claim, *value; /* of the payload; value NULL: the claim is left out */
    const char *says;
};

static const struct change claim_rows[] = {
    {"for another registry", "iss", "\"https://other.example\"", "for another registry"},
    {"for another audience", "aud", "\"other.example\"", "for another registry"},
    {"for two audiences", "aud", "[\"registry.example\", \"other.example\"]", "for another registry"},
    {"expired", "exp", "1795428060", "has expired"},
    {"without an end", "exp", NULL, "has no times"},
    {"with an end that is no number", "exp", "\"1895428060\"", "has no times"},
    {"not valid yet", "nbf", "1795428061", "not valid yet"},
    {"narrower than the administration", "admin", NULL, "narrower than a request needs"},
    {"with a right that is not true", "admin", "1", "narrower than a request needs"},
    {"of a run", "sub", "\"run:" ROBOT "\"", "no run does"},
    {"without a subject", "sub", NULL, "has no subject"},
    {"of a robot without a UUID", "sub", "\"robot:ci\"", "names another subject"},
    {"of a subject of an issuer", "sub", "\"ext:00000000000000000000000000000000:alice\"", "not one of a subject of the issuer"},
    {"of a subject without an issuer", "sub", "\"ext:alice\"", "not one of a subject of the issuer"},
};

static void refuses(struct asking *asking, enum error_kind kind, const char *says)
{
    struct run_promise promise;
    struct error err = {0};
    uint8_t subject[32];
    char purpose[128], run[UUID_TEXT_SIZE];

    assert_int_equal(ask_again(asking, &err), kind);
    if (strstr(err.message, says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(asking->envelope.length, 0);
    uuid_format(&asking->wanted.run, run);
    (void)snprintf(purpose, sizeof purpose, "request %s 0 0", run);
    sha256_of(bytes_of_text(purpose), subject);
    assert_false(run_ledger_find(asking->world->runs, subject, asking->world->signer.now_ms, &promise)); /* it took no place */
}

static void a_token_that_does_not_count_is_refused(void **state)
{
    const struct change *row = *state;
    OWNED_JSON payload = payload_for("robot:" ROBOT);
    OWNED_WORLD world;
    OWNED_ASKING asking;

    begin_asking(&world, "robot:" ROBOT, &asking);
    if (row->value == NULL) assert_int_equal(json_object_del(payload, row->claim), 0);
    else assert_int_equal(json_object_set_new(payload, row->claim, json_loads(row->value, JSON_DECODE_ANY, NULL)), 0);
    sign_token(world.key, payload, &asking.token);
    refuses(&asking, ERROR_DENIED, row->says);
}

struct spoil_row {
    const char *name;
    void (*spoil)(struct asking *asking);
    enum error_kind kind;
    const char *says;
};

static void another_key(struct asking *asking)
{
    OWNED(ecdsa_key) *key = made_key(asking->world->vectors, "requester");
    OWNED_JSON payload = payload_for("robot:" ROBOT);

    sign_token(key, payload, &asking->token);
}

/* Without this check, a compromised gateway names a robot that it has no token of. */
static void another_robot(struct asking *asking)
{
    struct buffer OWNED_BUFFER forged = BUFFER(KEYD_TOKEN_MAX);
    OWNED_JSON payload = payload_for("robot:" OTHER);
    const uint8_t *signature = memrchr(asking->token.data, '.', asking->token.length);
    struct error err = {0};

    sign_token(asking->world->key, payload, &forged);
    buffer_truncate(&forged, (size_t)((uint8_t *)memrchr(forged.data, '.', forged.length) - forged.data));
    assert_true(buffer_add(&forged, signature, asking->token.length - (size_t)(signature - asking->token.data), &err).ok);
    buffer_truncate(&asking->token, 0);
    assert_true(buffer_add(&asking->token, forged.data, forged.length, &err).ok);
}
static void no_signature(struct asking *asking)
{
    buffer_truncate(&asking->token, asking->token.length - 86);
}
static void no_algorithm(struct asking *asking)
{
    struct buffer OWNED_BUFFER token = BUFFER(KEYD_TOKEN_MAX);
    const uint8_t *dot = memchr(asking->token.data, '.', asking->token.length);
    struct error err = {0};

    assert_true(text_base64(&token, BASE64_URL, bytes_of_text("{\"alg\":\"none\"}"), &err).ok);
    assert_true(buffer_add(&token, dot, asking->token.length - (size_t)(dot - asking->token.data), &err).ok);
    buffer_truncate(&asking->token, 0);
    assert_true(buffer_add(&asking->token, token.data, token.length, &err).ok);
}
static void one_part_more(struct asking *asking)
{
    struct error err = {0};

    assert_true(buffer_add_text(&asking->token, ".x", &err).ok);
}
static void another_subject(struct asking *asking)
{
    asking->wanted.subject_issuer = bytes_of_text("https://id.example");
}
static void no_life(struct asking *asking)
{
    asking->wanted.lifetime_s = 0;
}
static void outside(struct asking *asking)
{
    asking->wanted.project = bytes_of_text("acme/other");
}
static void bad_project(struct asking *asking)
{
    asking->wanted.project = (struct bytes){(const uint8_t *)"acme/models\0x", 13};
}
static void bad_spec(struct asking *asking)
{
    struct error err = {0};

    buffer_truncate(&asking->spec, 0);
    assert_true(buffer_add_text(&asking->spec, "{\"argv\":[\"true\"]}", &err).ok);
}
static void no_json(struct asking *asking)
{
    buffer_truncate(&asking->spec, 7);
}
static void no_run(struct asking *asking)
{
    memset(asking->wanted.run.bytes, 0, sizeof asking->wanted.run.bytes);
}

static const struct spoil_row spoil_rows[] = {
    {"signed by another key", another_key, ERROR_DENIED, "not one that this sijil-keyd has signed"},
    {"with the payload of another robot", another_robot, ERROR_DENIED, "not one that this sijil-keyd has signed"},
    {"without a signature", no_signature, ERROR_DENIED, "not one that this sijil-keyd has signed"},
    {"with another algorithm", no_algorithm, ERROR_DENIED, "not one that this sijil-keyd has signed"},
    {"with a fourth part", one_part_more, ERROR_DENIED, "not a token of the registry"},
    {"of a robot, for a person", another_subject, ERROR_DENIED, "names another subject"},
    {"for no time", no_life, ERROR_INVALID, "at least one second"},
    {"for outputs of another project", outside, ERROR_DENIED, "is not in the project"},
    {"for a project with a NUL", bad_project, ERROR_INVALID, "NUL"},
    {"without a whole specification", bad_spec, ERROR_INVALID, "spec"},
    {"with a specification that is cut off", no_json, ERROR_INVALID, ""},
    {"for the run without a number", no_run, ERROR_INVALID, "run"},
};

static void a_bad_request_is_refused(void **state)
{
    const struct spoil_row *row = *state;
    OWNED_WORLD world;
    OWNED_ASKING asking;

    begin_asking(&world, "robot:" ROBOT, &asking);
    row->spoil(&asking);
    refuses(&asking, row->kind, row->says);
}

/* What a gateway names as the issuer is text of its own: no verifier may take it for another kind of requester. */
static const struct issuer_row {
    const char *name, *issuer;
    enum error_kind kind;
} issuer_rows[] = {
    {"like that of trust rules", "sijil:Rule", ERROR_INVALID},
    {"with a blank", "sijil:rule ", ERROR_INVALID},
    {"no URL", "x", ERROR_INVALID},
    {"of two lines", "https://id.example\nx", ERROR_INVALID},
    {"that of robots", "sijil:registry", ERROR_DENIED},
};

static void an_issuer_has_a_form(void **state)
{
    const struct issuer_row *row = *state;
    char sub[256];
    OWNED_WORLD world;
    OWNED_ASKING asking;

    write_external(row->issuer, "alice", sub);
    begin_asking(&world, sub, &asking);
    asking.wanted.subject_issuer = bytes_of_text(row->issuer);
    refuses(&asking, row->kind, row->kind == ERROR_INVALID ? "issuer: sijil:registry" : "claims are of another person");
}

/* ---- once ---- */

static void read_digest(const struct asking *asking, char digest_out[RUN_DIGEST_TEXT])
{
    OWNED(run_envelope) *made = NULL;
    struct error err = {0};

    assert_true(run_envelope_read(buffer_bytes(&asking->envelope), RUN_REQUEST, &made, &err).ok);
    memcpy(digest_out, made->digest, sizeof made->digest);
}

/* A gateway that is compromised, or that died before it stored the request: a run has one request, of one token. */
static void a_run_has_one_request(void **state)
{
    char first[RUN_DIGEST_TEXT], second[RUN_DIGEST_TEXT];
    OWNED_JSON payload = payload_for("robot:" OTHER);
    OWNED_WORLD world;
    OWNED_ASKING asking;
    struct error err = {0};

    (void)state;
    begin_asking(&world, "robot:" ROBOT, &asking);
    if (ask_again(&asking, &err) != ERROR_NONE) fail_msg("%s", err.message);
    read_digest(&asking, first);
    open_runs(&world); /* as after a crash */
    world.signer.now_ms += 5000;
    asking.wanted.lifetime_s = 7200; /* the promise has its own times */
    if (ask_again(&asking, &err) != ERROR_NONE) fail_msg("%s", err.message);
    read_digest(&asking, second);
    assert_string_equal(first, second);
    asking.wanted.is_rerun = true;
    asking.wanted.rerun_run.bytes[0] = 3;
    assert_int_equal(ask_again(&asking, &err), ERROR_CONFLICT);
    asking.wanted.is_rerun = false;
    sign_token(world.key, payload, &asking.token); /* of another robot */
    assert_int_equal(ask_again(&asking, &err), ERROR_CONFLICT);
    assert_non_null(strstr(err.message, "another request was signed for this already"));
    asking.wanted.run.bytes[0] = 2;
    if (ask_again(&asking, &err) != ERROR_NONE) fail_msg("%s", err.message);
}

static void a_request_takes_a_place_of_its_project(void **state)
{
    OWNED_WORLD world;
    OWNED_ASKING asking;
    struct run_promise promise;
    struct error err = {0};
    uint8_t subject[32];

    (void)state;
    begin_asking(&world, "robot:" ROBOT, &asking);
    assert_int_equal(ask_again(&asking, &err), ERROR_NONE);
    sha256_of(bytes_of_text("request 01000000-0000-0000-0000-000000000000 0 0"), subject);
    assert_true(run_ledger_find(world.runs, subject, world.signer.now_ms, &promise));
    assert_true(promise.organisation == run_ledger_share(bytes_of_text("acme")));
    assert_true(promise.project == run_ledger_share(bytes_of_text("acme/models")));
    assert_true(promise.principal == run_ledger_share(bytes_of_text("robot:" ROBOT)));
    assert_int_equal(promise.reserves, 0);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_run_has_one_request),
        cmocka_unit_test(a_request_takes_a_place_of_its_project),
    };
    int failed = 0;

    bundle_number = MADE_RULE;
    failed += RUN_TABLE(issuer_rows, an_issuer_has_a_form);
    failed += RUN_TABLE(holder_rows, a_token_asks_for_its_subject);
    failed += RUN_TABLE(claim_rows, a_token_that_does_not_count_is_refused);
    failed += RUN_TABLE(spoil_rows, a_bad_request_is_refused);
    return failed + cmocka_run_group_tests(others, NULL, NULL);
}

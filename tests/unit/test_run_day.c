/* A run is decided once more under a set that came after its order: where its runners are, and by what was done for it. */
#include "tests/support/made_run.h"

#include "policy/run_day.h"

#define NOW_MS    INT64_C(1795171186000)
#define SET_EPOCH 8
#define RULE \
    "{\"id\":\"T-AE\",\"effect\":\"require\",\"ops\":[\"train\"],\"target\":{\"geo_within\":[\"AE\"]},\"message\":\"here\"}"
#define SIGNED "{\"id\":\"T-SIGNED\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"signed_request\":true}}"
#define ONE    "{\"id\":\"T-ONE\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"approvals\":1}}"
#define TWO    "{\"id\":\"T-TWO\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"approvals\":2}}"
#define FOUR \
    "{\"id\":\"T-FOUR\",\"effect\":\"require\",\"ops\":[\"train\"],\"target\":{\"min_assurance\":4},\"message\":\"attested\"}"
#define HERE "local/main"
#define AWAY "local/elsewhere"

static const struct row {
    const char *name, *rule; /* the rule is added to the default policy */
    const char *region,
        *peers[3];           /* of the runners, "attested:" before that of an attested one; region NULL: there is no lease yet */
    const char *issuer;      /* of a request by a token; NULL: the requester has signed */
    const char *restriction; /* a rule of the organisation acme; NULL: it has none */
    bool is_left_out;        /* of the bundle, or another one is there */
    bool permits_not, is_early, has_other_digest, has_other_root, has_no_set;
    enum error_kind kind;
    const char *says;
} rows[] = {
    {.name = "as it is", .rule = RULE, .region = HERE},
    {.name = "no policy permits to train any more",
     .permits_not = true,
     .region = HERE,
     .kind = ERROR_DENIED,
     .says = "rule SYS-CLOSED"},
    {.name = "no lease yet: no place", .permits_not = true, .region = NULL},
    {.name = "the runner is elsewhere",
     .rule = RULE,
     .region = AWAY,
     .kind = ERROR_DENIED,
     .says = "may not be used in local/elsewhere: rule T-AE"},
    {.name = "all nodes are where they may be", .rule = RULE, .region = HERE, .peers = {HERE, HERE}},
    {.name = "the last node is elsewhere",
     .rule = RULE,
     .region = HERE,
     .peers = {HERE, HERE, AWAY},
     .kind = ERROR_DENIED,
     .says = "local/elsewhere"},
    {.name = "the first node is elsewhere",
     .rule = RULE,
     .region = AWAY,
     .peers = {HERE},
     .kind = ERROR_DENIED,
     .says = "local/elsewhere"},
    {.name = "attested, as the set asks", .rule = FOUR, .region = "attested:" HERE},
    {.name = "only enrolled there",
     .rule = FOUR,
     .region = HERE,
     .kind = ERROR_DENIED,
     .says = "may not be used in local/main: rule T-FOUR"},
    {.name = "one node of an attested runner, and one of an enrolled one",
     .rule = FOUR,
     .region = "attested:" HERE,
     .peers = {"attested:" HERE, HERE},
     .kind = ERROR_DENIED,
     .says = "may not be used in local/main: rule T-FOUR"},
    {.name = "attested elsewhere",
     .rule = RULE,
     .region = "attested:" AWAY,
     .kind = ERROR_DENIED,
     .says = "may not be used in attested:local/elsewhere: rule T-AE"},
    {.name = "more approvals than it has", .rule = TWO, .region = HERE, .kind = ERROR_DENIED, .says = "2 approvals"},
    {.name = "more approvals, and no lease yet", .rule = TWO, .region = NULL, .kind = ERROR_DENIED, .says = "2 approvals"},
    {.name = "a signed request that it has", .rule = SIGNED, .region = HERE},
    {.name = "a signed request that it has not",
     .rule = SIGNED,
     .region = HERE,
     .issuer = "https://id.example",
     .kind = ERROR_DENIED,
     .says = "requester has signed"},
    {.name = "one approval for a person", .rule = ONE, .region = HERE, .issuer = "https://id.example"},
    {.name = "one approval for nobody",
     .rule = ONE,
     .region = HERE,
     .issuer = "sijil:registry",
     .kind = ERROR_DENIED,
     .says = "1 approvals"},
    {.name = "no policy is in force yet",
     .rule = RULE,
     .region = HERE,
     .is_early = true,
     .kind = ERROR_DENIED,
     .says = "rule SYS-NO-POLICY"},
    {.name = "another set is in force",
     .rule = RULE,
     .region = HERE,
     .has_other_digest = true,
     .kind = ERROR_UNAVAILABLE,
     .says = "ask again"},
    {.name = "no set", .rule = RULE, .region = HERE, .has_no_set = true, .kind = ERROR_UNAVAILABLE, .says = "ask again"},
    {.name = "a restriction that is met", .restriction = RULE, .region = HERE},
    {.name = "a restriction that is not met",
     .restriction = RULE,
     .region = AWAY,
     .kind = ERROR_DENIED,
     .says = "with restrictions of organisations: "},
    {.name = "a restriction that denies",
     .restriction = "{\"id\":\"NO\",\"effect\":\"deny\",\"ops\":[\"train\"]}",
     .region = HERE,
     .kind = ERROR_DENIED,
     .says = "rule NO"},
    {.name = "a restriction that a gateway leaves out",
     .restriction = RULE,
     .is_left_out = true,
     .region = HERE,
     .kind = ERROR_UNAVAILABLE,
     .says = "does not have a restriction"},
    {.name = "a set that somebody else signed",
     .rule = RULE,
     .region = HERE,
     .has_other_root = true,
     .kind = ERROR_DENIED,
     .says = ""},
};

/* Leaves the digest of the set in *digest_out. */
static void make_set(const struct row *row, const struct ecdsa_key *signer, struct buffer *envelope, uint8_t digest_out[32])
{
    static const struct policy_default_options defaults = {.epoch = SET_EPOCH, .region = HERE, .now_ms = NOW_MS};
    struct buffer OWNED_BUFFER first = BUFFER(POLICY_SET_BYTES_MAX), payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = NULL;
    OWNED_JSON json = NULL;
    struct error err = {0};

    assert_true(policy_default_set(&defaults, &first, &err).ok);
    assert_true(json_read(buffer_bytes(&first), POLICY_SET_BYTES_MAX, &json, &err).ok);
    json_t *rules = json_object_get(json_array_get(json_object_get(json, "policies"), 0), "rules");
    for (size_t i = json_array_size(rules); row->permits_not && i-- > 0;)
        if (strcmp(json_text_of(json_array_get(rules, i), "effect"), "permit") == 0)
            assert_int_equal(json_array_remove(rules, i), 0);
    if (row->rule != NULL) assert_int_equal(json_array_append_new(rules, json_loads(row->rule, 0, NULL)), 0);
    const struct policy_set_parts parts = {.epoch = SET_EPOCH,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .groups = json_object_get(json, "groups")};
    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s: %s", row->name, err.message);
    assert_true(policy_set_sign(buffer_bytes(&payload), signer, envelope, &err).ok);
    assert_true(policy_set_read(buffer_bytes(envelope), signer, &set, &err).ok);
    assert_true(text_from_hex(bytes_of_text(policy_set_digest(set) + strlen("sha256:")), digest_out, 32));
}

static json_t *attestation;

static void place(struct runner_key *runner, const char *region)
{
    const bool is_attested = strncmp(region, RUNNER_ATTESTED_MARK, strlen(RUNNER_ATTESTED_MARK)) == 0;

    runner->attestation = is_attested ? attestation : NULL;
    (void)snprintf(runner->region, sizeof runner->region, "%s", is_attested ? region + strlen(RUNNER_ATTESTED_MARK) : region);
}

static void sign_all(const struct row *row, struct made_run *made)
{
    char claims[256]; /* two short texts and a digest */
    struct error err = {0};

    made_run_begin(made);
    (void)snprintf(claims, sizeof claims, "{\"issuer\":\"%s\",\"subject\":\"x\",\"token\":\"sha256:%064d\"}",
                   row->issuer == NULL ? "" : row->issuer, 0);
    if (row->issuer != NULL) made_set(made, RUN_REQUEST, "claims", claims);
    for (enum run_type type = 0; type <= RUN_ORDER; type++)
        if (!made_sign(made, type, &err).ok) fail_msg("%s: %s", row->name, err.message);
}

/* What sijil-keyd has pinned. */
static uint8_t pinned[32];

static size_t find_pinned(const void *context, const char *organisation, uint8_t digests[RUN_RESTRICTIONS_MAX][32])
{
    const struct row *row = context;

    if (row->restriction == NULL || strcmp(organisation, "acme") != 0) return 0;
    memcpy(digests[0], pinned, sizeof pinned);
    return 1;
}

static void add_restriction(const struct row *row, json_t *bundle)
{
    struct buffer OWNED_BUFFER body = BUFFER(8192), payload = BUFFER(8192);
    struct error err = {0};

    if (row->restriction == NULL) return;
    must(buffer_format(&body, &err,
                       "{\"policy\":{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"closed\":false,"
                       "\"metadata\":{\"id\":\"acme.runs\",\"organisation\":\"acme\",\"version\":1,\"scope\":[\"acme/**\"],"
                       "\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2030-01-01\"},\"rules\":[%s]}}",
                       row->restriction),
         &err);
    OWNED_JSON json = json_loads(buffer_text(&body), 0, NULL);
    const struct document_parts parts = {
        .kind = DOCUMENT_RESTRICTION, .scope = "acme", .name = "acme.runs", .version = 1, .effective_ms = NOW_MS, .body = json};
    must(document_compose(&parts, &payload, &err), &err);
    sha256_of(buffer_bytes(&payload), pinned);
    json_t *texts = json_pack("[s]", row->is_left_out ? "{}" : buffer_text(&payload));
    assert_int_equal(json_object_set_new(bundle, "restrictions", texts), 0);
}

/* As run_bundle_check() leaves it; views. */
static void make_bundle(const struct row *row, const struct made_run *made, json_t *json, struct run_bundle *bundle)
{
    static struct runner_key others[COUNT(row->peers)];
    struct run_chain *chain = &bundle->chain;

    *bundle = (struct run_bundle){.json = json, .has_runner = row->region != NULL, .others = others};
    *chain = (struct run_chain){.request = made->read[RUN_REQUEST],
                                .approval_count = 1,
                                .approvals = {made->read[RUN_APPROVAL]},
                                .order = made->read[RUN_ORDER]};
    if (row->region != NULL) place(&bundle->runner, row->region);
    for (; chain->peer_count < COUNT(row->peers) && row->peers[chain->peer_count] != NULL; chain->peer_count++)
        place(&others[chain->peer_count], row->peers[chain->peer_count]);
}

static void a_set_of_the_day_decides_again(void **state)
{
    const struct row *row = *state;
    static struct run_bundle bundle; /* too large for a stack */
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    uint8_t digest[32], root[ECDSA_PUBLIC_SIZE];
    OWNED_MADE_RUN made;
    struct error err = {0};

    sign_all(row, &made);
    OWNED(ecdsa_key) *signer = made_key(made.vectors, "root");
    OWNED(ecdsa_key) *other = made_key(made.vectors, "officer");
    make_set(row, signer, &envelope, digest);
    ecdsa_key_public(row->has_other_root ? other : signer, root);
    if (row->has_other_digest) digest[0] ^= 1;
    OWNED_JSON json = row->has_no_set ? json_object() : json_pack("{s:[s]}", "policy_sets", buffer_text(&envelope));
    add_restriction(row, json);
    make_bundle(row, &made, json, &bundle);
    const struct run_day day = {root, digest, row->is_early ? NOW_MS - INT64_C(3) * 86400000 : NOW_MS, find_pinned, row};
    const enum error_kind kind = policy_run_day(&bundle, &day, &err).ok ? ERROR_NONE : err.kind;
    if (kind != row->kind || (kind != ERROR_NONE && strstr(err.message, row->says) == NULL))
        fail_msg("%d %s", (int)kind, err.message);
}

int main(void)
{
    attestation = json_object();
    const int failed = RUN_TABLE(rows, a_set_of_the_day_decides_again);
    json_decref(attestation);
    return failed;
}

/* What a document may say that breaks a glass, ends that or reviews it, and whose signatures it needs. */
#include "tests/support/unit.h"

#include "base/json.h"
#include "crypto/digest.h"
#include "documents/format/break_glass.h"

#define NOW_MS    INT64_C(1795000000000)
#define MINUTE_MS INT64_C(60000)
#define HEX16     "0123456789abcdef"
#define HOLDER    "ext:" HEX16 HEX16 HEX16 HEX16
#define APPROVER  "ext:" HEX16 HEX16 HEX16 "0000000000000000"
#define WHO       "\"principal\":\"" HOLDER "\",\"public_key\":\"KEY\""
#define GRANT     "{" WHO ",\"on\":\"acme\",\"reason\":\"r\"}"
#define END       "{" WHO ",\"approved_by\":\"" APPROVER "\"}"

/* KEY stands for the holder's key. */
static const struct row {
    const char *name;
    uint64_t version;
    int64_t minutes;
    const char *withdrawn, *scope, *body, *says; /* says NULL: it is accepted */
} rows[] = {
    {"an hour on an organisation", 1, 60, NULL, "", GRANT, NULL},
    {"a minute on a project", 1, 1, NULL, "", "{" WHO ",\"on\":\"acme/models\",\"reason\":\"the model is down\"}", NULL},
    {"its end", 2, 1440, "it is over", "", END, NULL},
    {"more than an hour", 1, 61, NULL, "", GRANT, "within 60 minutes"},
    {"an end without end", 2, 32 * 1440, "x", "", END, "the end of a broken glass expires"},
    {"version 2 of a grant", 2, 60, NULL, "", GRANT, "version 1 breaks the glass"},
    {"version 1 of an end", 1, 60, "x", "", END, "version 2 ends"},
    {"version 3 of an end", 3, 60, "x", "", END, "version 2 ends"},
    {"in an organisation", 1, 60, NULL, "acme", GRANT, "its scope is"},
    {"a robot", 1, 60, NULL, "",
     "{\"principal\":\"robot:00000000-0000-0000-0000-000000000001\",\"public_key\":\"KEY\",\"on\":\"acme\",\"reason\":\"r\"}",
     "a robot breaks no glass"},
    {"half a person", 1, 60, NULL, "",
     "{\"principal\":\"ext:" HEX16 "\",\"public_key\":\"KEY\",\"on\":\"acme\",\"reason\":\"r\"}", "principal: ext:"},
    {"a person by its name", 1, 60, NULL, "",
     "{\"principal\":\"alice@bank.example\",\"public_key\":\"KEY\",\"on\":\"acme\",\"reason\":\"r\"}", "principal: ext:"},
    {"no key", 1, 60, NULL, "", "{\"principal\":\"" HOLDER "\",\"public_key\":\"AAAA\",\"on\":\"acme\",\"reason\":\"r\"}",
     "public_key"},
    {"the registry", 1, 60, NULL, "", "{" WHO ",\"on\":\"\",\"reason\":\"r\"}", "on: an organisation"},
    {"a repository", 1, 60, NULL, "", "{" WHO ",\"on\":\"acme/models/x\",\"reason\":\"r\"}", "on: an organisation"},
    {"everything", 1, 60, NULL, "", "{" WHO ",\"on\":\"*\",\"reason\":\"r\"}", "on: an organisation"},
    {"a place that ends in a slash", 1, 60, NULL, "", "{" WHO ",\"on\":\"acme/\",\"reason\":\"r\"}", "on: an organisation"},
    {"a place without a name", 1, 60, NULL, "", "{" WHO ",\"on\":\"/models\",\"reason\":\"r\"}", "on: an organisation"},
    {"no reason", 1, 60, NULL, "", "{" WHO ",\"on\":\"acme\",\"reason\":\"\"}", "reason: 1 to"},
    {"a role", 1, 60, NULL, "", "{" WHO ",\"on\":\"acme\",\"reason\":\"r\",\"role\":\"registry-admin\"}", "no member \"role\""},
    {"an end with a place", 2, 60, "x", "", "{" WHO ",\"on\":\"acme\",\"approved_by\":\"" APPROVER "\"}", "no member \"on\""},
    {"an end that a robot has approved", 2, 60, "x", "", "{" WHO ",\"approved_by\":\"robot:1\"}", "approved_by: ext:"},
    {"an end with an empty body", 2, 60, "x", "", "{}", "principal"},
};

static struct ecdsa_key *new_key(void)
{
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    must(ecdsa_key_new(&key, &err), &err);
    return key;
}

/* The body with the holder's key in the place of KEY. */
static json_t *body_of(const char *text, const struct ecdsa_key *key)
{
    json_t *body = json_loads(text, 0, NULL);
    char point_text[ECDSA_POINT_TEXT_SIZE];
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    assert_non_null(body);
    ecdsa_key_public(key, point);
    must(ecdsa_point_text(point, point_text, &err), &err);
    const char *named = json_text_of(body, "public_key");
    if (named != NULL && strcmp(named, "KEY") == 0)
        assert_int_equal(json_object_set_new(body, "public_key", json_string(point_text)), 0);
    return body;
}

/* Signed by each of these keys. */
static struct document *document_of(const struct document_parts *parts, const struct ecdsa_key *const *signers, size_t count)
{
    struct buffer OWNED_BUFFER payload = BUFFER(BREAK_GLASS_BYTES_MAX);
    struct buffer envelopes[DOCUMENT_SIGNATURES_MAX] = {BUFFER(16384), BUFFER(16384), BUFFER(16384), BUFFER(16384)};
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    struct document *document = NULL;
    struct error err = {0};

    must(document_compose(parts, &payload, &err), &err);
    for (size_t i = 0; i < count; i++) {
        must(document_sign(parts->kind, buffer_bytes(&payload), signers[i], &envelopes[i], &err), &err);
        views[i] = buffer_bytes(&envelopes[i]);
    }
    if (count == 0) must(document_read_payload(parts->kind, buffer_bytes(&payload), &document, &err), &err);
    else must(document_read(views, count, &document, &err), &err);
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) buffer_done(&envelopes[i]);
    return document;
}

static struct document_parts parts_of(const struct row *row, json_t *body)
{
    return (struct document_parts){.kind = DOCUMENT_BREAK_GLASS,
                                   .scope = row->scope,
                                   .name = "bg-1",
                                   .version = row->version,
                                   .effective_ms = NOW_MS,
                                   .expires_ms = NOW_MS + row->minutes * MINUTE_MS,
                                   .withdrawn = row->withdrawn,
                                   .body = body};
}

static void check_row(void **state)
{
    const struct row *row = *state;
    OWNED(ecdsa_key) *key = new_key();
    OWNED_JSON body = body_of(row->body, key);
    const struct document_parts parts = parts_of(row, body);
    OWNED(document) *document = document_of(&parts, NULL, 0);
    struct break_glass glass;
    struct error err = {0};

    assert_int_equal(break_glass_read(document, &glass, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    if (row->says != NULL) return;
    OWNED_JSON again = break_glass_body(&glass);
    assert_true(json_equal(again, body));
}

/* ---- whose signatures ---- */

enum signer { HOLDER_KEY, ROOT, ANN, BOB, HOLDERS_OWN_APPROVER, STRANGER, SIGNERS };

static const struct signing_row {
    const char *name;
    const struct row *row;
    size_t count;
    enum signer signers[3];
    int64_t later_ms; /* until keyd sees it */
    bool counts;
} signing_rows[] = {
    {"the holder and an approver", &rows[0], 2, {HOLDER_KEY, ANN}, 0, true},
    {"the other order", &rows[0], 2, {ANN, HOLDER_KEY}, 0, true},
    {"the holder alone", &rows[0], 1, {HOLDER_KEY}, 0, false},
    {"an approver alone", &rows[0], 1, {ANN}, 0, false},
    {"two approvers without the holder", &rows[0], 2, {ANN, BOB}, 0, false},
    {"the root is nobody", &rows[0], 2, {HOLDER_KEY, ROOT}, 0, false},
    {"the holder's second credential", &rows[0], 2, {HOLDER_KEY, HOLDERS_OWN_APPROVER}, 0, false},
    {"a stranger", &rows[0], 2, {HOLDER_KEY, STRANGER}, 0, false},
    {"one approver too many", &rows[0], 3, {HOLDER_KEY, ANN, BOB}, 0, false},
    {"a signature that tells of somebody else", &rows[0], 3, {HOLDER_KEY, STRANGER, ANN}, 0, false},
    {"after the hour", &rows[0], 2, {HOLDER_KEY, ANN}, 60 * MINUTE_MS, false},
    {"before it", &rows[0], 2, {HOLDER_KEY, ANN}, -2 * MINUTE_MS, false},
    {"the holder ends it", &rows[2], 1, {HOLDER_KEY}, 0, true},
    {"an approver ends it", &rows[2], 1, {BOB}, 0, true},
    {"the root ends it", &rows[2], 1, {ROOT}, 0, true},
    {"a stranger ends nothing", &rows[2], 1, {STRANGER}, 0, false},
};

static void approve(struct document_approver *approver, const struct ecdsa_key *key, const char *principal)
{
    ecdsa_key_public(key, approver->point);
    sha256_of(bytes_of_text(principal), approver->principal);
    approver->expires_ms = NOW_MS + 365 * 1440 * MINUTE_MS;
}

static void check_signing(void **state)
{
    const struct signing_row *row = *state;
    struct ecdsa_key *keys[SIGNERS];
    const struct ecdsa_key *signers[3] = {NULL};
    struct document_trust trust = {.now_ms = NOW_MS + row->later_ms};
    struct error err = {0};

    for (size_t i = 0; i < SIGNERS; i++) keys[i] = new_key();
    ecdsa_key_public(keys[ROOT], trust.root);
    approve(&trust.approvers[0], keys[ANN], "ext:ann");
    approve(&trust.approvers[1], keys[BOB], "ext:bob");
    approve(&trust.approvers[2], keys[HOLDERS_OWN_APPROVER], HOLDER);
    for (size_t i = 0; i < row->count; i++) signers[i] = keys[row->signers[i]];
    OWNED_JSON body = body_of(row->row->body, keys[HOLDER_KEY]);
    const struct document_parts parts = parts_of(row->row, body);
    OWNED(document) *document = document_of(&parts, signers, row->count);
    assert_int_equal(document_check(document, &trust, &err).ok, row->counts);
    if (!row->counts) assert_int_equal(err.kind, ERROR_DENIED);
    for (size_t i = 0; i < SIGNERS; i++) ecdsa_key_free(keys[i]);
}

/* ---- reviews ---- */

static const struct review_row {
    const char *name, *body, *says;
    uint64_t version;
} review_rows[] = {
    {"justified", "{\"finding\":\"justified\",\"note\":\"n\"}", NULL, 1},
    {"not justified", "{\"finding\":\"not-justified\",\"note\":\"n\"}", NULL, 1},
    {"something else", "{\"finding\":\"perhaps\",\"note\":\"n\"}", "finding: justified or", 1},
    {"no note", "{\"finding\":\"justified\",\"note\":\"\"}", "note: 1 to", 1},
    {"a second look", "{\"finding\":\"justified\",\"note\":\"n\"}", "reviewed once", 2},
};

static void check_review(void **state)
{
    const struct review_row *row = *state;
    OWNED(ecdsa_key) *ann = new_key();
    OWNED(ecdsa_key) *root = new_key();
    struct document_trust trust = {.now_ms = NOW_MS};
    OWNED_JSON body = json_loads(row->body, 0, NULL);
    struct document_parts parts = parts_of(&rows[0], body);
    struct error err = {0};

    parts.kind = DOCUMENT_BREAK_GLASS_REVIEW;
    parts.version = row->version;
    approve(&trust.approvers[0], ann, "ext:ann");
    ecdsa_key_public(root, trust.root);
    OWNED(document) *signed_one = document_of(&parts, (const struct ecdsa_key *const[]){ann}, 1);
    OWNED(document) *of_root = document_of(&parts, (const struct ecdsa_key *const[]){root}, 1);
    assert_int_equal(document_check(signed_one, &trust, &err).ok, row->says == NULL);
    if (row->says != NULL && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_false(document_check(of_root, &trust, &err).ok);
}

int main(void)
{
    return RUN_TABLE(rows, check_row) + RUN_TABLE(signing_rows, check_signing) + RUN_TABLE(review_rows, check_review);
}

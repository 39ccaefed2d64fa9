/* Whole bundles: a certificate of erasure, its two entries of the log with their proofs, and the document; and each way in which one is invalid. */
#include "tests/support/made_proof.h"

#include "audit/format/erased.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"

#define PSEUDONYM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER     "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DOCUMENT  "{\"kind\":\"erasure\",\"name\":\"" PSEUDONYM "\"}"

/* The differences from an honest bundle; NULL and 0: none. */
static const struct twist {
    const char *name;
    const char *asked_action, *asked_outcome, *done_action, *done_outcome, *done_resource; /* of the entries */
    const char *document, *named;                                                          /* in the bundle; named by the entry */
    const char *origin, *type, *pseudonym;                                                 /* of the certificate */
    uint64_t asked, done;
    uint8_t hash_bit;
    unsigned stage;
    bool is_another_signer;
    const char *without; /* a member of the bundle */
    enum error_kind kind;
    const char *says;
} twists[] = {
    {"an honest one", .says = "Stage 1 of 2"},
    {"of the second stage", .stage = 2, .says = "Stage 2 of 2"},
    {"asked by another event", .asked_action = "erasure.ask", .kind = ERROR_DENIED, .says = "is no event audit.erase, allowed"},
    {"that was denied", .asked_outcome = "denied", .kind = ERROR_DENIED, .says = "is no event audit.erase, allowed"},
    {"done by another event", .done_action = "key.forgotten", .kind = ERROR_DENIED,
     .says = "is no event subject.erase, completed"},
    {"that has only begun", .done_outcome = "allowed", .kind = ERROR_DENIED, .says = "is no event subject.erase, completed"},
    {"of another person", .done_resource = "#" OTHER, .kind = ERROR_DENIED, .says = "of another person"},
    {"with another document", .document = "{\"kind\":\"erasure\"}", .named = DOCUMENT, .kind = ERROR_DENIED,
     .says = "names another document"},
    {"with a document about another person", .document = "{\"kind\":\"erasure\",\"name\":\"" OTHER "\"}", .kind = ERROR_DENIED,
     .says = "does not ask for the erasure"},
    {"with a document of another kind", .document = "{\"kind\":\"legal-hold\",\"name\":\"" PSEUDONYM "\"}", .kind = ERROR_DENIED,
     .says = "does not ask for the erasure"},
    {"of another log", .origin = "other.example/audit", .kind = ERROR_DENIED, .says = "about other entries"},
    {"of another first number", .asked = 2, .kind = ERROR_DENIED, .says = "about other entries"},
    {"of another last number", .done = 2, .kind = ERROR_DENIED, .says = "about other entries"},
    {"of another hash", .hash_bit = 1, .kind = ERROR_DENIED, .says = "about other entries"},
    {"of another type", .type = "application/json", .kind = ERROR_DENIED, .says = "no certificate of erasure"},
    {"signed by another", .is_another_signer = true, .kind = ERROR_DENIED, .says = ""},
    {"of another pseudonym", .pseudonym = OTHER, .kind = ERROR_DENIED, .says = "does not ask for the erasure"},
    {"without a document", .without = "document", .kind = ERROR_INVALID, .says = "has no document"},
    {"without the first entry", .without = "asked", .kind = ERROR_INVALID, .says = "lacks an entry"},
    {"without the last proof", .without = "erased_proof", .kind = ERROR_INVALID, .says = "lacks an entry"},
    {"without a certificate", .without = "certificate", .kind = ERROR_INVALID, .says = "has no certificate"},
};

struct whole {
    struct made asked, done; /* of one key; each is entry 1 of its log */
    struct ecdsa_key *signer;
    struct buffer bundle;
};

static const char *or_else(const char *value, const char *otherwise)
{
    return value == NULL ? otherwise : value;
}

static void write_entry(const char *action, const char *outcome, const char *resource, struct made *made)
{
    struct leaf leaf = {
        .version = LEAF_VERSION, .sequence = 1, .actor = "system", .target_count = 1, .source = {.instance = "gw1"}};
    struct error err = {0};

    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", outcome);
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", action);
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s", resource);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    must(leaf_write(&leaf, &made->entry, &err), &err);
}

static void write_entries(const struct twist *twist, struct whole *whole)
{
    const char *named = or_else(twist->named, or_else(twist->document, DOCUMENT));
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1], resource[256];

    sha256_of(bytes_of_text(named), digest);
    text_hex(digest, sizeof digest, hex);
    (void)snprintf(resource, sizeof resource, "#sha256:%s 1 sha256:%s", hex, hex);
    write_entry(or_else(twist->asked_action, ERASED_ASKED), or_else(twist->asked_outcome, "allowed"), resource, &whole->asked);
    write_entry(or_else(twist->done_action, ERASED_DONE), or_else(twist->done_outcome, "completed"),
                or_else(twist->done_resource, "#" PSEUDONYM), &whole->done);
}

static void hash_of(const struct made *made, uint8_t hash_out[32])
{
    struct merkle_hash hash;

    merkle_leaf_hash(buffer_bytes(&made->entry), &hash);
    memcpy(hash_out, hash.bytes, sizeof hash.bytes);
}

static void write_certificate(const struct twist *twist, const struct whole *whole, struct buffer *envelope)
{
    struct buffer OWNED_BUFFER payload = BUFFER(ERASED_PAYLOAD_MAX);
    struct erased erased = {.asked = twist->asked == 0 ? 1 : twist->asked,
                            .done = twist->done == 0 ? 1 : twist->done,
                            .payloads = 31,
                            .key_version = 1,
                            .erased_ms = 1700000000000,
                            .issued_ms = 1700000001000,
                            .stage = twist->stage == 0 ? 1 : twist->stage};
    OWNED(ecdsa_key) *other = NULL;
    struct error err = {0};

    (void)snprintf(erased.origin, sizeof erased.origin, "%s", or_else(twist->origin, MADE_ORIGIN));
    (void)snprintf(erased.pseudonym, sizeof erased.pseudonym, "%s", or_else(twist->pseudonym, PSEUDONYM));
    hash_of(&whole->asked, erased.asked_hash);
    hash_of(&whole->done, erased.done_hash);
    erased.done_hash[7] ^= twist->hash_bit;
    must(ecdsa_key_new(&other, &err), &err);
    const struct ecdsa_key *signer = twist->is_another_signer ? other : whole->signer;
    must(erased_write(&erased, &payload, &err), &err);
    must(dsse_write(or_else(twist->type, ERASED_TYPE), buffer_bytes(&payload), &signer, 1, envelope, &err), &err);
}

static void make(const struct twist *twist, struct whole *whole)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(ERASED_ENVELOPE_MAX);
    struct error err = {0};

    *whole = (struct whole){.bundle = BUFFER(ERASED_BUNDLE_MAX)};
    must(ecdsa_key_new(&whole->signer, &err), &err);
    made_begin(&whole->asked, NOTE_ED25519);
    made_begin(&whole->done, NOTE_ED25519);
    memcpy(whole->done.seed->bytes, whole->asked.seed->bytes, whole->asked.seed->length);
    whole->done.key = whole->asked.key;
    write_entries(twist, whole);
    made_prove(&whole->asked, MADE_ORIGIN, false);
    made_prove(&whole->done, MADE_ORIGIN, false);
    write_certificate(twist, whole, &envelope);
    OWNED_JSON bundle = json_pack("{s:o, s:s, s:s, s:s, s:s, s:s}", "certificate", json_loads(buffer_text(&envelope), 0, NULL),
                                  "document", or_else(twist->document, DOCUMENT), "asked", buffer_text(&whole->asked.entry),
                                  "asked_proof", buffer_text(&whole->asked.proof), "erased", buffer_text(&whole->done.entry),
                                  "erased_proof", buffer_text(&whole->done.proof));
    assert_non_null(bundle);
    if (twist->without != NULL) assert_int_equal(json_object_del(bundle, twist->without), 0);
    must(json_write_canonical(&whole->bundle, bundle, &err), &err);
}

static void release(struct whole *whole)
{
    made_release(&whole->asked);
    made_release(&whole->done);
    ecdsa_key_free(whole->signer);
    buffer_done(&whole->bundle);
}
#define OWNED_WHOLE __attribute__((cleanup(release))) struct whole

static void bundles_hold_or_say_why_not(void **state)
{
    const struct twist *twist = *state;
    OWNED_WHOLE whole = {.signer = NULL};
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct buffer OWNED_BUFFER json = BUFFER(8192);
    struct erased_report report = {.erased = {.asked = 99}};
    struct error err = {0};

    make(twist, &whole);
    assert_true(erased_is_bundle(buffer_bytes(&whole.bundle)));
    const struct proof_trust trust = {.vkey = buffer_bytes(&whole.asked.vkey)};
    const bool ok = erased_check(&trust, whole.signer, buffer_bytes(&whole.bundle), &report, &err).ok;
    if ((ok ? ERROR_NONE : err.kind) != twist->kind) fail_msg("%s: %s", error_kind_name(err.kind), err.message);
    if (!ok) {
        if (strstr(err.message, twist->says) == NULL) fail_msg("%s", err.message);
        assert_true(report.erased.asked == 99);
        return;
    }
    must(erased_report_text(&report, &text, &err), &err);
    if (strstr(buffer_text(&text), twist->says) == NULL) fail_msg("%s", buffer_text(&text));
    must(erased_report_json(&report, &json, &err), &err);
    assert_non_null(strstr(buffer_text(&json), "{\"verified\":true,\"certificate\":{"));
}

static void another_certificate_is_no_bundle_of_this_kind(void **state)
{
    (void)state;
    assert_false(erased_is_bundle(bytes_of_text("{\"certificate\":{},\"entry\":\"{}\",\"proof\":\"\"}")));
    assert_false(erased_is_bundle(bytes_of_text("no JSON")));
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(another_certificate_is_no_bundle_of_this_kind)};

    return RUN_TABLE(twists, bundles_hold_or_say_why_not) + cmocka_run_group_tests(others, NULL, NULL);
}

/* Whole bundles: a certificate of deletion, its entry of the log and the proof of that; and each way in which one is invalid. */
#include "tests/support/made_proof.h"

#include <inttypes.h>

#include "audit/format/deletion.h"
#include "base/json.h"
#include "crypto/dsse.h"

#define NAME   "acme/models"
#define REGION "azure/uaenorth"
#define DIGEST "sha256:0000000000000000000000000000000000000000000000000000000000000007"
#define WHAT   NAME "#" DIGEST

/* The differences from an honest bundle. */
struct twist {
    const char *name;
    /* of the entry */
    const char *action, *resource, *region;
    size_t more_targets;
    bool is_text;
    /* of the certificate */
    const char *origin, *type, *keyd; /* keyd: NULL for the one that signs */
    uint64_t sequence;
    uint8_t hash_bit;
    unsigned stage;
    int64_t destroyed_ms;
    bool is_stored_again, is_another_signer;
    /* of the bundle: its members, in their order */
    const char *form;
    enum error_kind kind; /* ERROR_NONE: it is valid */
    const char *says;     /* in the report, or in the error */
};

#define HONEST                                                                                                                  \
    .action = DELETION_ACTION, .resource = WHAT, .region = REGION, .origin = MADE_ORIGIN, .type = DELETION_TYPE, .sequence = 1, \
    .stage = 1, .form = "epc"

/* The certificate must not say anything that differs from the log's entry. */
#define ENTRY(a, r, g)                                                                                                \
    .action = a, .resource = r, .region = g, .origin = MADE_ORIGIN, .type = DELETION_TYPE, .sequence = 1, .stage = 1, \
    .form = "epc", .kind = ERROR_DENIED, .says = "does not say that the key of this content was forgotten"

static const struct twist twists[] = {
    {"an honest one", HONEST, .says = "Stage 1 of 2: the wrapped key is forgotten; version 3 of"},
    {"of the second stage", .action = DELETION_ACTION, .resource = WHAT, .region = REGION, .origin = MADE_ORIGIN,
     .type = DELETION_TYPE, .sequence = 1, .stage = 2, .form = "epc", .says = "(3 and older).\n"},
    {"with its destruction", .action = DELETION_ACTION, .resource = WHAT, .region = REGION, .origin = MADE_ORIGIN,
     .type = DELETION_TYPE, .sequence = 1, .stage = 2, .destroyed_ms = 1700000002000, .form = "epc",
     .says = "The last was destroyed at 2023-11-14T22:13:22"},
    {"of what is stored again", HONEST, .is_stored_again = true, .says = "was pushed again since"},
    {"of a key that another sijil-keyd held", HONEST, .keyd = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
     .says = "own sijil-keyd alone, AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8."},
    {"about another action", ENTRY("blob.deleted", WHAT, REGION)},
    {"about another project", ENTRY(DELETION_ACTION, "acme/other#" DIGEST, REGION)},
    {"about a project with a longer name", ENTRY(DELETION_ACTION, NAME "-2#" DIGEST, REGION)},
    {"about another content", ENTRY(DELETION_ACTION, NAME "#sha256:01", REGION)},
    {"about another region", ENTRY(DELETION_ACTION, WHAT, "azure/uaecentral")},
    {"about an event of two", HONEST, .more_targets = 1, .kind = ERROR_DENIED, .says = "does not say that the key"},
    {"about what is no event", HONEST, .is_text = true, .kind = ERROR_DENIED, .says = "does not say that the key"},
    {"of another log", .action = DELETION_ACTION, .resource = WHAT, .region = REGION, .origin = "other.example/audit",
     .type = DELETION_TYPE, .sequence = 1, .stage = 1, .form = "epc", .kind = ERROR_DENIED, .says = "about another entry"},
    {"of another number", .action = DELETION_ACTION, .resource = WHAT, .region = REGION, .origin = MADE_ORIGIN,
     .type = DELETION_TYPE, .sequence = 2, .stage = 1, .form = "epc", .kind = ERROR_DENIED, .says = "about another entry"},
    {"of another entry's hash", HONEST, .hash_bit = 1, .kind = ERROR_DENIED, .says = "about another entry"},
    {"signed by another", HONEST, .is_another_signer = true, .kind = ERROR_DENIED, .says = ""},
    {"of another type", .action = DELETION_ACTION, .resource = WHAT, .region = REGION, .origin = MADE_ORIGIN,
     .type = "application/json", .sequence = 1, .stage = 1, .form = "epc", .kind = ERROR_DENIED,
     .says = "is no certificate of deletion"},
#define FORM(f)                                                                                                                 \
    .action = DELETION_ACTION, .resource = WHAT, .region = REGION, .origin = MADE_ORIGIN, .type = DELETION_TYPE, .sequence = 1, \
    .stage = 1, .form = f, .kind = ERROR_INVALID
    {"without an entry", FORM("pc"), .says = "no entry and proof"},
    {"without a proof", FORM("ec"), .says = "no entry and proof"},
    {"without a certificate", FORM("ep"), .says = "has no certificate"},
    {"with a certificate that is a text", FORM("ept"), .says = "has no certificate"},
    {"with a certificate that is no envelope", FORM("epo"), .says = ""},
};

struct whole {
    struct made log;
    struct ecdsa_key *signer;
    struct buffer bundle;
};

static void write_entry(const struct twist *twist, struct made *made)
{
    struct leaf leaf = {.version = LEAF_VERSION,
                        .sequence = 1,
                        .outcome = "completed",
                        .actor = "system",
                        .target_count = 1 + twist->more_targets,
                        .source = {.instance = "gw1"}};
    struct error err = {0};

    for (size_t i = 0; i < leaf.target_count; i++) {
        struct leaf_target *target = &leaf.targets[i];
        (void)snprintf(target->action, sizeof target->action, "%s", twist->action);
        (void)snprintf(target->resource, sizeof target->resource, "%s", twist->resource);
        (void)snprintf(target->region, sizeof target->region, "%s", twist->region);
    }
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (twist->is_text) assert_true(buffer_add_text(&made->entry, "not an event", &err).ok);
    else assert_true(leaf_write(&leaf, &made->entry, &err).ok);
}

static void write_certificate(const struct twist *twist, const struct whole *whole, struct buffer *envelope)
{
    struct buffer OWNED_BUFFER payload = BUFFER(DELETION_PAYLOAD_MAX);
    struct deletion deletion = {.sequence = twist->sequence,
                                .name = NAME,
                                .region = REGION,
                                .digest = DIGEST,
                                .size_bytes = 12345,
                                .forgotten_ms = 1700000000000,
                                .issued_ms = 1700000001000,
                                .key_version = 3,
                                .stage = twist->stage,
                                .destroyed_ms = twist->destroyed_ms,
                                .is_stored_again = twist->is_stored_again};
    struct merkle_hash hash;
    OWNED(ecdsa_key) *other = NULL;
    struct error err = {0};

    (void)snprintf(deletion.origin, sizeof deletion.origin, "%s", twist->origin);
    if (twist->keyd != NULL) (void)snprintf(deletion.keyd, sizeof deletion.keyd, "%s", twist->keyd);
    merkle_leaf_hash(buffer_bytes(&whole->log.entry), &hash);
    memcpy(deletion.leaf_hash, hash.bytes, sizeof deletion.leaf_hash);
    deletion.leaf_hash[7] ^= twist->hash_bit;
    assert_true(ecdsa_key_new(&other, &err).ok);
    const struct ecdsa_key *signer = twist->is_another_signer ? other : whole->signer;
    assert_true(deletion_write(&deletion, &payload, &err).ok);
    assert_true(dsse_write(twist->type, buffer_bytes(&payload), &signer, 1, envelope, &err).ok);
}

static void make(const struct twist *twist, struct whole *whole)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DELETION_ENVELOPE_MAX);
    struct error err = {0};

    *whole = (struct whole){.bundle = BUFFER(DELETION_BUNDLE_MAX)};
    assert_true(ecdsa_key_new(&whole->signer, &err).ok);
    made_begin(&whole->log, NOTE_ED25519);
    write_entry(twist, &whole->log);
    made_prove(&whole->log, MADE_ORIGIN, false);
    write_certificate(twist, whole, &envelope);
    json_t *bundle = json_object();
    for (const char *part = twist->form; *part != '\0'; part++) {
        if (*part == 'e') assert_int_equal(json_object_set_new(bundle, "entry", json_string(buffer_text(&whole->log.entry))), 0);
        if (*part == 'p') assert_int_equal(json_object_set_new(bundle, "proof", json_string(buffer_text(&whole->log.proof))), 0);
        if (*part == 't') assert_int_equal(json_object_set_new(bundle, "certificate", json_string("{}")), 0);
        if (*part == 'o') assert_int_equal(json_object_set_new(bundle, "certificate", json_object()), 0);
        if (*part == 'c')
            assert_int_equal(json_object_set_new(bundle, "certificate", json_loads(buffer_text(&envelope), 0, NULL)), 0);
    }
    assert_true(json_write_canonical(&whole->bundle, bundle, &err).ok);
    json_decref(bundle);
}

static void release(struct whole *whole)
{
    made_release(&whole->log);
    ecdsa_key_free(whole->signer);
    buffer_done(&whole->bundle);
}
#define OWNED_WHOLE __attribute__((cleanup(release))) struct whole

static struct result check(const struct whole *whole, struct deletion_report *report, struct error *err)
{
    const struct proof_trust trust = {.vkey = buffer_bytes(&whole->log.vkey)};

    return deletion_check(&trust, whole->signer, buffer_bytes(&whole->bundle), report, err);
}

static void bundles_hold_or_say_why_not(void **state)
{
    const struct twist *twist = *state;
    OWNED_WHOLE whole = {0};
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct buffer OWNED_BUFFER json = BUFFER(8192);
    struct deletion_report report = {.deletion = {.sequence = 99}};
    struct error err = {0};

    make(twist, &whole);
    const bool ok = check(&whole, &report, &err).ok;
    if ((ok ? ERROR_NONE : err.kind) != twist->kind) fail_msg("%s: %s", error_kind_name(err.kind), err.message);
    if (!ok) {
        if (strstr(err.message, twist->says) == NULL) fail_msg("%s", err.message);
        assert_true(report.deletion.sequence == 99);
        return;
    }
    assert_true(report.deletion.sequence == 1 && report.proof.index == 1);
    assert_true(deletion_report_text(&report, &text, &err).ok);
    if (strstr(buffer_text(&text), twist->says) == NULL) fail_msg("%s", buffer_text(&text));
    assert_int_equal(strstr(buffer_text(&text), "pushed again") != NULL, twist->is_stored_again);
    assert_true(deletion_report_json(&report, &json, &err).ok);
    assert_non_null(strstr(buffer_text(&json), "{\"verified\":true,\"certificate\":{"));
    assert_non_null(strstr(buffer_text(&json), twist->is_stored_again ? "\"stored_again\":true" : "\"stored_again\":false"));
}

/* A report needs its room: with less room, the function fails. */
static void reports_need_their_room(void **state)
{
    const struct twist *twist = *state;
    OWNED_WHOLE whole = {0};
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct buffer OWNED_BUFFER json = BUFFER(8192);
    struct deletion_report report;
    struct error err = {0};

    if (twist->kind != ERROR_NONE) return;
    make(twist, &whole);
    assert_true(check(&whole, &report, &err).ok);
    assert_true(deletion_report_text(&report, &text, &err).ok && deletion_report_json(&report, &json, &err).ok);
    for (size_t room = 1; room < text.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(deletion_report_text(&report, &narrow, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
    }
    for (size_t room = 1; room < json.length; room++) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(deletion_report_json(&report, &narrow, &err).ok);
    }
}

/* Each byte of the file counts except the name of the key, a hint of DSSE that is never trusted. */
static void no_bit_may_be_flipped(void **state)
{
    OWNED_WHOLE whole = {0};
    struct deletion_report report;
    struct error err = {0};

    (void)state;
    make(&twists[0], &whole);
    assert_true(check(&whole, &report, &err).ok);
    const char *text = buffer_text(&whole.bundle), *hint = strstr(text, "\"keyid\""), *sig = strstr(text, ",\"sig\"");
    assert_true(hint != NULL && sig != NULL && hint < sig);
    for (size_t i = 0; i < whole.bundle.length; i += 3) {
        if (text + i > hint && text + i < sig) continue;
        whole.bundle.data[i] ^= 1;
        if (check(&whole, &report, &err).ok) fail_msg("%s", text + i);
        whole.bundle.data[i] ^= 1;
    }
    assert_true(check(&whole, &report, &err).ok);
}

static struct result check_and_report(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(8192);
    struct deletion_report report;

    TRY_UNTOUCHED_BYTES(report, check(context, &report, err));
    return deletion_report_text(&report, &text, err);
}

static void checking_survives_lack_of_memory(void **state)
{
    OWNED_WHOLE whole = {0};

    (void)state;
    make(&twists[0], &whole);
    fail_each(check_and_report, &whole, ERROR_NO_MEMORY, 8);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(no_bit_may_be_flipped),
        cmocka_unit_test(checking_survives_lack_of_memory),
    };

    return RUN_TABLE(twists, bundles_hold_or_say_why_not) + RUN_TABLE(twists, reports_need_their_room) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}

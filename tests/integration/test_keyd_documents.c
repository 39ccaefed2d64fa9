/* Documents of persons' keys that the real sijil-keyd pins, and those that it refuses. */
#include "tests/integration/keyd_log_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit/format/leaf.h"
#include "base/json.h"
#include "documents/format/break_glass.h"
#include "documents/format/officers.h"
#include "documents/format/signing_key.h"

/* An enrolment or a withdrawal, signed by these keys, with this event. */
struct enrolment {
    const struct ecdsa_key *key, *signers[2];
    enum signing_purpose purpose;
    const char *principal, *withdrawn, *action, *scope;
};

static void compose_enrolment(const struct enrolment *enrolment, struct buffer *payload)
{
    struct signing_key key = {.purpose = enrolment->purpose};
    const int64_t now_ms = (int64_t)time(NULL) * 1000;
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(enrolment->key, key.point);
    (void)snprintf(key.principal, sizeof key.principal, "%s", enrolment->principal);
    signing_key_name(&key, name);
    OWNED_JSON body = signing_key_body(&key);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = enrolment->scope,
                                         .name = name,
                                         .body = body,
                                         .version = enrolment->withdrawn == NULL ? 1 : 2,
                                         .withdrawn = enrolment->withdrawn,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + 86400000};
    if (!document_compose(&parts, payload, &err).ok) fail_msg("%s", err.message);
}

static uint64_t add_event(const struct document *document, const char *action, struct buffer *leaf_text)
{
    static struct leaf leaf;
    char detail[DOCUMENT_DETAIL_SIZE];
    struct error err = {0};

    leaf = (struct leaf){.version = 1,
                         .sequence = the_log.size,
                         .time_ms = 1,
                         .source = {"gw1", 1, the_log.size + 1},
                         .class_uid = 600301,
                         .actor = "system",
                         .target_count = 1,
                         .outcome = "allowed"};
    document_detail(document, detail);
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", action);
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s#%s", document->scope, detail);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (!leaf_write(&leaf, leaf_text, &err).ok) fail_msg("%s", err.message);
    return add_entry(buffer_bytes(leaf_text), true);
}

/* A signed document, and its event in the log. */
struct recorded {
    struct buffer envelopes[2], leaf;
    size_t count; /* of envelopes */
    uint64_t sequence;
};

static void recorded_done(struct recorded *recorded)
{
    buffer_done(&recorded->envelopes[0]);
    buffer_done(&recorded->envelopes[1]);
    buffer_done(&recorded->leaf);
}
#define OWNED_RECORDED __attribute__((cleanup(recorded_done))) struct recorded

static void record_payload(enum document_kind kind, const struct buffer *payload, const struct ecdsa_key *const signers[2],
                           const char *action, struct recorded *recorded_out)
{
    OWNED(document) *document = NULL;
    struct bytes views[2];
    struct error err = {0};

    *recorded_out = (struct recorded){.envelopes = {BUFFER(16384), BUFFER(16384)}, .leaf = BUFFER(LEAF_MAX)};
    for (size_t i = 0; i < 2 && signers[i] != NULL; i++) {
        struct buffer *envelope = &recorded_out->envelopes[i];
        assert_true(document_sign(kind, buffer_bytes(payload), signers[i], envelope, &err).ok);
        views[recorded_out->count++] = buffer_bytes(envelope);
    }
    if (!document_read(views, recorded_out->count, &document, &err).ok) fail_msg("%s", err.message);
    recorded_out->sequence = add_event(document, action, &recorded_out->leaf);
}

/* keyd is not asked yet. */
static void record(const struct enrolment *enrolment, struct recorded *recorded_out)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);

    compose_enrolment(enrolment, &payload);
    record_payload(DOCUMENT_SIGNING_KEY, &payload, enrolment->signers, enrolment->action, recorded_out);
}

static struct document_pin_request prove_recorded(const struct recorded *recorded)
{
    struct document_pin_request request =
        prove(buffer_bytes(&recorded->envelopes[0]), buffer_bytes(&recorded->leaf), recorded->sequence);

    request.envelope_count = recorded->count;
    request.envelopes[1] = buffer_bytes(&recorded->envelopes[1]);
    return request;
}

static enum error_kind ask_for(const struct recorded *recorded)
{
    const struct document_pin_request request = prove_recorded(recorded);
    struct document_pin pinned;
    struct error err = {0};

    if (!keyd_pin_document(client, &request, &pinned, &err).ok) return err.kind;
    assert_int_equal(pinned.epoch, recorded->sequence);
    return ERROR_NONE;
}

static enum error_kind enrol(const struct enrolment *enrolment)
{
    OWNED_RECORDED recorded;

    record(enrolment, &recorded);
    return ask_for(&recorded);
}

static struct keyd_documents ask_documents(void)
{
    struct keyd_documents documents;
    struct error err = {0};

    if (!keyd_ask_documents(client, &documents, &err).ok) fail_msg("%s", err.message);
    return documents;
}

static void withdraw_keys_that_nobody_enrolled(struct ecdsa_key *officer)
{
    OWNED(ecdsa_key) *stranger = NULL;
    OWNED(ecdsa_key) *unseen = NULL;
    struct error err = {0};

    assert_true(ecdsa_key_new(&stranger, &err).ok && ecdsa_key_new(&unseen, &err).ok);
    const struct enrolment unknown_out = {stranger, {stranger, NULL}, SIGNING_SIGN, "robot:4", "lost", "key.revoke", ""};
    const struct enrolment unknown_in = {stranger, {stranger, officer}, SIGNING_SIGN, "robot:4", NULL, "key.approve", ""};
    const struct enrolment unwanted = {unseen, {officer, NULL}, SIGNING_SIGN, "robot:5", "stolen", "key.revoke", ""};
    const struct enrolment unwanted_in = {unseen, {unseen, officer}, SIGNING_SIGN, "robot:5", NULL, "key.approve", ""};

    assert_int_equal(enrol(&unknown_out), ERROR_DENIED); /* it would take a place for ever, and anybody could sign it */
    assert_int_equal(enrol(&unknown_in), ERROR_NONE);
    assert_int_equal(enrol(&unwanted), ERROR_NONE); /* an approver may: such a key never comes into force */
    assert_int_equal(enrol(&unwanted_in), ERROR_DENIED);
}

/* keyd itself counts the signatures, without trust in gateway and database, and keeps the result over a kill. */
static void keyd_counts_signatures(void **state)
{
    OWNED(ecdsa_key) *root = approve();
    OWNED(ecdsa_key) *officer = NULL;
    OWNED(ecdsa_key) *holder = NULL;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&officer, &err).ok && ecdsa_key_new(&holder, &err).ok);
    const struct enrolment by_officer = {holder, {holder, officer}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    const struct enrolment alone = {holder, {holder, NULL}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    const struct enrolment unheld = {holder, {root, officer}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    const struct enrolment of_officer = {officer, {officer, root}, SIGNING_APPROVE, "robot:2", NULL, "key.approve", ""};
    const struct enrolment own = {holder, {holder, officer}, SIGNING_SIGN, "robot:2", NULL, "key.approve", "acme"};
    const struct enrolment told_otherwise = {holder, {holder, officer}, SIGNING_SIGN, "robot:1", NULL, "key.revoke", "acme"};
    const struct enrolment officer_out = {officer, {root, NULL}, SIGNING_APPROVE, "robot:2", "left", "key.revoke", ""};
    const struct enrolment out_as_signer = {officer, {officer, NULL}, SIGNING_SIGN, "robot:2", "left", "key.revoke", ""};
    const struct enrolment other_owner = {holder, {holder, officer}, SIGNING_SIGN, "robot:3", NULL, "key.approve", "globex"};
    const struct enrolment other_scope = {holder, {holder, officer}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "globex"};
    const struct enrolment lost = {holder, {holder, NULL}, SIGNING_SIGN, "robot:1", "lost", "key.revoke", "globex"};

    assert_int_equal(enrol(&by_officer), ERROR_DENIED); /* nobody has enrolled the officer yet */
    assert_int_equal(enrol(&alone), ERROR_DENIED);
    assert_int_equal(enrol(&of_officer), ERROR_NONE);
    assert_int_equal(enrol(&unheld), ERROR_DENIED);
    assert_int_equal(enrol(&own), ERROR_DENIED);
    assert_int_equal(enrol(&told_otherwise), ERROR_NOT_FOUND);
    assert_int_equal(enrol(&by_officer), ERROR_NONE);
    const struct document_pin before = ask_documents().pins[1];
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_memory_equal(ask_documents().pins[1].digest, before.digest, sizeof before.digest);
    assert_int_equal(enrol(&other_owner), ERROR_DENIED); /* the first owner keeps the key, over a kill */
    assert_int_equal(enrol(&other_scope), ERROR_NONE);
    withdraw_keys_that_nobody_enrolled(officer);
    assert_int_equal(enrol(&lost), ERROR_NONE);
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(enrol(&by_officer), ERROR_DENIED);     /* withdrawn in another scope */
    assert_int_equal(enrol(&out_as_signer), ERROR_INVALID); /* it would leave the officer an approver */
    assert_int_equal(enrol(&officer_out), ERROR_NONE);
    assert_int_equal(enrol(&by_officer), ERROR_DENIED); /* revoked */
    assert_int_equal(enrol(&of_officer), ERROR_DENIED); /* its old enrolment does not bring it back */
    assert_int_equal(identify().policy_epoch, 0);
}

/* Asks again for the same event, with a proof of the log as it is now. */
static enum error_kind ask_again(const struct recorded *recorded)
{
    const struct document_pin_request request = prove_recorded(recorded);
    struct document_pin pinned;
    struct error err = {0};

    const enum error_kind kind = keyd_pin_document(client, &request, &pinned, &err).ok ? ERROR_NONE : err.kind;
    if (kind != ERROR_NONE && strstr(err.message, "refused before") == NULL) fail_msg("%s", err.message);
    return kind;
}

/* The documents that keyd refused came into force when a gateway asked again, because the reason had passed meanwhile. */
static void what_was_refused_stays_refused(void **state)
{
    OWNED(ecdsa_key) *root = NULL;
    OWNED(ecdsa_key) *holder = NULL;
    OWNED_RECORDED recorded;
    uint8_t point[65];
    struct document_pin pinned;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&root, &err).ok && ecdsa_key_new(&holder, &err).ok);
    ecdsa_key_public(root, point);
    const struct enrolment early = {holder, {holder, root}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    (void)add_entry(bytes_of_text("the first entry of a log"), true);
    record(&early, &recorded);
    struct document_pin_request request = prove_recorded(&recorded);
    request.proof[0][0] ^= 1; /* without a proof nobody has asked for the event */
    assert_false(keyd_pin_document(client, &request, &pinned, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    request.proof[0][0] ^= 1;
    assert_false(keyd_pin_document(client, &request, &pinned, &err).ok); /* no root is pinned */
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_true(keyd_pin_approver(client, point, &err).ok); /* the reason has passed */
    assert_int_equal(ask_again(&recorded), ERROR_DENIED);
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(ask_again(&recorded), ERROR_DENIED);
    assert_int_equal(ask_documents().pins[1].epoch, 0);
    assert_int_equal(enrol(&early), ERROR_NONE); /* the same document, signed and recorded anew */
    assert_int_equal(ask_again(&recorded), ERROR_DENIED);
}

/* A gateway that asks for a later event first gives the earlier one no second chance. */
static void a_refused_event_ends_the_earlier_ones(void **state)
{
    OWNED(ecdsa_key) *root = approve();
    OWNED(ecdsa_key) *holder = NULL;
    OWNED_RECORDED recorded;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&holder, &err).ok);
    const struct enrolment good = {holder, {holder, root}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    const struct enrolment alone = {holder, {holder, NULL}, SIGNING_SIGN, "robot:1", NULL, "key.approve", "acme"};
    (void)add_entry(bytes_of_text("the first entry of a log"), true);
    record(&good, &recorded);
    assert_int_equal(enrol(&alone), ERROR_DENIED);
    assert_int_equal(ask_again(&recorded), ERROR_DENIED);
    assert_int_equal(enrol(&good), ERROR_NONE);
}

/* ---- broken glasses ---- */

#define HEX16 "0123456789abcdef"
#define ALICE "ext:" HEX16 HEX16 HEX16 HEX16
#define MARY  "ext:" HEX16 HEX16 HEX16 "0000000000000000"

struct glass {
    const char *name, *principal;
    const struct ecdsa_key *key, *signers[2];
    const char *withdrawn; /* NULL: version 1 */
};

static enum error_kind break_it(const struct glass *wanted)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct break_glass glass = {.principal = wanted->principal};
    const int64_t now_ms = (int64_t)time(NULL) * 1000;
    OWNED_RECORDED recorded;
    struct error err = {0};

    ecdsa_key_public(wanted->key, glass.point);
    if (wanted->withdrawn != NULL) glass.approved_by = MARY;
    else glass.on = glass.reason = "acme";
    OWNED_JSON body = break_glass_body(&glass);
    const struct document_parts parts = {.kind = DOCUMENT_BREAK_GLASS,
                                         .scope = "",
                                         .name = wanted->name,
                                         .body = body,
                                         .version = wanted->withdrawn == NULL ? 1 : 2,
                                         .withdrawn = wanted->withdrawn,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + 600000};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    record_payload(DOCUMENT_BREAK_GLASS, &payload, wanted->signers,
                   wanted->withdrawn == NULL ? "breakglass.approve" : "breakglass.end", &recorded);
    return ask_for(&recorded);
}

/* A gateway in an attacker's hands, and whoever writes into the database, have all but the private keys. */
static void keyd_knows_who_holds_a_broken_glass(void **state)
{
    OWNED(ecdsa_key) *root = approve();
    OWNED(ecdsa_key) *officer = NULL;
    OWNED(ecdsa_key) *holder = NULL;
    OWNED(ecdsa_key) *made_up = NULL;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&officer, &err).ok && ecdsa_key_new(&holder, &err).ok && ecdsa_key_new(&made_up, &err).ok);
    (void)add_entry(bytes_of_text("the first entry of a log"), true);
    const struct enrolment of_officer = {officer, {officer, root}, SIGNING_APPROVE, MARY, NULL, "key.approve", ""};
    const struct enrolment of_holder = {holder, {holder, officer}, SIGNING_SIGN, ALICE, NULL, "key.approve", "acme"};
    const struct enrolment lost = {holder, {officer, NULL}, SIGNING_SIGN, ALICE, "lost", "key.revoke", "acme"};
    const struct glass good = {"bg-1", ALICE, holder, {holder, officer}, NULL};
    const struct glass of_another = {"bg-2", MARY, holder, {holder, officer}, NULL};
    const struct glass of_nobody = {"bg-3", ALICE, made_up, {made_up, officer}, NULL};
    const struct glass of_officer_alone = {"bg-4", MARY, officer, {officer, NULL}, NULL};
    const struct glass by_root = {"bg-5", ALICE, holder, {holder, root}, NULL};
    const struct glass over = {"bg-1", ALICE, holder, {officer, NULL}, "over"};
    const struct glass later = {"bg-6", ALICE, holder, {holder, officer}, NULL};

    assert_int_equal(enrol(&of_officer), ERROR_NONE);
    assert_int_equal(break_it(&good), ERROR_DENIED); /* the key is not enrolled yet */
    assert_int_equal(enrol(&of_holder), ERROR_NONE);
    assert_int_equal(break_it(&of_another), ERROR_DENIED);
    assert_int_equal(break_it(&of_nobody), ERROR_DENIED);
    assert_int_equal(break_it(&of_officer_alone), ERROR_DENIED);
    assert_int_equal(break_it(&by_root), ERROR_DENIED);
    assert_int_equal(break_it(&good), ERROR_NONE);
    assert_int_equal(break_it(&over), ERROR_NONE);
    assert_int_equal(break_it(&good), ERROR_DENIED); /* what was ended does not come back */
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(break_it(&good), ERROR_DENIED);
    assert_int_equal(break_it(&later), ERROR_NONE);
    assert_int_equal(enrol(&lost), ERROR_NONE);
    const struct glass too_late = {"bg-7", ALICE, holder, {holder, officer}, NULL};
    assert_int_equal(break_it(&too_late), ERROR_DENIED); /* with a key that was withdrawn */
}

/* ---- officers ---- */

static const char *appointed = OFFICERS_ADMINISTRATORS ".a"; /* the name of the document */

struct appointment {
    const char *principal;
    const struct ecdsa_key *key, *signers[2];
    uint64_t version;
    const char *withdrawn; /* NULL: it makes an officer */
};

static enum error_kind appoint(const struct appointment *wanted)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    const int64_t now_ms = (int64_t)time(NULL) * 1000;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    OWNED_RECORDED recorded;
    struct error err = {0};

    ecdsa_key_public(wanted->key, point);
    ecdsa_thumbprint(point, thumbprint);
    const struct officer officer = {wanted->principal, thumbprint, OFFICERS_ADMINISTRATORS, "", 0};
    OWNED_JSON body = wanted->withdrawn == NULL ? officer_body(&officer) : json_object();
    const struct document_parts parts = {.kind = DOCUMENT_OFFICERS,
                                         .scope = "",
                                         .name = appointed,
                                         .body = body,
                                         .version = wanted->version,
                                         .withdrawn = wanted->withdrawn,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + 600000};
    if (!document_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    record_payload(DOCUMENT_OFFICERS, &payload, wanted->signers,
                   wanted->withdrawn == NULL ? "officers.approve" : "officers.revoke", &recorded);
    return ask_for(&recorded);
}

/* Whoever writes rows and events, and asks keyd, makes nobody an officer without the signatures, nor with a key of somebody else. */
static void keyd_knows_whose_key_an_officer_has(void **state)
{
    OWNED(ecdsa_key) *root = approve();
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(ecdsa_key) *own = NULL;
    OWNED(ecdsa_key) *made_up = NULL;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&approver, &err).ok && ecdsa_key_new(&own, &err).ok && ecdsa_key_new(&made_up, &err).ok);
    (void)add_entry(bytes_of_text("the first entry of a log"), true);
    const struct enrolment of_approver = {approver, {approver, root}, SIGNING_APPROVE, MARY, NULL, "key.approve", ""};
    const struct enrolment of_alice = {own, {own, approver}, SIGNING_SIGN, ALICE, NULL, "key.approve", ""};
    const struct enrolment lost = {own, {approver, NULL}, SIGNING_SIGN, ALICE, "lost", "key.revoke", ""};
    const struct appointment good = {ALICE, own, {root, NULL}, 1, NULL}, again = {ALICE, own, {root, NULL}, 3, NULL};
    const struct appointment of_another = {MARY, own, {root, NULL}, 1, NULL}, of_nobody = {ALICE, made_up, {root, NULL}, 1, NULL};
    const struct appointment by_itself = {ALICE, own, {own, NULL}, 1, NULL}, by_one = {ALICE, own, {approver, NULL}, 1, NULL};
    const struct appointment over = {ALICE, own, {approver, NULL}, 2, "over"};

    assert_int_equal(enrol(&of_approver), ERROR_NONE);
    assert_int_equal(appoint(&good), ERROR_DENIED); /* the key is not enrolled yet */
    assert_int_equal(enrol(&of_alice), ERROR_NONE);
    assert_int_equal(appoint(&of_another), ERROR_DENIED);
    assert_int_equal(appoint(&of_nobody), ERROR_DENIED);
    assert_int_equal(appoint(&by_itself), ERROR_DENIED);
    assert_int_equal(appoint(&by_one), ERROR_DENIED);
    assert_int_equal(appoint(&good), ERROR_NONE);
    assert_int_equal(appoint(&over), ERROR_DENIED); /* the last one stays */
    appointed = OFFICERS_ADMINISTRATORS ".b";
    assert_int_equal(appoint(&good), ERROR_NONE);
    appointed = OFFICERS_ADMINISTRATORS ".a";
    assert_int_equal(appoint(&over), ERROR_NONE);
    assert_int_equal(appoint(&good), ERROR_DENIED); /* what was withdrawn does not come back */
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(appoint(&good), ERROR_DENIED);
    assert_int_equal(appoint(&again), ERROR_NONE);
    assert_int_equal(enrol(&lost), ERROR_NONE);
    const struct appointment too_late = {ALICE, own, {root, NULL}, 4, NULL};
    assert_int_equal(appoint(&too_late), ERROR_DENIED); /* with a key that was withdrawn */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keyd_knows_whose_key_an_officer_has, begin, stop),
        cmocka_unit_test_setup_teardown(keyd_knows_who_holds_a_broken_glass, begin, stop),
        cmocka_unit_test_setup_teardown(keyd_counts_signatures, begin, stop),
        cmocka_unit_test_setup_teardown(what_was_refused_stays_refused, begin, stop),
        cmocka_unit_test_setup_teardown(a_refused_event_ends_the_earlier_ones, begin, stop),
    };

    return cmocka_run_group_tests_name("documents", tests, NULL, NULL);
}

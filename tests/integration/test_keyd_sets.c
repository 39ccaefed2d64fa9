/* How many persons must sign a policy set, by what it changes: the real sijil-keyd, asked by a gateway that somebody has taken over. */
#include "tests/integration/keyd_log_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "audit/format/deletion.h"
#include "base/clock.h"
#include "base/json.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "crypto/keyd_region.h"
#include "documents/format/set_approval.h"
#include "documents/format/signing_key.h"
#include "keyd/policy_ids.h"
#include "keyd/region_keyds.h"
#include "policy/set.h"

#define HOLDER  "ext:1111111111111111111111111111111111111111111111111111111111111111"
#define PERSON  "ext:%064u"
#define DAY_MS  INT64_C(86400000)
#define TERMS   "{\"holder\":\"" HOLDER "\",\"officers\":2,\"policies\":2,\"root\":3}"
#define REFUSED ERROR_DENIED

enum { ROOT, BOB, CAROL, DANA, BOB_AGAIN, STRANGER, KEYS };
#define BY(key) (1U << (key))
#define TWO     (BY(BOB) | BY(CAROL))
#define THREE   (BY(BOB) | BY(CAROL) | BY(DANA))

static struct ecdsa_key *keys[KEYS];
/* Envelopes of sets in the order in which they were pinned. */
static struct buffer past[16];
static size_t past_count;
static json_t *regions; /* of each set; NULL: none */

/* ---- the log ---- */

static uint64_t add_event(const struct document *document, struct buffer *leaf_text)
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
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", document_action(document));
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s#%s", document->scope, detail);
    leaf_fill_keys(&leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (!leaf_write(&leaf, leaf_text, &err).ok) fail_msg("%s", err.message);
    return add_entry(buffer_bytes(leaf_text), true);
}

/* ---- approvers ---- */

static void compose_key(const struct ecdsa_key *key, const struct ecdsa_key *before, unsigned person, struct buffer *payload)
{
    struct signing_key enrolled = {.purpose = SIGNING_APPROVE};
    const int64_t now_ms = clock_wall_ms();
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(key, enrolled.point);
    if (before != NULL) ecdsa_key_public(before, enrolled.replaces);
    (void)snprintf(enrolled.principal, sizeof enrolled.principal, PERSON, person);
    signing_key_name(&enrolled, name);
    OWNED_JSON body = signing_key_body(&enrolled);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = "",
                                         .name = name,
                                         .body = body,
                                         .version = 1,
                                         .effective_ms = now_ms - 1000,
                                         .expires_ms = now_ms + DAY_MS};
    must(document_compose(&parts, payload, &err), &err);
}

/* before: another key of the person, which signs, too; NULL: it has none. */
static void enrol(const struct ecdsa_key *key, const struct ecdsa_key *before, unsigned person)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192), own = BUFFER(16384), by_root = BUFFER(16384), by_old = BUFFER(16384),
                               leaf = BUFFER(LEAF_MAX);
    OWNED(document) *document = NULL;
    struct document_pin pinned;
    struct error err = {0};

    compose_key(key, before, person, &payload);
    must(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), key, &own, &err), &err);
    must(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), keys[ROOT], &by_root, &err), &err);
    if (before != NULL) must(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), before, &by_old, &err), &err);
    const struct bytes views[] = {buffer_bytes(&own), buffer_bytes(&by_root), buffer_bytes(&by_old)};
    const size_t count = before == NULL ? 2 : 3;
    must(document_read(views, count, &document, &err), &err);
    const uint64_t sequence = add_event(document, &leaf);
    struct document_pin_request request = prove(views[0], buffer_bytes(&leaf), sequence);
    request.envelope_count = count;
    memcpy(request.envelopes, views, sizeof views);
    must(keyd_pin_document(client, &request, &pinned, &err), &err);
}

/* ---- sets ---- */

#define POLICY(id, version, members, rules)                                                                                      \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"" id "\",\"version\":" version      \
    ",\"scope\":[\"**\"],\"effective_from\":\"2026-01-01T00:00:00Z\",\"review_by\":\"2027-01-01\"}," members "\"rules\":[" rules \
    "]}"
#define PERMIT(most) \
    "{\"id\":\"P-1\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\"],\"when\":{\"class_at_most\":\"" most "\"}}"
#define AE     "{\"id\":\"R-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"AE\"]}}"
#define LABELS "\"labels\":{\"class\":\"confidential\"},"
#define FREE   "\"closed\":false," /* it only adds restrictions */
#define NARROW POLICY("one", "1", "", PERMIT("confidential"))
#define WIDE   POLICY("one", "2", "", PERMIT("sensitive"))
#define ADDED  POLICY("two", "1", FREE, AE)

static json_t *parsed(const char *text)
{
    json_t *json = NULL;
    struct error err = {0};

    must(json_read(bytes_of_text(text), POLICY_SET_BYTES_MAX, &json, &err), &err);
    return json;
}

/* policies: a list. root: the member, or NULL. It replaces the set that is pinned. */
static void compose_set(const char *policies, const char *root, struct buffer *payload)
{
    const struct keyd_identity identity = identify();
    struct set_approval approval = {.base.epoch = identity.policy_epoch, .expires_ms = clock_wall_ms() + 3600000};
    OWNED_JSON list = parsed(policies);
    OWNED_JSON terms = root == NULL ? NULL : parsed(root);
    struct error err = {0};

    memcpy(approval.base.digest, identity.policy_digest, sizeof approval.base.digest);
    OWNED_JSON member = set_approval_json(&approval);
    const struct policy_set_parts parts = {
        .epoch = identity.policy_epoch + 1, .policies = list, .regions = regions, .root = terms, .approval = member};
    must(policy_set_compose(&parts, payload, &err), &err);
}

static void sign_set(const struct buffer *payload, unsigned signers, struct buffer *envelope)
{
    const struct ecdsa_key *by[KEYS];
    struct error err = {0};
    size_t count = 0;

    for (size_t i = 0; i < KEYS; i++)
        if ((signers & BY(i)) != 0) by[count++] = keys[i];
    must(dsse_write(POLICY_SET_TYPE, buffer_bytes(payload), by, count, envelope, &err), &err);
}

/* base: shown as the set before; empty: by the message that has none. */
static enum error_kind pin_envelope(struct bytes envelope, struct bytes base)
{
    struct buffer OWNED_BUFFER leaf = BUFFER(LEAF_MAX);
    OWNED(document) *document = NULL;
    struct document_pin pinned;
    struct error err = {0};

    must(document_read(&envelope, 1, &document, &err), &err);
    const uint64_t sequence = add_event(document, &leaf);
    struct document_pin_request request = prove(envelope, buffer_bytes(&leaf), sequence);
    request.base = base;
    const struct result asked = keyd_pin_set(client, &request, &pinned, &err);
    return asked.ok ? ERROR_NONE : err.kind;
}

static struct bytes newest(void)
{
    return past_count == 0 ? (struct bytes){NULL, 0} : buffer_bytes(&past[past_count - 1]);
}

static enum error_kind bring(const char *policies, const char *root, unsigned signers)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer *envelope = &past[past_count];

    assert_true(past_count < COUNT(past));
    *envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    compose_set(policies, root, &payload);
    sign_set(&payload, signers, envelope);
    const enum error_kind kind = pin_envelope(buffer_bytes(envelope), newest());
    if (kind == ERROR_NONE) past_count++;
    else buffer_done(envelope);
    return kind;
}

static int make_keys(void **state)
{
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < KEYS; i++) must(ecdsa_key_new(&keys[i], &err), &err);
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(keys[i]);
    return 0;
}

/* Two persons sign sets from the first one on; bob has two keys. */
static int begin_with_persons(void **state)
{
    (void)begin(state);
    ecdsa_key_free(keys[ROOT]);
    keys[ROOT] = approve();
    (void)add_entry(bytes_of_text("the log begins with no document"), true);
    for (unsigned i = BOB; i <= BOB_AGAIN; i++) enrol(keys[i], i == BOB_AGAIN ? keys[BOB] : NULL, i == BOB_AGAIN ? BOB : i);
    assert_int_equal(bring("[" NARROW "]", TERMS, BY(ROOT) | TWO), ERROR_NONE);
    return 0;
}

static int stop_all(void **state)
{
    while (past_count > 0) buffer_done(&past[--past_count]);
    return stop(state);
}

static void restart(void)
{
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
}

/* ---- cases ---- */

static void a_loosening_takes_one_person_more(void **state)
{
    (void)state;
    assert_int_equal(bring("[" WIDE "]", NULL, TWO), REFUSED);
    assert_int_equal(bring("[" WIDE "]", NULL, TWO | BY(BOB_AGAIN)), REFUSED); /* a third key, and no third person */
    assert_int_equal(bring("[" WIDE "," ADDED "]", NULL, TWO), REFUSED);       /* a restriction beside it changes nothing */
    assert_int_equal(bring("[" WIDE "]", NULL, TWO | BY(ROOT)), ERROR_NONE);   /* its holder is the third */
    assert_int_equal(bring("[" NARROW "]", NULL, BY(BOB)), REFUSED);
    assert_int_equal(bring("[" NARROW "]", NULL, TWO), ERROR_NONE); /* back: nothing loosens */
    assert_int_equal(bring("[" WIDE "]", NULL, TWO), REFUSED);      /* and again, under another epoch */
    assert_int_equal(identify().policy_epoch, 3);
}

static void the_base_is_the_set_that_is_pinned(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    struct buffer OWNED_BUFFER by_three = BUFFER(POLICY_SET_ENVELOPE_MAX);

    (void)state;
    assert_int_equal(bring("[" NARROW "," ADDED "]", NULL, TWO), ERROR_NONE);
    compose_set("[" NARROW "]", NULL, &payload); /* it loosens this set, and not the one before it */
    sign_set(&payload, TWO, &envelope);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), newest()), REFUSED);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), buffer_bytes(&past[0])), REFUSED);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), buffer_bytes(&envelope)), REFUSED);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), bytes_of_text("{}")), ERROR_INVALID);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), (struct bytes){NULL, 0}), REFUSED); /* nothing is shown */
    sign_set(&payload, THREE, &by_three);
    assert_int_equal(pin_envelope(buffer_bytes(&by_three), (struct bytes){NULL, 0}), ERROR_NONE); /* enough for any change */
}

static void what_is_not_shown_counts_as_a_loosening(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);

    (void)state;
    compose_set("[" POLICY("one", "3", "", PERMIT("open")) "]", NULL, &payload);
    sign_set(&payload, TWO, &envelope);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), (struct bytes){NULL, 0}), REFUSED);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), newest()), ERROR_NONE);
}

static void one_person_adds_what_restricts(void **state)
{
    (void)state;
    assert_int_equal(bring("[" NARROW "," POLICY("two", "1", FREE LABELS, AE) "]", NULL, BY(BOB)), REFUSED);
    assert_int_equal(bring("[" NARROW "," POLICY("two", "1", FREE, AE "," PERMIT("secret")) "]", NULL, BY(BOB)), REFUSED);
    assert_int_equal(bring("[" NARROW "," ADDED "]", TERMS, BY(STRANGER)), REFUSED);
    assert_int_equal(bring("[" NARROW "," ADDED "]", NULL, BY(BOB)), ERROR_NONE);
    assert_int_equal(bring("[" NARROW "," ADDED "," POLICY("three", "1", FREE, AE) "]", NULL, BY(ROOT)), ERROR_NONE);
    assert_int_equal(bring("[" NARROW "]", NULL, TWO), REFUSED); /* to take it away is a loosening */
}

/* Content may be pinned to the id since an earlier set: it would be free again. */
static void an_id_is_new_only_once(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);

    (void)state;
    assert_int_equal(bring("[" NARROW "," POLICY("two", "1", FREE LABELS, AE) "]", NULL, THREE), ERROR_NONE);
    assert_int_equal(bring("[" NARROW "]", NULL, THREE), ERROR_NONE);
    assert_int_equal(bring("[" NARROW "," ADDED "]", NULL, BY(BOB)), REFUSED);
    assert_int_equal(bring("[" NARROW "," ADDED "]", NULL, TWO), REFUSED);
    restart();
    assert_int_equal(bring("[" NARROW "," ADDED "]", NULL, BY(BOB)), REFUSED);
    compose_set("[" NARROW "," POLICY("three", "1", FREE, AE) "]", NULL, &payload);
    sign_set(&payload, BY(CAROL), &envelope);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), newest()), ERROR_NONE);
    assert_int_equal(pin_envelope(buffer_bytes(&envelope), newest()), ERROR_NONE); /* again: its own id does not stop it */
}

/* Without the file no id is known to be new. */
static void a_lost_file_makes_more_persons_sign(void **state)
{
    char path[256];

    (void)state;
    (void)keyd_daemon_end(&process, SIGTERM);
    (void)snprintf(path, sizeof path, "%s/" POLICY_IDS_FILE, process.directory);
    assert_int_equal(unlink(path), 0);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(bring("[" NARROW "," ADDED "]", NULL, BY(BOB)), REFUSED);
    assert_int_equal(bring("[" NARROW "," ADDED "]", NULL, THREE), ERROR_NONE);
    restart();
    assert_int_equal(bring("[" NARROW "," ADDED "," POLICY("three", "1", FREE, AE) "]", NULL, BY(BOB)), REFUSED);
}

static enum error_kind certify(const char *region)
{
    struct deletion_request wanted = {.name = "acme/models", .digest = "sha256:00", .key_version = 1};
    struct buffer OWNED_BUFFER envelope = BUFFER(DELETION_ENVELOPE_MAX);
    struct error err = {0};

    (void)snprintf(wanted.scope.region, sizeof wanted.scope.region, "%s", region);
    return keyd_certify_deletion(client, &wanted, &envelope, &err).ok ? ERROR_NONE : err.kind;
}

/* Whoever asks: the version of the key is with another one. */
static void a_region_of_another_sijil_keyd_is_known_from_the_set(void **state)
{
    char path[256];
    struct error err = {0};

    (void)state;
    assert_int_equal(certify("onprem/dc1"), ERROR_NONE);
    regions = parsed("{\"onprem/dc1\":{\"geo\":\"AE\",\"keyd\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8\"}}");
    const enum error_kind brought = bring("[" NARROW "]", NULL, THREE);
    json_decref(regions);
    regions = NULL;
    assert_int_equal(brought, ERROR_NONE);
    assert_int_equal(certify("onprem/dc1"), REFUSED);
    assert_int_equal(certify("onprem/dc2"), ERROR_NONE);
    (void)keyd_daemon_end(&process, SIGTERM);
    (void)snprintf(path, sizeof path, "%s/" REGION_KEYDS_FILE, process.directory);
    assert_int_equal(unlink(path), 0);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(certify("onprem/dc1"), ERROR_CONFLICT);
    assert_int_equal(keyd_show_set(client, buffer_bytes(&past[0]), &err).ok, false); /* the one before */
    assert_int_equal(err.kind, REFUSED);
    must(keyd_show_set(client, newest(), &err), &err);
    assert_int_equal(certify("onprem/dc1"), REFUSED);
    assert_int_equal(certify("onprem/dc2"), ERROR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_loosening_takes_one_person_more, begin_with_persons, stop_all),
        cmocka_unit_test_setup_teardown(the_base_is_the_set_that_is_pinned, begin_with_persons, stop_all),
        cmocka_unit_test_setup_teardown(what_is_not_shown_counts_as_a_loosening, begin_with_persons, stop_all),
        cmocka_unit_test_setup_teardown(one_person_adds_what_restricts, begin_with_persons, stop_all),
        cmocka_unit_test_setup_teardown(an_id_is_new_only_once, begin_with_persons, stop_all),
        cmocka_unit_test_setup_teardown(a_lost_file_makes_more_persons_sign, begin_with_persons, stop_all),
        cmocka_unit_test_setup_teardown(a_region_of_another_sijil_keyd_is_known_from_the_set, begin_with_persons, stop_all),
    };

    return cmocka_run_group_tests_name("how many persons sign a policy set", tests, make_keys, free_keys);
}

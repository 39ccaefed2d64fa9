/* Who has signed a policy set, counted from the root's key on: what sijil-keyd refuses is refused here, too. */
#include "tests/unit/policy_set_change_parts.h"

#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/set_approval.h"
#include "documents/format/set_exceptions.h"
#include "documents/format/signing_key.h"
#include "policy/set_chain.h"
#include "tests/support/policy.h"
#include "tests/unit/policy_chain_rows.h"

#define DAY_MS   INT64_C(86400000)
#define BEGIN_MS INT64_C(1797292800000) /* 2026-12-15 */

/* ---- making ---- */

#define KEPT_MAX 12 /* steps of a row */

struct kept {
    struct buffer envelopes[2];
    size_t count;
    uint64_t sequence;
    int64_t time_ms;
};

struct making {
    struct kept kept[KEPT_MAX]; /* what was shown */
    size_t kept_count;
    struct ecdsa_key *keys[KEYS];
    struct set_chain *chain;
    struct document_pin pin; /* of the last set that was in force, shown or not */
    uint64_t made;           /* epoch of the last set */
    uint64_t sequence;
    int64_t now_ms;
};

static void making_done(struct making *making)
{
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(making->keys[i]);
    for (size_t i = 0; i < making->kept_count; i++)
        for (size_t j = 0; j < 2; j++) buffer_done(&making->kept[i].envelopes[j]);
    set_chain_free(making->chain);
}
#define OWNED_MAKING __attribute__((cleanup(making_done))) struct making

static void principal_of(int key, char principal_out[SIGNING_PRINCIPAL_SIZE])
{
    char name[16];

    (void)snprintf(name, sizeof name, "%d", persons[key]);
    OWNED_JSON person = json_pack("{s:s, s:s}", "iss", "i", "sub", name);
    _Static_assert(SIGNING_PRINCIPAL_SIZE >= SET_PERSON_SIZE, "each principal of a person has room");
    assert_true(set_person_principal(person, principal_out));
}

static struct result show(struct making *making, const struct bytes *envelopes, size_t count, bool is_followed, struct error *err)
{
    const struct set_chain_link link = {envelopes, count, {NULL, 0}, making->sequence++, making->now_ms, is_followed};
    struct kept *kept = &making->kept[making->kept_count++];

    *kept = (struct kept){{BUFFER(POLICY_SET_ENVELOPE_MAX), BUFFER(POLICY_SET_ENVELOPE_MAX)}, count, link.sequence, link.time_ms};
    for (size_t i = 0; i < count; i++) must(buffer_add(&kept->envelopes[i], envelopes[i].data, envelopes[i].length, err), err);
    return set_chain_add(making->chain, &link, err);
}

static void make_key(struct making *making, const struct step *step)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192), own = BUFFER(16384), by_root = BUFFER(16384);
    struct signing_key key = {.purpose = SIGNING_APPROVE};
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(making->keys[step->key], key.point);
    principal_of(step->key, key.principal);
    signing_key_name(&key, name);
    OWNED_JSON body = signing_key_body(&key);
    const struct document_parts parts = {.kind = DOCUMENT_SIGNING_KEY,
                                         .scope = "",
                                         .name = name,
                                         .version = step->what == WITHDRAW ? 2 : 1,
                                         .effective_ms = making->now_ms,
                                         .expires_ms = making->now_ms + 365 * DAY_MS,
                                         .withdrawn = step->what == WITHDRAW ? "lost" : NULL,
                                         .body = body};
    must(document_compose(&parts, &payload, &err), &err);
    must(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), making->keys[step->key], &own, &err), &err);
    must(document_sign(DOCUMENT_SIGNING_KEY, buffer_bytes(&payload), making->keys[ROOT], &by_root, &err), &err);
    const struct bytes envelopes[] = {buffer_bytes(&own), buffer_bytes(&by_root)};
    must(show(making, envelopes, step->what == WITHDRAW ? 1 : 2, false, &err), &err);
}

static json_t *root_of(const struct step *step)
{
    char principal[SIGNING_PRINCIPAL_SIZE], text[256];

    if (step->root == NULL) return NULL;
    principal_of(ROOT, principal);
    (void)snprintf(text, sizeof text, strcmp(step->root, RAISED) == 0 ? RAISED : "%s",
                   strcmp(step->root, RAISED) == 0 ? principal : step->root);
    return policy_json(text);
}

/* Bound to the first policy, which says how many must approve it. */
static json_t *exceptions_of(const struct step *step, json_t *policies)
{
    OWNED(policy_document) *typed = NULL;
    struct error err = {0};

    if (step->exceptions == NULL) return NULL;
    json_t *exceptions = policy_json(step->exceptions);
    must(policy_document_new(json_array_get(policies, 0), &typed, &err), &err);
    assert_int_equal(json_object_set_new(json_object_get(json_array_get(exceptions, 0), "policy"), "digest",
                                         json_string(policy_document_digest(typed))),
                     0);
    return exceptions;
}

static struct result make_set(struct making *making, const struct step *step, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    const struct set_approval approval = {.is_there = true, .base = making->pin, .expires_ms = making->now_ms + DAY_MS};
    OWNED_JSON policies = policy_json(step->policies);
    OWNED_JSON agreed = step->what == SET ? set_approval_json(&approval) : NULL;
    OWNED_JSON root = root_of(step);
    OWNED_JSON exceptions = exceptions_of(step, policies);
    const struct policy_set_parts parts = {
        .epoch = making->made + 1, .policies = policies, .approval = agreed, .root = root, .exceptions = exceptions};
    const struct ecdsa_key *by[KEYS];
    OWNED(document) *document = NULL;
    size_t count = 0;

    must(policy_set_compose(&parts, &payload, err), err);
    for (size_t i = 0; i < KEYS; i++)
        if ((step->signers & BY(i)) != 0) by[count++] = making->keys[i];
    must(dsse_write(POLICY_SET_TYPE, buffer_bytes(&payload), by, count, &envelope, err), err);
    const struct bytes view = buffer_bytes(&envelope);
    must(document_read(&view, 1, &document, err), err);
    making->made = document->version;
    if (step->is_refused) return show(making, &view, 1, true, err);
    making->pin.epoch = document->version;
    memcpy(making->pin.digest, document->digest, sizeof making->pin.digest);
    return step->is_left_out ? SUCCESS : show(making, &view, 1, false, err);
}

static struct result take(struct making *making, const struct step *step, struct error *err)
{
    making->now_ms += 1000 + step->days * DAY_MS;
    if (step->what == SET || step->what == BARE) return make_set(making, step, err);
    make_key(making, step);
    return SUCCESS;
}

static void begin(struct making *making)
{
    struct error err = {0};

    *making = (struct making){.now_ms = BEGIN_MS};
    for (size_t i = 0; i < KEYS; i++) must(ecdsa_key_new(&making->keys[i], &err), &err);
    must(set_chain_new(making->keys[ROOT], &making->chain, &err), &err);
}

/* ---- cases ---- */

static void persons_are_counted(void **state)
{
    const struct row *row = *state;
    struct set_chain_end end;
    struct error err = {0};
    OWNED_MAKING making;
    size_t last = 0;

    begin(&making);
    while (last + 1 < COUNT(row->steps) && row->steps[last + 1].what != NOTHING) last++;
    for (size_t i = 0; i < last; i++) must(take(&making, &row->steps[i], &err), &err);
    const struct result taken = take(&making, &row->steps[last], &err);
    if ((taken.ok ? ERROR_NONE : err.kind) != row->kind) fail_msg("%s", err.message);
    if (!taken.ok) return;
    set_chain_end(making.chain, &end);
    assert_int_equal(end.signers.persons, row->persons);
    assert_true(end.signers.needed <= row->needed && end.signers.demanded <= row->needed);
    assert_true(end.is_whole == !row->is_part);
}

static void links_are_in_the_order_of_the_log(void **state)
{
    const struct step first = FIRST, next = {BARE, .policies = STRICTER, .signers = ALONE};
    struct error err = {0};
    OWNED_MAKING making;

    (void)state;
    begin(&making);
    making.sequence = 5;
    must(take(&making, &first, &err), &err);
    making.sequence = 5;
    assert_false(take(&making, &next, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

/* All that was shown once, to another chain. */
static struct result follow(void *context, struct error *err)
{
    const struct making *making = context;
    struct buffer OWNED_BUFFER text = BUFFER(1024);
    OWNED(set_chain) *chain = NULL;
    struct set_chain_end end;

    TRY(set_chain_new(making->keys[ROOT], &chain, err));
    for (size_t i = 0; i < making->kept_count; i++) {
        const struct kept *kept = &making->kept[i];
        const struct bytes envelopes[] = {buffer_bytes(&kept->envelopes[0]), buffer_bytes(&kept->envelopes[1])};
        const struct set_chain_link link = {envelopes, kept->count, {NULL, 0}, kept->sequence, kept->time_ms, false};
        TRY(set_chain_add(chain, &link, err));
    }
    set_chain_end(chain, &end);
    return set_chain_text(&end, &text, err);
}

/* A key for which there was no memory is not one that does not count. */
static void counting_survives_lack_of_memory(void **state)
{
    const struct step steps[] = {{ENROL, .key = ONE}, FIRST, {SET, .policies = LOOSER, .signers = ALONE}};
    struct error err = {0};
    OWNED_MAKING making;

    (void)state;
    begin(&making);
    for (size_t i = 0; i < COUNT(steps); i++) must(take(&making, &steps[i], &err), &err);
    fail_each(follow, &making, ERROR_NO_MEMORY, 50);
}

int policy_chain_cases(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(links_are_in_the_order_of_the_log),
                                        cmocka_unit_test(counting_survives_lack_of_memory)};

    return RUN_TABLE(rows, persons_are_counted) + cmocka_run_group_tests_name("the order", others, NULL, NULL);
}

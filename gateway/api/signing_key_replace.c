/* Another key of an approver, an officer or an administrator: signed with a key that the person has, or after a day; docs/documents.md. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/replacement.h"
#include "gateway/api/self_priv.h"
#include "gateway/api/signing_key_priv.h"

/* ---- what sijil-keyd says ---- */

static struct result ask(const struct request *request, const char *principal, struct key_power *power_out, struct error *err)
{
    uint8_t digest[DOCUMENT_DIGEST_SIZE];

    sha256_of(bytes_of_text(principal), digest);
    return keyd_key_power(request->gateway->keyd, digest, power_out, err);
}

static const struct key_waiting *find(const struct key_power *power, const char *name, const char *principal)
{
    uint8_t key[DOCUMENT_DIGEST_SIZE], owner[DOCUMENT_DIGEST_SIZE];

    if (!text_from_base64_exactly(BASE64_URL, bytes_of_text(name), key, sizeof key)) return NULL;
    sha256_of(bytes_of_text(principal), owner);
    for (size_t i = 0; i < power->count; i++)
        if (memcmp(power->waiting[i].key, key, sizeof key) == 0 && memcmp(power->waiting[i].principal, owner, sizeof owner) == 0)
            return &power->waiting[i];
    return NULL;
}

/* ---- whose a key is ---- */

struct held {
    const char *principal;
    int64_t now_ms;
    bool counts, is_withdrawn;
};

static struct result note(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct held *held = context;
    struct signing_key key;

    TRY(signing_key_read(pinned->document, &key, err));
    held->is_withdrawn = held->is_withdrawn || pinned->document->is_withdrawn || pinned->document->is_withdrawn_elsewhere;
    held->counts =
        held->counts || (strcmp(key.principal, held->principal) == 0 && document_is_in_force(pinned->document, held->now_ms));
    return SUCCESS;
}

static struct result is_held(const struct request *request, const char *name, const char *principal, bool *is_held_out,
                             struct error *err)
{
    struct held held = {.principal = principal, .now_ms = clock_wall_ms()};

    TRY(document_view_visit_name(request->gateway->documents, DOCUMENT_SIGNING_KEY, name, note, &held, err));
    *is_held_out = held.counts && !held.is_withdrawn;
    return SUCCESS;
}

/* One that approves nothing came without a wait. */
static struct result check_old_approves(const struct request *request, const struct signing_key *key, struct error *err)
{
    struct document_trust trust;
    struct key_power power;

    TRY(ask(request, key->principal, &power, err));
    if (!power.is_approver) return SUCCESS;
    TRY(document_trust_now(request, &trust, err));
    if (signing_key_approves(trust.approvers, key->replaces, key->principal, trust.now_ms)) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "replaces: the next key of an approver is signed with one that approves; without it, the new one waits a day");
}

struct result key_check_old(const struct request *request, const struct document *document, struct error *err)
{
    char name[ECDSA_THUMBPRINT_SIZE];
    struct signing_key key;
    bool is_own = false;

    TRY(signing_key_read(document, &key, err));
    if (!signing_key_has_old(&key)) return SUCCESS;
    ecdsa_thumbprint(key.replaces, name);
    TRY(is_held(request, name, key.principal, &is_own, err));
    if (!is_own || strcmp(name, document->name) == 0)
        return failure(err, ERROR_DENIED, "replaces: %s is no other key in force of %s", name, key.principal);
    if (document->is_withdrawn || key.purpose != SIGNING_APPROVE) return SUCCESS;
    return check_old_approves(request, &key, err);
}

/* A further key of an approver that approves nothing has no power, and a key in a further scope has it already. */
static struct result has_power_already(const struct request *request, const struct document *document,
                                       const struct document_trust *trust, bool *has_out, struct error *err)
{
    struct signing_key key;

    TRY(signing_key_read(document, &key, err));
    if (key.purpose != SIGNING_APPROVE) return is_held(request, document->name, key.principal, has_out, err);
    *has_out = signing_key_approves(trust->approvers, key.point, key.principal, trust->now_ms);
    return SUCCESS;
}

struct result key_wait_find(const struct request *request, const struct document *document, const struct document_trust *trust,
                            struct key_wait *wait_out, struct error *err)
{
    struct signing_key key;
    struct key_power power;
    bool has_power = false;

    *wait_out = (struct key_wait){.is_asked = false};
    TRY(signing_key_read(document, &key, err));
    if (signing_key_has_old(&key)) return SUCCESS;
    TRY(ask(request, key.principal, &power, err));
    if (!key_power_asks(&power, key.purpose == SIGNING_APPROVE)) return SUCCESS;
    TRY(has_power_already(request, document, trust, &has_power, err));
    wait_out->is_asked = !has_power;
    const struct key_waiting *waiting = find(&power, document->name, key.principal);
    if (waiting == NULL || memcmp(waiting->document, document->digest, sizeof waiting->document) != 0) return SUCCESS;
    wait_out->is_begun = true;
    wait_out->counts_ms = waiting->counts_ms;
    return SUCCESS;
}

struct result key_is_waiting(const struct request *request, const struct document *document, bool *is_waiting_out,
                             struct error *err)
{
    struct signing_key key;
    struct key_power power;

    TRY(signing_key_read(document, &key, err));
    TRY(ask(request, key.principal, &power, err));
    *is_waiting_out = find(&power, document->name, key.principal) != NULL;
    return SUCCESS;
}

/* ---- the wait ---- */

struct result key_wait_begin(struct request *request, struct pg *pg, const struct signed_body *body, struct error *err)
{
    const struct document_source source = {pg, request->gateway->keyd, request->gateway->sequencer};
    const struct replacement replacement = {body->envelopes, body->count};
    struct action_pair pair = request->pairs[0];
    struct replacement_change change;
    OWNED_JSON value = NULL;
    int64_t counts_ms = 0;

    pair.action = ACTION_KEY_REPLACE;
    replacement_change_init(&change, body->document);
    TRY(request_record_instead(request, &pair, 1, &change.change, err));
    TRY(replacement_begin(request->permit, &source, &replacement, &counts_ms, err));
    TRY(document_describe(body->document, 0, &value, err));
    if (!api_set_time(value, "waits_until", counts_ms)) return failure(err, ERROR_NO_MEMORY, "no memory for a key that waits");
    response_json(request, 202, value);
    return SUCCESS;
}

/* ---- in answers ---- */

struct result key_wait_add(const struct request *request, json_t *drafts, struct error *err)
{
    struct key_power power;

    if (json_array_size(drafts) == 0) return SUCCESS;
    TRY(ask(request, "", &power, err));
    for (size_t i = 0; i < json_array_size(drafts); i++) {
        json_t *draft = json_array_get(drafts, i);
        const char *principal = json_text_of(json_object_get(json_object_get(draft, "document"), "body"), "principal");
        const char *name = json_text_of(draft, "name");
        const struct key_waiting *waiting = name == NULL || principal == NULL ? NULL : find(&power, name, principal);
        if (waiting != NULL && !api_set_time(draft, "waits_until", waiting->counts_ms))
            return failure(err, ERROR_NO_MEMORY, "no memory for a key that waits");
    }
    return SUCCESS;
}

static json_t *describe(const struct key_waiting *waiting)
{
    struct buffer OWNED_BUFFER name = BUFFER(ECDSA_THUMBPRINT_SIZE);
    struct error none = {0};

    if (!text_base64(&name, BASE64_URL, (struct bytes){waiting->key, sizeof waiting->key}, &none).ok) return NULL;
    OWNED_JSON value = json_pack("{s:s}", "name", buffer_text(&name));
    if (value == NULL || !api_set_time(value, "since", waiting->since_ms) ||
        !api_set_time(value, "waits_until", waiting->counts_ms))
        return NULL;
    return GIVE(value);
}

struct result self_add_waiting_keys(const struct request *request, json_t *self, struct error *err)
{
    char principal[PRINCIPAL_KEY_SIZE];
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    OWNED_JSON list = json_array();
    struct key_power power;
    struct error why = {0};

    principal_key(request->principal, principal);
    sha256_of(bytes_of_text(principal), digest);
    if (!keyd_key_power(request->gateway->keyd, digest, &power, &why).ok)
        return self_cannot_tell(self, "waiting_keys", &why, err);
    for (size_t i = 0; i < power.count; i++)
        if (memcmp(power.waiting[i].principal, digest, sizeof digest) == 0 &&
            json_array_append_new(list, describe(&power.waiting[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for keys that wait");
    if (json_array_size(list) == 0 || json_object_set(self, "waiting_keys", list) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for keys that wait");
}

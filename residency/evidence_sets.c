/* A signed policy set of the evidence, with the event of the log that loaded it; restrictions of the project's organisation. */
#include <string.h>

#include "audit/format/policy_load.h"
#include "base/text.h"
#include "crypto/dsse.h"
#include "residency/residency_priv.h"

struct parts {
    struct bytes envelope, entry, proof;
};

/* The form of docs/formats/policy-export.md. */
static struct result read_parts(const json_t *exported, struct parts *parts, struct error *err)
{
    const char *envelope = json_string_value(json_array_get(json_object_get(exported, "envelopes"), 0));
    const char *entry = json_text_of(exported, "entry"), *proof = json_text_of(exported, "proof");

    if (envelope == NULL || entry == NULL || proof == NULL)
        return failure(err, ERROR_DENIED, "a policy set has an envelope, an entry and a proof");
    *parts = (struct parts){bytes_of_text(envelope), bytes_of_text(entry), bytes_of_text(proof)};
    return SUCCESS;
}

static struct result read_signatures(const struct dsse *dsse, json_t **signatures_out, struct error *err)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < dsse->signature_count; i++)
        if (json_array_append_new(list, json_string(dsse->signatures[i].keyid)) != 0) return residency_no_memory(err);
    if (list == NULL) return residency_no_memory(err);
    *signatures_out = GIVE(list);
    return SUCCESS;
}

/* Whether enough persons have signed a set that names others, only the sets before it tell. */
static struct result read_signed(const struct parts *parts, const struct residency_trust *trust, struct policy_set **set_out,
                                 struct error *err)
{
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_read_named(parts->envelope, trust->root, &set, err));
    if (policy_set_names_others(set) &&
        (trust->sets == NULL || !set_chain_has(trust->sets, policy_set_epoch(set), policy_set_digest(set))))
        return failure(err, ERROR_DENIED,
                       "several persons sign the policy set of epoch %llu: --set FILE, written by 'sijil policy export', shows "
                       "whether they have%s",
                       (unsigned long long)policy_set_epoch(set), trust->sets == NULL ? "" : ", and the given one does not");
    *set_out = GIVE(set);
    return SUCCESS;
}

static struct result read_set(const struct parts *parts, const struct residency_trust *trust, struct residency_set *set,
                              struct error *err)
{
    OWNED(policy_set) *read = NULL;
    OWNED(dsse) *dsse = NULL;

    TRY(dsse_read(parts->envelope, POLICY_SET_ENVELOPE_MAX, &dsse, err));
    if (trust->root != NULL) TRY(read_signed(parts, trust, &read, err));
    else TRY(policy_set_compile(buffer_bytes(&dsse->payload), &read, err));
    TRY(read_signatures(dsse, &set->signatures, err));
    set->set = GIVE(read);
    return SUCCESS;
}

/* The event names the bytes of the envelope, so no other signature and no other set fits it. */
static struct result check_event(const struct parts *parts, const struct leaf *event, const struct policy_set *set,
                                 struct error *err)
{
    char detail[1 + POLICY_LOAD_DETAIL_SIZE] = "#";
    uint8_t digest[32];

    if (!text_from_hex(bytes_of_text(policy_set_digest(set) + strlen("sha256:")), digest, sizeof digest))
        return failure(err, ERROR_DENIED, "a policy set has no digest");
    policy_load_detail(parts->envelope, policy_set_epoch(set), digest, detail + 1);
    if (event->target_count == 1 && strcmp(event->targets[0].action, POLICY_LOAD_ACTION) == 0 &&
        strcmp(event->outcome, POLICY_LOAD_OUTCOME) == 0 && strcmp(event->targets[0].resource, detail) == 0)
        return SUCCESS;
    return failure(err, ERROR_DENIED, "the event beside the policy set of epoch %llu does not load this set",
                   (unsigned long long)policy_set_epoch(set));
}

/* Without the log's key the proof can't be checked, and the entry is taken as it is. */
static struct result read_event(const struct parts *parts, const struct residency_trust *trust, struct leaf *event,
                                struct error *err)
{
    struct proof_report proof;

    if (trust->log.vkey.length == 0) return leaf_read(parts->entry, event, err);
    TRY(proof_check_cosigned(&trust->log, parts->entry, parts->proof, &proof, err));
    if (!proof.is_event) return failure(err, ERROR_DENIED, "the entry beside a policy set is no event");
    *event = proof.event;
    return SUCCESS;
}

static struct result take(struct residency *residency, const struct parts *parts, const struct residency_trust *trust,
                          struct residency_set *set, struct error *err)
{
    struct leaf event;

    TRY(read_set(parts, trust, set, err));
    TRY(read_event(parts, trust, &event, err));
    TRY(check_event(parts, &event, set->set, err));
    set->loaded = event.sequence;
    set->loaded_ms = event.time_ms;
    if (residency->findings.sets == RESIDENCY_SETS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d policy sets were in force: ask for an earlier moment", RESIDENCY_SETS_MAX);
    for (size_t i = 0; i < residency->findings.sets; i++)
        if (residency->sets[i].loaded >= set->loaded)
            return failure(err, ERROR_DENIED, "the policy sets are not in the order of their events");
    residency->sets[residency->findings.sets++] = *set;
    return SUCCESS;
}

struct result residency_take_set(struct residency *residency, const json_t *exported, const struct residency_trust *trust,
                                 struct error *err)
{
    struct residency_set set = {.set = NULL};
    struct parts parts;

    TRY(read_parts(exported, &parts, err));
    const struct result taken = take(residency, &parts, trust, &set, err);
    if (taken.ok) return SUCCESS;
    policy_set_free(set.set);
    json_decref(set.signatures);
    return taken;
}

/* ---- restrictions ---- */

struct result residency_take_proven(struct residency *residency, const struct residency_trust *trust, struct error *err)
{
    if (trust->restrictions == NULL) return SUCCESS;
    TRY(replay_restrictions_new(&residency->restrictions, err));
    for (size_t i = 0; i < restriction_chain_count(trust->restrictions); i++)
        TRY(replay_restrictions_add_proven(residency->restrictions, restriction_chain_at(trust->restrictions, i), err));
    return SUCCESS;
}

/* Facts name it by its digest, so it is the one that was decided on. */
struct result residency_take_restriction(struct residency *residency, const json_t *json, const struct residency_trust *trust,
                                         struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(document_kind(DOCUMENT_RESTRICTION)->bytes_max);
    OWNED(document) *document = NULL;

    TRY(json_write_canonical(&payload, json, err));
    TRY(document_read_payload(DOCUMENT_RESTRICTION, buffer_bytes(&payload), &document, err));
    residency->findings.restrictions++;
    if (trust->restrictions != NULL) return SUCCESS;
    if (residency->restrictions == NULL) TRY(replay_restrictions_new(&residency->restrictions, err));
    return replay_restrictions_add(residency->restrictions, document, err);
}

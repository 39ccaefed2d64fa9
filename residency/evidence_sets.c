/* A signed policy set of the evidence, with the event of the log that loaded it. */
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

static struct result read_set(const struct parts *parts, const struct residency_trust *trust, struct residency_set *set,
                              struct error *err)
{
    OWNED(policy_set) *read = NULL;
    OWNED(dsse) *dsse = NULL;

    TRY(dsse_read(parts->envelope, POLICY_SET_ENVELOPE_MAX, &dsse, err));
    if (trust->root != NULL) TRY(policy_set_read_named(parts->envelope, trust->root, &read, err));
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

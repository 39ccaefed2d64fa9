#include "policy/run_verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/note.h"
#include "base/json.h"
#include "base/memory.h"
#include "policy/label_annotation.h"
#include "policy/replay_export.h"
#include "policy/run_day.h"
#include "policy/set.h"

#define MANIFEST_MAX ((size_t)4 << 20) /* bytes: of a registry */
#define SETS_MAX     16                /* as in the shape of a bundle */

struct sets {
    size_t count;
    struct policy_set *each[SETS_MAX];
};

static void sets_done(struct sets *sets)
{
    for (size_t i = 0; i < sets->count; i++) policy_set_free(sets->each[i]);
}

static struct result read_sets(const struct run_bundle *bundle, const struct ecdsa_key *root, struct sets *sets,
                               struct error *err)
{
    const json_t *texts = json_object_get(bundle->json, "policy_sets");
    struct error why = {0};

    for (size_t i = 0; i < json_array_size(texts); i++) {
        const struct bytes text = bytes_of_text(json_string_value(json_array_get(texts, i)));
        if (!policy_set_read_named(text, root, &sets->each[i], &why).ok)
            return failure(err, why.kind, "policy set %zu: %.200s", i + 1, why.message);
        sets->count++;
    }
    return SUCCESS;
}

/* The first decision must be the order's own: others say nothing about this run. */
static struct result check_first(const struct run_bundle *bundle, const char *line, struct error *err)
{
    struct buffer OWNED_BUFFER entry = BUFFER(LEAF_MAX);
    OWNED_JSON json = NULL;
    int64_t sequence = 0;

    TRY(json_read(bytes_of_text(line), REPLAY_LINE_MAX, &json, err));
    const json_t *decided = json_object_get(json, "entry");
    if (decided == NULL) return failure(err, ERROR_INVALID, "decision 1: it has no member \"entry\"");
    TRY(json_write_canonical(&entry, decided, err));
    if (json_integer_of(json, "seq", &sequence) && (uint64_t)sequence != bundle->event.index)
        return failure(err, ERROR_DENIED, "decision 1: its number is not that of the order's event");
    if (strcmp(buffer_text(&entry), json_text_of(json_object_get(bundle->json, "event"), "entry")) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "decision 1: it is not that of the order's event");
}

static const struct policy_set *set_of(const struct sets *sets, const char *digest)
{
    for (size_t i = 0; i < sets->count; i++)
        if (strcmp(policy_set_digest(sets->each[i]), digest) == 0) return sets->each[i];
    return NULL;
}

static struct result find_set(const struct run_envelope *order, const struct sets *sets, const struct policy_set **set_out,
                              struct error *err)
{
    const struct policy_set *set = set_of(sets, run_text(order, "policy.digest"));

    if (set == NULL)
        return failure(err, ERROR_DENIED, "the bundle has policy sets, and not the one that the order names: %.71s",
                       run_text(order, "policy.digest"));
    if ((int64_t)policy_set_epoch(set) != run_integer(order, "policy.epoch"))
        return failure(err, ERROR_DENIED, "the order names another epoch than its policy set has");
    *set_out = set;
    return SUCCESS;
}

/* The labels that the manifests of the bundle state. */
struct known_floors {
    struct train_floors views;
    struct stated_label each[RUN_ARTIFACTS_MAX];
};

static void known_floors_done(struct known_floors *floors)
{
    for (size_t i = 0; i < RUN_ARTIFACTS_MAX; i++) stated_label_done(&floors->each[i]);
}

static struct result read_floors(const struct run_bundle *bundle, struct known_floors *floors, struct run_repeated *repeated,
                                 struct error *err)
{
    struct error why = {0};

    repeated->artifacts = bundle->artifacts.count;
    for (size_t i = 0; i < bundle->artifacts.count; i++) {
        const json_t *text = bundle->manifests[i];
        const struct bytes bytes = {(const uint8_t *)json_string_value(text), json_string_length(text)};
        if (text == NULL) continue;
        if (!label_annotation_of_text(bytes, MANIFEST_MAX, &floors->each[i], &why).ok)
            return failure(err, why.kind, "the manifest of %.60s: %.190s", bundle->artifacts.each[i].name, why.message);
        if (floors->each[i].json != NULL) floors->views.each[i] = &floors->each[i].label;
        repeated->manifests++;
    }
    return SUCCESS;
}

/* sijil-keyd took the order's obligations and jurisdictions from the gateway: the set of that time must not demand more. */
static struct result check_terms(const struct run_bundle *bundle, const struct sets *sets, const struct train_floors *floors,
                                 struct error *err)
{
    const struct run_envelope *order = bundle->chain.order;
    const struct train_terms terms = {.approvals = run_integer(order, "obligations.approvals"),
                                      .signed_request = json_is_true(run_member(order, "obligations.signed_request")),
                                      .jurisdictions = run_member(order, "jurisdictions")};
    const struct policy_set *set = NULL;

    TRY(find_set(order, sets, &set, err));
    const struct train_run run = {
        .set = set, .spec = run_member(order, "spec"), .now_ms = bundle->event.event.time_ms, .floors = floors};
    return policy_train_check_terms(&run, &terms, err);
}

/* A set that came after the order may ask for more, or forbid the run where it was: then it may not have been admitted. */
static struct result check_last_terms(const struct run_bundle *bundle, const struct sets *sets, const struct train_floors *floors,
                                      struct run_repeated *repeated, struct error *err)
{
    const struct run_envelope *admission = bundle->chain.admission;
    char digest[80] = "sha256:";
    struct error why = {0};

    if (admission == NULL) return SUCCESS;
    (void)snprintf(digest, sizeof digest, "sha256:%.64s", run_text(admission, "predicate.policy.digest.sha256"));
    const struct train_run run = {.set = set_of(sets, digest),
                                  .spec = run_member(bundle->chain.order, "spec"),
                                  .now_ms = run_time(admission, "predicate.timeVerified"),
                                  .floors = floors};
    repeated->has_last_terms = run.set != NULL;
    if (run.set == NULL || policy_run_check_day(bundle, &run, &why).ok) return SUCCESS;
    return failure(err, why.kind, "the policy set of the admission: %.220s", why.message);
}

/* The labels of all artifacts are too large for a stack. */
static struct result check_terms_with_floors(const struct run_bundle *bundle, const struct sets *sets,
                                             struct run_repeated *repeated, struct error *err)
{
    struct known_floors *floors = memory_zeroed(1, sizeof *floors);

    if (floors == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the labels of a bundle");
    struct result result = read_floors(bundle, floors, repeated, err);
    if (result.ok) result = check_terms(bundle, sets, &floors->views, err);
    if (result.ok) result = check_last_terms(bundle, sets, &floors->views, repeated, err);
    known_floors_done(floors);
    free(floors);
    return result;
}

/* The first decision is the order's, whose event is proven to be in the log. No proof comes with the others. */
static struct result replay_all(const struct run_bundle *bundle, const struct replay_sets *known, struct run_repeated *repeated,
                                struct error *err)
{
    const json_t *lines = json_object_get(bundle->json, "decisions");
    struct replay_tally tally = {0};
    struct error why = {0};

    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *line = json_string_value(json_array_get(lines, i));
        if (i == 0) TRY(check_first(bundle, line, err));
        if (!replay_export_line(bytes_of_text(line), known, &tally, &why).ok)
            return failure(err, why.kind, "decision %zu: %.200s", i + 1, why.message);
        if (i == 0) repeated->decisions = tally.agree;
        else repeated->others++;
    }
    if (tally.differ > 0)
        return failure(err, ERROR_DENIED, "the decision of event %" PRIu64 " differs: %.200s", tally.first, tally.what);
    if (tally.lacking_set > 0)
        return failure(err, ERROR_DENIED,
                       "%" PRIu64
                       " decisions can't be made again: %.71s is not at hand. If it is a restriction of the organisation, "
                       "give its file: sijil-verify run --set=FILE",
                       tally.lacking_set, tally.set);
    if (tally.impossible > 0) return failure(err, ERROR_DENIED, "%" PRIu64 " decisions can't be made again", tally.impossible);
    return SUCCESS;
}

/* Facts name them by their digests. Those that the verifier gives count in their place: they may be proven. */
static struct result read_restrictions(const struct run_bundle *bundle, struct replay_restrictions *restrictions,
                                       struct error *err)
{
    const json_t *texts = json_object_get(bundle->json, "restrictions");
    struct error why = {0};

    for (size_t i = 0; i < json_array_size(texts); i++) {
        const struct bytes text = bytes_of_text(json_string_value(json_array_get(texts, i)));
        OWNED(document) *document = NULL;
        if (!document_read_payload(DOCUMENT_RESTRICTION, text, &document, &why).ok ||
            !replay_restrictions_add(restrictions, document, &why).ok)
            return failure(err, why.kind, "restriction %zu: %.200s", i + 1, why.message);
    }
    return SUCCESS;
}

static struct result decide_again(const struct run_bundle *bundle, const struct run_verify_keys *keys,
                                  struct run_repeated *repeated_out, struct error *err)
{
    struct sets sets = {.count = 0};
    struct run_repeated repeated = {.decisions = 0};
    OWNED(replay_restrictions) *own = NULL;

    TRY(replay_restrictions_new(&own, err));
    struct result result = read_sets(bundle, keys->root, &sets, err);
    if (result.ok) result = read_restrictions(bundle, own, err);

    const struct replay_sets known = {sets.count, sets.each, keys->restrictions == NULL ? own : keys->restrictions};
    if (result.ok) result = replay_all(bundle, &known, &repeated, err);
    if (result.ok && sets.count > 0) result = check_terms_with_floors(bundle, &sets, &repeated, err);
    repeated.has_terms = sets.count > 0;
    sets_done(&sets);
    if (result.ok) *repeated_out = repeated;
    return result;
}

/* The keys are the verifier's own. So a malformed bundle is one that is not verified. */
struct result run_verify(struct bytes text, const struct run_verify_keys *keys, struct run_bundle **bundle_out,
                         struct run_repeated *repeated_out, struct error *err)
{
    struct run_trust trust = {.log_key = bytes_of_text(keys->log_key), .keyd = keys->signer, .policy = keys->policy};
    struct run_repeated repeated = {.decisions = 0};
    OWNED(run_bundle) *bundle = NULL;
    struct log_keys log_keys;

    ecdsa_key_public(keys->root, trust.root);
    TRY(log_keys_read(trust.log_key, &log_keys, err));
    struct result checked = run_bundle_check(text, &trust, &bundle, err);
    if (checked.ok) checked = decide_again(bundle, keys, &repeated, err);
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    TRY(checked);
    *bundle_out = GIVE(bundle);
    *repeated_out = repeated;
    return SUCCESS;
}

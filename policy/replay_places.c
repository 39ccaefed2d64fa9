/* What policies say of one target of an event, asked again of the set that was in force. */
#include <string.h>

#include "policy/evaluate.h"
#include "policy/replay_priv.h"
#include "policy/set_priv.h"
#include "policy/shape_priv.h"

/* Where policies were asked, with which label. */
struct place {
    struct replay *replay;
    const char *scope, *digest; /* digest: NULL, not known when it was decided */
    struct uuid project;
    struct label label, before;
    bool is_labelled, has_before, was_labelled;
    size_t exception_count;
    const struct policy_exception *const *exceptions;
};

static struct result differs(struct error *err, const char *what, const char *of)
{
    return failure(err, ERROR_DENIED, "%s: %.120s", what, of);
}

/* A failure of the evaluator that is none of memory: the decision was made, so it can't have been so. */
static struct result judged(struct result result, const struct error *why, struct error *err)
{
    if (result.ok) return SUCCESS;
    if (why->kind == ERROR_NO_MEMORY) return failure(err, why->kind, "%s", why->message);
    return differs(err, "it can't have been decided on these facts", why->message);
}

/* --- what the set says of the facts --- */

static const struct target *network_of(const struct policy_set *set, const char *cidr)
{
    for (size_t i = 0; i < set->network_count; i++)
        if (strcmp(set->networks[i].cidr, cidr) == 0) return set->networks[i].target;
    return NULL;
}

static struct result check_target(const struct policy_set *set, const struct policy_facts *facts, struct error *err)
{
    const struct target *known = (facts->op & OP_OF_CLIENTS) != 0 ? network_of(set, facts->target_id)
                                                                  : policy_set_region(set, facts->target_id);

    if (known == NULL) known = policy_set_unknown(set);
    if (strcmp(target_canonical(known), target_canonical(facts->target)) == 0) return SUCCESS;
    return differs(err, "the policy set says something else than the facts of", facts->target_id);
}

/* Whatever was stored there: at least what the policies in scope give it. */
static struct result check_label(const struct place *place, struct error *err)
{
    const struct policy_place where = {.documents = policy_set_documents(place->replay->set),
                                       .scope = place->scope,
                                       .now_us = (int64_t)place->replay->leaf->reason.decided_ms * 1000};
    struct label floor;
    bool is_floor = false;
    struct error why;

    TRY(judged(policy_effective_label(&where, NULL, &floor, &is_floor, &why), &why, err));
    floor.lineage = LINEAGE_ATTESTED; /* which asks for nothing: no policy in scope says where a thing comes from */
    if (!is_floor || (place->is_labelled && label_covers(&place->label, &floor))) return SUCCESS;
    return differs(err, "the policy set gives a stricter label than the facts have to", place->scope);
}

/* --- asking again --- */

static struct result decide(const struct place *place, const struct label *label, const struct policy_facts *asked,
                            struct policy_decision **decision_out, struct error *err)
{
    const struct policy_set *set = place->replay->set;
    struct policy_facts facts = *asked;
    struct error why;

    facts.scope = place->scope;
    facts.digest = place->digest;
    facts.project = place->project;
    facts.policy_epoch = policy_set_epoch(set);
    facts.label = label;
    facts.now_us = (int64_t)place->replay->leaf->reason.decided_ms * 1000;
    facts.exceptions = place->exceptions;
    facts.exception_count = place->exception_count;
    return judged(policy_decide(policy_set_documents(set), &facts, policy_set_groups(set), decision_out, &why), &why, err);
}

static void note_all(struct replay *replay, const struct policy_decision *decision)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        replay_note(replay, denial->rule, denial->policy);
    }
}

/* As a new label is judged: the first rule of a policy that denies with it and did not without. */
static void note_added(struct replay *replay, const struct policy_decision *before, const struct policy_decision *after)
{
    for (size_t i = 0; i < policy_decision_denial_count(after); i++) {
        const struct policy_denial *denial = policy_decision_denial(after, i);
        if (!policy_denial_is_new(before, denial)) continue;
        replay_note(replay, denial->rule, denial->policy);
        return;
    }
}

static struct result ask(const struct place *place, const struct policy_facts *facts, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;
    OWNED(policy_decision) *before = NULL;

    TRY(check_target(place->replay->set, facts, err));
    TRY(decide(place, place->is_labelled ? &place->label : NULL, facts, &decision, err));
    if (!place->has_before) {
        note_all(place->replay, decision);
        return SUCCESS;
    }
    TRY(decide(place, place->was_labelled ? &place->before : NULL, facts, &before, err));
    note_added(place->replay, before, decision);
    return SUCCESS;
}

static struct result replay_operation(const struct place *place, const json_t *json, struct error *err)
{
    OWNED(target) *target = NULL;
    struct policy_facts facts = {.op = (enum policy_operation)(1U << word_index(operation_names, json_text_of(json, "op"))),
                                 .target_id = json_text_of(json, "target_id")};
    struct error why;

    TRY(judged(target_new(json_object_get(json, "target"), &target, &why), &why, err));
    facts.target = target;
    return ask(place, &facts, err);
}

/* --- reading places --- */

static struct result read_label(const json_t *json, struct label *label, bool *is_labelled, struct error *err)
{
    struct error why;

    *is_labelled = !json_is_null(json);
    return *is_labelled ? judged(label_read(json, label, &why), &why, err) : SUCCESS;
}

static struct result read_place(struct place *place, const json_t *json, struct error *err)
{
    const json_t *before = json_object_get(json, "before");
    const char *scope = json_text_of(json, "scope");

    (void)uuid_parse(bytes_of_text(json_text_of(json, "project")), &place->project); /* the shape has read it */
    place->exceptions = policy_set_exceptions(place->replay->set, &place->project, &place->exception_count);
    if (scope != NULL) place->scope = scope;
    place->has_before = before != NULL;
    if (place->has_before) TRY(read_label(before, &place->before, &place->was_labelled, err));
    return read_label(json_object_get(json, "label"), &place->label, &place->is_labelled, err);
}

static struct result replay_place(struct place *place, const json_t *json, bool lacks_digest, struct error *err)
{
    const json_t *operations = json_object_get(json, "operations");

    TRY(read_place(place, json, err));
    if (lacks_digest && place->exception_count > 0)
        return failure(err, ERROR_NOT_FOUND, "the event had no room for the digest that exceptions look at");
    TRY(check_label(place, err));
    for (size_t i = 0; i < json_array_size(operations); i++) TRY(replay_operation(place, json_array_get(operations, i), err));
    return SUCCESS;
}

/* --- one target --- */

static unsigned operations_of(const char *name)
{
    static const struct {
        const char *name;
        unsigned operations;
    } actions[] = {
#define X(constant, name, ocsf_type, operations) {name, operations},
#include "audit/actions.def"
#undef X
    };

    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].name, name) == 0) return actions[i].operations;
    return OP_NONE;
}

static bool is_labelling(const char *action)
{
    return strcmp(action, "project.label") == 0 || strcmp(action, "repository.label") == 0;
}

static unsigned asked_operations(const json_t *place)
{
    const json_t *operations = json_object_get(place, "operations");
    unsigned asked = OP_NONE;

    for (size_t i = 0; i < json_array_size(operations); i++)
        asked |= 1U << word_index(operation_names, json_text_of(json_array_get(operations, i), "op"));
    return asked;
}

/* What was allowed was asked in full: nobody leaves out the one operation that would have denied it. */
static struct result require_whole(const json_t *json, struct error *err)
{
    const char *action = json_text_of(json, "action");
    const json_t *judged = json_object_get(json, "judged");
    const unsigned wanted = operations_of(action);
    const bool is_whole = wanted == OP_NONE ? json_array_size(judged) == 0
                                            : json_array_size(judged) == 1 && asked_operations(json_array_get(judged, 0)) == wanted;

    if (json_array_size(json_object_get(json, "refused")) > 0 || is_labelling(action) || is_whole) return SUCCESS;
    return differs(err, "policies were not asked for all operations of", action);
}

static struct result require_set(struct replay *replay, struct error *err)
{
    const char *digest = replay->leaf->reason.policy;

    if (digest[0] == '\0') return failure(err, ERROR_DENIED, "policies were asked, but no set of them was in force");
    replay->lacks_set = replay->set == NULL;
    if (replay->lacks_set) return failure(err, ERROR_NOT_FOUND, "the policy set %s is not at hand", digest);
    if (strcmp(policy_set_digest(replay->set), digest) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "another policy set was in force: %s", digest);
}

/* The first word behind the name, if it is a digest. */
static bool find_digest(const char *resource, char digest_out[SHA_TEXT_SIZE])
{
    const char *detail = strchr(resource, '#');
    const size_t length = detail == NULL ? 0 : strcspn(++detail, " ");

    if (length != SHA_TEXT_SIZE - 1 || strncmp(detail, "sha256:", 7) != 0) return false;
    memcpy(digest_out, detail, length);
    digest_out[length] = '\0';
    return true;
}

struct result replay_places(struct replay *replay, size_t target, const json_t *json, struct error *err)
{
    const char *resource = replay->leaf->targets[target].resource;
    const json_t *places = json_object_get(json, "judged");
    char scope[LEAF_RESOURCE_MAX + 1], digest[SHA_TEXT_SIZE];
    const bool has_digest = find_digest(resource, digest), knew = json_is_true(json_object_get(json, "digest"));

    TRY(require_whole(json, err));
    if (json_array_size(places) > 0) TRY(require_set(replay, err));
    memcpy(scope, resource, strcspn(resource, "#"));
    scope[strcspn(resource, "#")] = '\0';
    for (size_t i = 0; i < json_array_size(places); i++) {
        struct place place = {.replay = replay, .scope = scope, .digest = knew && has_digest ? digest : NULL};
        TRY(replay_place(&place, json_array_get(places, i), knew && !has_digest, err));
    }
    return SUCCESS;
}

/* Evaluates the policies again for one target of an event, with the set that was in force. */
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "policy/evaluate.h"
#include "policy/replay_priv.h"
#include "policy/set_priv.h"
#include "policy/shape_priv.h"

/* One entry of the facts: a name with its label. */
struct facts_view {
    struct replay *replay;
    const char *scope, *digest; /* digest: NULL if it was not known at the decision */
    struct uuid project;
    struct label label, before;
    bool is_labelling, is_labelled, has_before, was_labelled;
    const struct policy_documents *documents; /* of the set, and restrictions of the organisation */
    size_t exception_count;                   /* those of the set for the project, without the ones that were used up */
    const struct policy_exception *exceptions[POLICY_LIST_MAX];
    size_t used_count;
    const struct policy_exception *used[POLICY_LIST_MAX];
    const json_t *told; /* NULL: the facts name nobody, or are too old to */
    bool is_told[FACTS_TOLD_MAX];
};

static struct result differs(struct error *err, const char *what, const char *of)
{
    return failure(err, ERROR_DENIED, "%s: %.120s", what, of);
}

/* The evaluator did not fail at the decision. So any failure now, other than lack of memory, means that the facts differ. */
static struct result as_difference(struct result result, const struct error *why, struct error *err)
{
    if (result.ok) return SUCCESS;
    if (why->kind == ERROR_NO_MEMORY) return failure(err, why->kind, "%s", why->message);
    return differs(err, "it can't have been decided on these facts", why->message);
}

/* --- checks of the facts against the set --- */

static const struct policy_target *network_of(const struct policy_set *set, const char *name)
{
    const struct set_network *place = set_place(set, name);

    return place == NULL ? NULL : place->target;
}

static struct result check_target(const struct policy_set *set, const struct policy_facts *facts, struct error *err)
{
    const struct policy_target *known = NULL;

    if ((facts->op & OP_OF_CLIENTS) != 0) known = network_of(set, facts->target_id);
    else if (facts->op == OP_TRAIN) known = policy_set_runner_named(set, facts->target_id, facts->now_us);
    else known = policy_set_region(set, facts->target_id, facts->now_us);

    if (known == NULL) known = policy_set_unknown(set);
    if (strcmp(policy_target_canonical(known), policy_target_canonical(facts->target)) == 0) return SUCCESS;
    return differs(err, "the policy set says something else than the facts of", facts->target_id);
}

/* The label must be at least as strict as the floors of the policies in scope. */
static struct result check_label(const struct facts_view *entry, struct error *err)
{
    const struct label_query where = {.documents = policy_set_documents(entry->replay->set),
                                      .scope = entry->scope,
                                      .now_us = (int64_t)entry->replay->leaf->reason.decided_ms * 1000};
    struct label floor;
    bool is_floor = false;
    struct error why;

    TRY(as_difference(policy_effective_label(&where, NULL, &floor, &is_floor, &why), &why, err));
    floor.lineage = LINEAGE_ATTESTED; /* the least strict value, because floors of policies state no lineage */
    if (!is_floor || (entry->is_labelled && label_covers(&entry->label, &floor))) return SUCCESS;
    return differs(err, "the policy set gives a stricter label than the facts give to", entry->scope);
}

/* --- evaluating again --- */

static struct result decide(const struct facts_view *entry, const struct label *label, const struct policy_facts *asked,
                            struct policy_decision **decision_out, struct error *err)
{
    const struct policy_set *set = entry->replay->set;
    struct policy_facts facts = *asked;
    struct error why;

    facts.scope = entry->scope;
    facts.digest = entry->digest;
    facts.project = entry->project;
    facts.policy_epoch = policy_set_epoch(set);
    facts.label = label;
    facts.now_us = (int64_t)entry->replay->leaf->reason.decided_ms * 1000;
    facts.exceptions = entry->exceptions;
    facts.exception_count = entry->exception_count;
    return as_difference(policy_evaluate(entry->documents, &facts, policy_set_groups(set), decision_out, &why), &why, err);
}

static void note_all(struct replay *replay, const struct policy_decision *decision)
{
    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        replay_note(replay, denial->rule, denial->policy);
    }
}

/* For a new label: notes the first rule of a policy that denies with the new label and did not deny without it. */
static void note_added(struct replay *replay, const struct policy_decision *before, const struct policy_decision *after)
{
    for (size_t i = 0; i < policy_decision_denial_count(after); i++) {
        const struct policy_denial *denial = policy_decision_denial(after, i);
        if (!policy_denial_is_new(before, denial)) continue;
        replay_note(replay, denial->rule, denial->policy);
        return;
    }
}

static void note_used(struct facts_view *entry, const struct policy_decision *decision)
{
    for (size_t i = 0; i < policy_decision_lifted_count(decision); i++) {
        const struct policy_exception *exception = entry->exceptions[policy_decision_lifted(decision, i)];
        size_t known = 0;
        while (known < entry->used_count && entry->used[known] != exception) known++;
        if (known == entry->used_count) entry->used[entry->used_count++] = exception;
    }
}

/* Facts of before a log's first restriction may lack the names, because older gateways did not write them. */
static bool may_be_silent(const struct facts_view *entry)
{
    const struct replay *replay = entry->replay;

    return entry->told == NULL && (replay->told_from == 0 || replay->leaf->sequence <= replay->told_from);
}

/* Names in facts are sorted, each once, and a list of the duties is a part of them. */
static struct result note_told(struct facts_view *entry, const struct policy_decision *decision, struct error *err)
{
    for (size_t i = 0; i < policy_decision_told_count(decision) && !may_be_silent(entry); i++) {
        size_t at = 0;
        while (at < json_array_size(entry->told) &&
               strcmp(json_string_value(json_array_get(entry->told, at)), policy_decision_told(decision, i)) != 0)
            at++;
        if (at == json_array_size(entry->told))
            return differs(err, "a duty wants somebody told whom the facts leave out, for", entry->scope);
        entry->is_told[at] = true;
    }
    return SUCCESS;
}

static struct result ask(struct facts_view *entry, const struct policy_facts *facts, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;
    OWNED(policy_decision) *before = NULL;

    TRY(check_target(entry->replay->set, facts, err));
    TRY(decide(entry, entry->is_labelled ? &entry->label : NULL, facts, &decision, err));
    if (!entry->has_before) {
        note_used(entry, decision);
        TRY(note_told(entry, decision, err));
        note_all(entry->replay, decision);
        return SUCCESS;
    }
    TRY(decide(entry, entry->was_labelled ? &entry->before : NULL, facts, &before, err));
    note_added(entry->replay, before, decision);
    return SUCCESS;
}

static struct result replay_operation(struct facts_view *entry, const json_t *json, struct error *err)
{
    OWNED(policy_target) *target = NULL;
    struct policy_facts facts = {.op = (enum policy_operation)(1U << word_index(operation_names, json_text_of(json, "op"))),
                                 .target_id = json_text_of(json, "target_id")};
    struct error why;

    TRY(as_difference(policy_target_new(json_object_get(json, "target"), &target, &why), &why, err));
    facts.target = target;
    return ask(entry, &facts, err);
}

/* --- reading entries --- */

static struct result read_label(const json_t *json, struct label *label, bool *is_labelled, struct error *err)
{
    struct error why;

    *is_labelled = !json_is_null(json);
    return *is_labelled ? as_difference(label_read(json, label, &why), &why, err) : SUCCESS;
}

/* In an event, each byte that an event can't hold is replaced by '?'. */
static bool is_written_as(const char *scope, const char *name)
{
    bool is_changed = false;

    for (; *scope != '\0' && *name != '\0'; scope++, name++) {
        const bool is_plain = *scope >= 0x20 && *scope < 0x7f && strchr("\"\\#", *scope) == NULL;
        if (*name != (is_plain ? *scope : '?')) return false;
        is_changed = is_changed || !is_plain;
    }
    return is_changed && *scope == *name;
}

/* The event gives the name for which policies were evaluated: the facts may have another byte only where the event has
 * '?'. */
static struct result check_scope(const struct facts_view *entry, const char *scope, struct error *err)
{
    const size_t length = strlen(entry->scope);
    const bool is_of_many = entry->is_labelling && length > 0 && strchr(entry->scope, '/') == NULL;

    if (is_of_many && scope != NULL && strncmp(scope, entry->scope, length) == 0 && scope[length] == '/' &&
        scope[length + 1] != '\0' && strchr(scope + length + 1, '/') == NULL)
        return SUCCESS;
    if (!is_of_many && (scope == NULL || is_written_as(scope, entry->scope))) return SUCCESS;
    return differs(err, "policies were asked for another name than that of the event", scope == NULL ? entry->scope : scope);
}

static bool has_key(const struct policy_exception *exception, const json_t *text)
{
    uint8_t key[SHA256_SIZE];

    return text_from_hex(bytes_of_text(json_string_value(text) + strlen("sha256:")), key, sizeof key) &&
           memcmp(key, exception->key, sizeof key) == 0;
}

/* Only a number of uses that the exception states can be used up. */
static struct result read_exceptions(struct facts_view *entry, const json_t *spent, struct error *err)
{
    size_t count = 0, left_out = 0;
    const struct policy_exception *const *all = policy_set_exceptions(entry->replay->set, &entry->project, &count);

    for (size_t i = 0; i < count && i < POLICY_LIST_MAX; i++) {
        bool is_spent = false;
        for (size_t j = 0; j < json_array_size(spent) && all[i]->uses < INT64_MAX && !is_spent; j++)
            is_spent = has_key(all[i], json_array_get(spent, j));
        if (!is_spent) entry->exceptions[entry->exception_count++] = all[i];
        left_out += is_spent;
    }
    if (left_out == json_array_size(spent)) return SUCCESS;
    return differs(err, "the facts say that an exception was used up which the policy set does not have for", entry->scope);
}

/* The exceptions without which it would have been denied, in the order in which they lifted a rule. Older facts do not name them, and older events do not
 * count their use. */
static struct result check_used(const struct facts_view *entry, const json_t *used, struct error *err)
{
    bool is_same = json_array_size(used) == entry->used_count;

    if (used == NULL && strncmp(entry->replay->leaf->reason.note, "use", 3) != 0) return SUCCESS;
    for (size_t i = 0; i < entry->used_count && is_same; i++) {
        const json_t *each = json_array_get(used, i);
        is_same = has_key(entry->used[i], json_object_get(each, "exception")) &&
                  strcmp(json_text_of(each, "id"), entry->used[i]->id) == 0 &&
                  json_equal(json_object_get(each, "evidence"), entry->used[i]->evidence) == 1;
        entry->replay->uses_max = entry->used[i]->uses > entry->replay->uses_max ? entry->used[i]->uses : entry->replay->uses_max;
    }
    return is_same ? SUCCESS : differs(err, "other exceptions have lifted rules than the facts say, for", entry->scope);
}

static struct result check_told(const struct facts_view *entry, struct error *err)
{
    for (size_t i = 0; i < json_array_size(entry->told); i++)
        if (!entry->is_told[i]) return differs(err, "the facts name somebody whom no duty wants told, for", entry->scope);
    return SUCCESS;
}

static struct result read_entry(struct facts_view *entry, const json_t *json, struct error *err)
{
    const json_t *before = json_object_get(json, "before");
    const char *scope = json_text_of(json, "scope");

    TRY(check_scope(entry, scope, err));
    (void)uuid_parse(bytes_of_text(json_text_of(json, "project")), &entry->project); /* the shape has checked it */
    TRY(read_exceptions(entry, json_object_get(json, "spent"), err));
    if (scope != NULL) entry->scope = scope;
    entry->told = json_object_get(json, "told");
    entry->has_before = before != NULL;
    if (entry->has_before) TRY(read_label(before, &entry->before, &entry->was_labelled, err));
    return read_label(json_object_get(json, "label"), &entry->label, &entry->is_labelled, err);
}

/* Also without any in the facts: one that was in force must not be left out. */
static struct result find_documents(struct facts_view *entry, const json_t *digests, struct error *err)
{
    const struct replay *replay = entry->replay;
    const char *outcome = replay->leaf->outcome;
    const struct replay_restrictions_query query = {replay->set, entry->scope, digests, replay->leaf->sequence,
                                                    strcmp(outcome, "allowed") == 0 || strcmp(outcome, "denied") == 0};
    const struct result joined = replay_restrictions_join(replay->restrictions, &query, &entry->documents, err);

    if (!joined.ok && err->kind == ERROR_NOT_FOUND) entry->replay->lacks_restriction = true;
    if (!joined.ok && (err->kind == ERROR_LIMIT || err->kind == ERROR_INVALID)) err->kind = ERROR_DENIED;
    return joined;
}

static struct result replay_entry(struct facts_view *entry, const json_t *json, bool lacks_digest, struct error *err)
{
    const json_t *operations = json_object_get(json, "operations");

    TRY(read_entry(entry, json, err));
    TRY(find_documents(entry, json_object_get(json, "restrictions"), err));
    if (lacks_digest && entry->exception_count > 0)
        return failure(err, ERROR_NOT_FOUND, "the event had no room for the digest that exceptions look at");
    TRY(check_label(entry, err));
    for (size_t i = 0; i < json_array_size(operations); i++) TRY(replay_operation(entry, json_array_get(operations, i), err));
    TRY(check_told(entry, err));
    return check_used(entry, json_object_get(json, "used"), err);
}

/* --- one target --- */

static bool find_operations(const char *name, unsigned *operations_out)
{
    static const struct {
        const char *name;
        unsigned operations;
    } actions[] = {
#define X(constant, name, ocsf_type, operations, permitted) {name, operations},
#include "audit/actions.def"
#undef X
    };

    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(actions[i].name, name) != 0) continue;
        *operations_out = actions[i].operations;
        return true;
    }
    return false;
}

static bool is_labelling(const char *action)
{
    return strcmp(action, "project.label") == 0 || strcmp(action, "repository.label") == 0;
}

static unsigned asked_operations(const json_t *entry)
{
    const json_t *operations = json_object_get(entry, "operations");
    unsigned asked = OP_NONE;

    for (size_t i = 0; i < json_array_size(operations); i++)
        asked |= 1U << word_index(operation_names, json_text_of(json_array_get(operations, i), "op"));
    return asked;
}

/* Whether each operation occurs once, in the order of enum policy_operation, and is an operation of the action. */
static bool is_in_order(const json_t *entry, unsigned wanted)
{
    const json_t *operations = json_object_get(entry, "operations");
    unsigned before = OP_NONE;

    for (size_t i = 0; i < json_array_size(operations); i++) {
        const unsigned op = 1U << word_index(operation_names, json_text_of(json_array_get(operations, i), "op"));
        if (op <= before || (op & wanted) == 0) return false;
        before = op;
    }
    return true;
}

/* A label of an organisation is evaluated for each of its projects. The event does not state the number of projects. */
static bool is_whole(const json_t *judged, unsigned wanted, bool is_of_many)
{
    const size_t count = json_array_size(judged);

    if (wanted == OP_NONE) return count == 0;
    if (!is_of_many && count != 1) return false;
    for (size_t i = 0; i < count; i++)
        if (asked_operations(json_array_get(judged, i)) != wanted) return false;
    return true;
}

/* An allowed pair must have all operations of its action: facts that leave out a denied operation are refused. */
static struct result require_whole(const struct replay *replay, const json_t *json, const char *name, struct error *err)
{
    const char *action = json_text_of(json, "action"), *outcome = replay->leaf->outcome;
    const json_t *judged = json_object_get(json, "judged");
    const bool labels = is_labelling(action), is_done = strcmp(outcome, "allowed") == 0 || strcmp(outcome, "completed") == 0;
    unsigned wanted = OP_NONE;

    if (!find_operations(action, &wanted)) return differs(err, "this program knows no such action; a newer one may", action);
    for (size_t i = 0; i < json_array_size(judged); i++) {
        const json_t *entry = json_array_get(judged, i);
        if (!is_in_order(entry, wanted)) return differs(err, "policies were asked for other operations than those of", action);
        if ((json_object_get(entry, "before") != NULL) != labels)
            return differs(err, labels ? "the facts lack the earlier label in" : "no label was compared in", action);
    }
    if (json_array_size(json_object_get(json, "refused")) > 0) return SUCCESS;
    if (labels && (!is_done || replay->leaf->reason.policy[0] == '\0'))
        return SUCCESS; /* nothing was changed, or no set was in force */
    const bool is_of_many = labels && strchr(name, '/') == NULL;
    if (!is_whole(judged, wanted, is_of_many)) return differs(err, "policies were not asked for all operations of", action);
    if (!is_of_many || json_array_size(judged) > 0) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "the event does not show that the organisation had no project");
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

/* The first word after the name, if it is a digest. */
static bool find_digest(const char *resource, char digest_out[SHA_TEXT_SIZE])
{
    const char *detail = strchr(resource, '#');
    const size_t length = detail == NULL ? 0 : strcspn(++detail, " ");

    if (length != SHA_TEXT_SIZE - 1 || strncmp(detail, "sha256:", 7) != 0) return false;
    memcpy(digest_out, detail, length);
    digest_out[length] = '\0';
    return true;
}

struct result replay_entries(struct replay *replay, size_t target, const json_t *json, struct error *err)
{
    const char *resource = replay->leaf->targets[target].resource;
    const json_t *entries = json_object_get(json, "judged");
    char scope[LEAF_RESOURCE_MAX + 1], digest[SHA_TEXT_SIZE];
    const bool has_digest = find_digest(resource, digest), knew = json_is_true(json_object_get(json, "digest"));

    memcpy(scope, resource, strcspn(resource, "#"));
    scope[strcspn(resource, "#")] = '\0';
    TRY(require_whole(replay, json, scope, err));
    if (knew && !has_digest && (target == 0 || strchr(resource, '#') != NULL))
        return differs(err, "the facts say that the digest was known, and the event has none", resource);
    if (json_array_size(entries) > 0) TRY(require_set(replay, err));
    for (size_t i = 0; i < json_array_size(entries); i++) {
        struct facts_view entry = {.replay = replay,
                                   .scope = scope,
                                   .digest = knew && has_digest ? digest : NULL,
                                   .is_labelling = is_labelling(json_text_of(json, "action"))};
        TRY(replay_entry(&entry, json_array_get(entries, i), knew && !has_digest, err));
    }
    return SUCCESS;
}

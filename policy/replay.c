#include "policy/replay.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "policy/replay_priv.h"
#include "policy/shape_priv.h"

#define RULE_OF_LIMIT "SYS-LIMIT" /* found after the policies were evaluated, so it comes last */

static void copy(char *destination, size_t size, const char *text)
{
    (void)snprintf(destination, size, "%.*s", (int)(size - 1), text);
}

void replay_note(struct replay *replay, const char *rule, const char *policy)
{
    for (size_t i = 0; i < replay->denial_count; i++)
        if (strcmp(replay->denials[i].rule, rule) == 0 && strcmp(replay->denials[i].policy, policy) == 0) return;
    if (replay->denial_count == DENIALS_MAX) return;
    copy(replay->denials[replay->denial_count].rule, sizeof replay->denials[0].rule, rule);
    copy(replay->denials[replay->denial_count++].policy, sizeof replay->denials[0].policy, policy);
}

static void note_refused(struct replay *replay, const json_t *refused, bool is_of_limit)
{
    for (size_t i = 0; i < json_array_size(refused); i++) {
        const char *rule = json_string_value(json_array_get(refused, i));
        if ((strcmp(rule, RULE_OF_LIMIT) == 0) == is_of_limit) replay_note(replay, rule, "sys");
    }
}

/* The rules by which the system refuses, in the order in which a decision meets them; at most one of each rank. */
static int rank_of(const char *rule)
{
    static const struct {
        const char *rule;
        int rank;
    } rules[] = {{"SYS-NO-CREDENTIAL", 1}, {"SYS-NOT-LIVE", 1},   {"SYS-SCOPE", 1},         {"SYS-NO-BINDING", 1},
                 {"SYS-GRANT", 1},         {"SYS-SELF-GRANT", 1}, {"SYS-BOTH-OFFICERS", 1}, {"SYS-STALE", 2},
                 {"SYS-NOT-FOUND", 2},     {"SYS-QUARANTINE", 2}, {"SYS-DRAINING", 2},      {"SYS-RETIRED", 2},
                 {"SYS-NOT-CURRENT", 2},   {"SYS-MISPLACED", 2},  {"SYS-NO-POLICY", 3},     {RULE_OF_LIMIT, 4}};

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strcmp(rules[i].rule, rule) == 0) return rules[i].rank;
    return 0;
}

static struct result check_refused(const struct leaf *leaf, const json_t *refused, struct error *err)
{
    int before = 0;

    for (size_t i = 0; i < json_array_size(refused); i++) {
        const char *rule = json_string_value(json_array_get(refused, i));
        const int rank = rank_of(rule);
        if (rank <= before) return failure(err, ERROR_DENIED, "no decision is refused by these rules in this order: %.64s", rule);
        if (strcmp(rule, "SYS-NO-POLICY") == 0 && leaf->reason.policy[0] != '\0')
            return failure(err, ERROR_DENIED, "the facts say that no policy set was in force, and the event names one");
        before = rank;
    }
    return SUCCESS;
}

/* --- facts --- */

static struct result require_committed(const struct leaf *leaf, size_t target, struct bytes facts, struct error *err)
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(facts, digest);
    if (memcmp(digest, leaf->facts[target], sizeof digest) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the facts of its target %zu are not those that the event commits to", target + 1);
}

static struct result read_facts(struct replay *replay, size_t target, struct bytes facts, json_t **json_out, struct error *err)
{
    const struct leaf *leaf = replay->leaf;
    OWNED_JSON json = NULL;
    struct error why;

    TRY(require_committed(leaf, target, facts, err));
    struct result read = json_read(facts, REPLAY_FACTS_MAX, &json, &why);
    if (read.ok) read = shape_check(&shape_pair_facts, json, "facts", &why);
    if (!read.ok && why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    if (!read.ok) return failure(err, ERROR_DENIED, "the event commits to a text that is not facts: %.180s", why.message);
    if (strcmp(json_text_of(json, "action"), leaf->targets[target].action) != 0)
        return failure(err, ERROR_DENIED, "the facts of its target %zu are of another action", target + 1);
    TRY(check_refused(leaf, json_object_get(json, "refused"), err));
    if (json_is_false(json_object_get(json, "omitted")) ||
        (json_object_get(json, "omitted") != NULL && json_array_size(json_object_get(json, "judged")) > 0))
        return failure(err, ERROR_DENIED, "the facts of its target %zu are marked as left out, and are there", target + 1);
    replay->is_omitted = json_object_get(json, "omitted") != NULL;
    if (replay->is_omitted) return failure(err, ERROR_NOT_FOUND, "its facts were too large to keep");
    *json_out = GIVE(json);
    return SUCCESS;
}

static struct result replay_target(struct replay *replay, size_t target, struct bytes facts, struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(read_facts(replay, target, facts, &json, err));
    note_refused(replay, json_object_get(json, "refused"), false);
    TRY(replay_entries(replay, target, json, err));
    note_refused(replay, json_object_get(json, "refused"), true);
    return SUCCESS;
}

/* --- the verdict in the event --- */

/* An event has at most four rules, or one if there was no room for more. */
static bool has_rules_of(const struct leaf *leaf, const struct replay *replay)
{
    const size_t count = leaf->reason.rule_count;
    const size_t whole = replay->denial_count < LEAF_RULES_MAX ? replay->denial_count : LEAF_RULES_MAX;

    if (count != whole && !(count == 1 && whole > 1)) return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(leaf->reason.rules[i], replay->denials[i].rule) != 0) return false;
    return true;
}

/* "use 3 of ID": an exception allows no use after its last one. */
static struct result check_number(const struct replay *replay, struct error *err)
{
    struct bytes rest = bytes_of_text(replay->leaf->reason.note);
    uint64_t number = 0;

    if (!bytes_equal(text_cut(&rest, ' '), bytes_of_text("use"))) return SUCCESS;
    if (!text_to_u64(text_cut(&rest, ' '), INT64_MAX, &number) || (int64_t)number <= replay->uses_max) return SUCCESS;
    return failure(err, ERROR_DENIED, "it was use %llu of an exception that allows %lld", (unsigned long long)number,
                   (long long)replay->uses_max);
}

static struct result compare(const struct replay *replay, struct error *err)
{
    const struct leaf *leaf = replay->leaf;
    TRY(check_number(replay, err));
    const bool is_denied = strcmp(leaf->outcome, "denied") == 0, denies = replay->denial_count > 0;

    if (is_denied != denies)
        return failure(err, ERROR_DENIED, "the event says that it was %s; the facts lead to %s%.64s", leaf->outcome,
                       denies ? "a denial by " : "no denial", denies ? replay->denials[0].rule : "");
    if (has_rules_of(leaf, replay)) return SUCCESS;
    return failure(err, ERROR_DENIED, "other rules deny it than the event says: %.64s is the first",
                   denies ? replay->denials[0].rule : "none");
}

static struct result require_replayable(const struct leaf *leaf, struct error *err)
{
    if (leaf->version == 1) return failure(err, ERROR_NOT_FOUND, "an event of version 1 has no facts");
    if (leaf->facts_count == 0 && leaf->reason.decision[0] == '\0')
        return failure(err, ERROR_NOT_FOUND, "nothing was decided: the server did it by itself");
    if (leaf->facts_count == 0 && leaf->target_count < LEAF_TARGETS_MAX)
        return failure(err, ERROR_DENIED, "the event lacks its facts, and had room for them");
    if (leaf->facts_count == 0) return failure(err, ERROR_NOT_FOUND, "the event had no room for its facts");
    return SUCCESS;
}

static struct result require_facts(struct replay *replay, size_t facts_count, struct error *err)
{
    replay->is_missing = facts_count != replay->leaf->facts_count;
    if (!replay->is_missing) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "%zu of its %zu facts are at hand", facts_count, replay->leaf->facts_count);
}

static struct result replay_event(struct replay *replay, const struct bytes *facts, size_t facts_count, struct error *err)
{
    TRY(require_replayable(replay->leaf, err));
    TRY(require_facts(replay, facts_count, err));
    for (size_t i = 0; i < facts_count; i++) TRY(replay_target(replay, i, facts[i], err));
    return compare(replay, err);
}

struct result policy_replay(const struct leaf *leaf, const struct bytes *facts, size_t facts_count,
                            const struct replay_base *base, struct replay_report *report_out, struct error *err)
{
    struct replay replay = {.leaf = leaf, .set = base->set, .restrictions = base->restrictions, .told_from = base->told_from};
    struct error why = {0};
    const struct result replayed = replay_event(&replay, facts, facts_count, &why);

    if (!replayed.ok && why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    *report_out = (struct replay_report){.verdict = REPLAY_AGREES,
                                         .is_missing = replay.is_missing,
                                         .is_omitted = replay.is_omitted,
                                         .lacks_set = replay.lacks_set,
                                         .lacks_restriction = replay.lacks_restriction};
    if (replayed.ok) return SUCCESS;
    report_out->verdict = why.kind == ERROR_NOT_FOUND ? REPLAY_IMPOSSIBLE : REPLAY_DIFFERS;
    copy(report_out->what, sizeof report_out->what, why.message);
    return SUCCESS;
}

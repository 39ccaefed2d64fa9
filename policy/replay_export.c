#include "policy/replay_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/replay_priv.h"

/* Canonical JSON has one form, so parsing and writing gives the same bytes. */
struct exported {
    struct buffer entry, facts[LEAF_TARGETS_MAX];
    struct bytes views[LEAF_TARGETS_MAX];
    size_t facts_count;
};

static void exported_done(struct exported *exported)
{
    buffer_done(&exported->entry);
    for (size_t i = 0; i < LEAF_TARGETS_MAX; i++) buffer_done(&exported->facts[i]);
}

static struct result read_facts(const json_t *list, struct exported *exported, struct error *err)
{
    const size_t count = json_array_size(list);

    if (!json_is_array(list) || count > LEAF_TARGETS_MAX)
        return failure(err, ERROR_INVALID, "its member \"facts\" is not the list of its targets' facts");
    for (size_t i = 0; i < count; i++) {
        const json_t *facts = json_array_get(list, i);
        if (json_is_null(facts)) return SUCCESS; /* without these facts the later ones can't be used */
        TRY(json_write_canonical(&exported->facts[i], facts, err));
        exported->views[i] = buffer_bytes(&exported->facts[i]);
        exported->facts_count++;
    }
    return SUCCESS;
}

static struct result read_line(struct bytes line, struct exported *exported, struct leaf *leaf, struct error *err)
{
    OWNED_JSON json = NULL;

    TRY(json_read(line, REPLAY_LINE_MAX, &json, err));
    const json_t *entry = json_object_get(json, "entry");
    if (entry == NULL) return failure(err, ERROR_INVALID, "it has no member \"entry\"");
    TRY(json_write_canonical(&exported->entry, entry, err));
    TRY(leaf_read(buffer_bytes(&exported->entry), leaf, err));
    return read_facts(json_object_get(json, "facts"), exported, err);
}

static const struct policy_set *find_set(const struct replay_sets *sets, const char *digest)
{
    for (size_t i = 0; i < sets->count; i++)
        if (strcmp(policy_set_digest(sets->sets[i]), digest) == 0) return sets->sets[i];
    return NULL;
}

/* "the restriction sha256:... is not at hand", or a set. */
static void note_lacking(const struct leaf *leaf, const struct replay_report *report, struct replay_tally *tally)
{
    static const char before[] = "the restriction ";

    if (!report->lacks_set && !report->lacks_restriction) return;
    if (tally->lacking_set++ > 0) return;
    (void)snprintf(tally->set, sizeof tally->set, "%.71s",
                   report->lacks_set ? leaf->reason.policy : report->what + sizeof before - 1);
}

static void count(const struct leaf *leaf, const struct replay_report *report, struct replay_tally *tally)
{
    switch (report->verdict) {
    case REPLAY_AGREES: tally->agree++; return;
    case REPLAY_DIFFERS:
        if (tally->differ++ > 0) return;
        tally->first = leaf->sequence;
        memcpy(tally->what, report->what, sizeof tally->what);
        return;
    case REPLAY_IMPOSSIBLE: break;
    }
    tally->impossible++;
    tally->old += leaf->version == 1;
    tally->omitted += report->is_omitted;
    if (report->is_missing && tally->missing++ == 0) tally->first_missing = leaf->sequence;
    note_lacking(leaf, report, tally);
}

/* The epoch of the set that an event has loaded; 0 if it is no such event. Its detail: docs/formats/audit-log.md section 13. */
static uint64_t loaded_epoch(const struct leaf *leaf)
{
    const char *detail = strchr(leaf->targets[0].resource, ' ');
    uint64_t epoch = 0;

    if (strcmp(leaf->targets[0].action, "policy.load") != 0 || strcmp(leaf->outcome, "allowed") != 0 || detail == NULL) return 0;
    const struct bytes number = {(const uint8_t *)detail + 1, strcspn(detail + 1, " ")};
    return text_to_u64(number, LEAF_INTEGER_MAX, &epoch) ? epoch : 0;
}

/*
 * A decision counts only under the set that was in force when it was recorded. An operation that was permitted before may be
 * completed afterwards.
 */
static void check_age(const struct leaf *leaf, const struct policy_set *set, const struct replay_tally *tally,
                      struct replay_report *report)
{
    const bool is_new = strcmp(leaf->outcome, "allowed") == 0 || strcmp(leaf->outcome, "denied") == 0;

    if (report->verdict != REPLAY_AGREES || set == NULL || !is_new || leaf->sequence <= tally->loaded_at ||
        policy_set_epoch(set) >= tally->loaded_epoch)
        return;
    report->verdict = REPLAY_DIFFERS;
    (void)snprintf(report->what, sizeof report->what,
                   "it was decided under an older policy set than the one that event %" PRIu64 " loaded", tally->loaded_at);
}

static void note_load(const struct leaf *leaf, struct replay_tally *tally)
{
    const uint64_t epoch = loaded_epoch(leaf);

    if (epoch <= tally->loaded_epoch) return;
    tally->loaded_epoch = epoch;
    tally->loaded_at = leaf->sequence;
}

static struct result replay(struct bytes line, const struct replay_sets *sets, struct exported *exported,
                            struct replay_tally *tally, struct error *err)
{
    struct leaf leaf;
    struct replay_report report;

    TRY(read_line(line, exported, &leaf, err));
    const struct policy_set *set = find_set(sets, leaf.reason.policy);
    const uint64_t proven = replay_restrictions_first(sets->restrictions), seen = tally->restricted_at;
    const struct replay_base base = {set, sets->restrictions, seen == 0 || (proven != 0 && proven < seen) ? proven : seen};
    TRY(policy_replay(&leaf, exported->views, exported->facts_count, &base, &report, err));
    check_age(&leaf, set, tally, &report);
    note_load(&leaf, tally);
    replay_restrictions_note(sets->restrictions, &leaf);
    if (tally->restricted_at == 0 && replay_restriction_is_noted(&leaf)) tally->restricted_at = leaf.sequence;
    count(&leaf, &report, tally);
    return SUCCESS;
}

struct result replay_export_line(struct bytes line, const struct replay_sets *sets, struct replay_tally *tally, struct error *err)
{
    struct exported exported = {.entry = BUFFER(LEAF_MAX)};

    for (size_t i = 0; i < LEAF_TARGETS_MAX; i++) exported.facts[i] = BUFFER(REPLAY_LINE_MAX);
    const struct result replayed = replay(line, sets, &exported, tally, err);
    exported_done(&exported);
    return replayed;
}

bool replay_is_sound(const struct replay_tally *tally)
{
    return tally->differ == 0 && tally->missing == 0 && tally->lacking_set == 0;
}

struct result replay_tally_text(const struct replay_tally *tally, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "%" PRIu64 " decisions agree, %" PRIu64 " differ, %" PRIu64 " events are not replayable",
                      tally->agree, tally->differ, tally->impossible));
    TRY(buffer_format(text, err,
                      " (%" PRIu64 " of version 1, %" PRIu64 " whose facts were left out, %" PRIu64
                      " whose facts are gone, %" PRIu64 " whose policy set is not at hand)\n",
                      tally->old, tally->omitted, tally->missing, tally->lacking_set));
    if (tally->differ > 0) TRY(buffer_format(text, err, "first to differ: event %" PRIu64 ": %s\n", tally->first, tally->what));
    if (tally->missing > 0)
        TRY(buffer_format(text, err, "first whose facts are gone: event %" PRIu64 "\n", tally->first_missing));
    return tally->lacking_set == 0 ? SUCCESS : buffer_format(text, err, "first missing policy set: %s\n", tally->set);
}

struct result replay_tally_json(const struct replay_tally *tally, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "{\"agree\":%" PRIu64 ",\"differ\":%" PRIu64, tally->agree, tally->differ));
    if (tally->differ > 0) {
        TRY(buffer_format(text, err, ",\"first\":{\"seq\":%" PRIu64 ",\"what\":", tally->first));
        TRY(json_write_string(text, bytes_of_text(tally->what), err));
        TRY(buffer_add_u8(text, '}', err));
    }
    if (tally->missing > 0) TRY(buffer_format(text, err, ",\"first_missing\":%" PRIu64, tally->first_missing));
    if (tally->lacking_set > 0) TRY(buffer_format(text, err, ",\"missing_set\":\"%s\"", tally->set));
    return buffer_format(text, err,
                         ",\"not_replayable\":{\"all\":%" PRIu64 ",\"lacking_facts\":%" PRIu64 ",\"lacking_set\":%" PRIu64
                         ",\"omitted\":%" PRIu64 ",\"version_1\":%" PRIu64 "},\"verified\":%s}\n",
                         tally->impossible, tally->missing, tally->lacking_set, tally->omitted, tally->old,
                         replay_is_sound(tally) ? "true" : "false");
}

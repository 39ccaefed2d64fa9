/*
 * A label never becomes less strict. While a set is in force, labels are computed from it and not stored. If the next set
 * labels less, the old labels are stored with the existing repositories at that moment.
 */
#include "policy/decider/stored_label_priv.h"

#include <string.h>

#include "policy/decider/set_store.h"
#include "policy/evaluate.h" /* POLICY_SCOPE_MAX */
#include "policy/set_priv.h"

#define LABEL_TEXT_MAX   (16 * 1024)             /* as in migrations/0017_stored_labels.sql; the largest floor has less */
#define PATTERN_TEXT_MAX (32 * POLICY_SCOPE_MAX) /* each character of a pattern becomes fewer than 32 */
#define AFTER_ALL_NAMES  "~"

static bool is_wildcard(struct bytes segment)
{
    return segment.data[0] == '*'; /* "*" or "**": the shapes allow no other */
}

static bool is_any_depth(struct bytes segment)
{
    return segment.length == 2 && is_wildcard(segment);
}

static bool same_pattern(const struct scope_pattern *a, const struct scope_pattern *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!bytes_equal(a->segments[i], b->segments[i])) return false;
    return true;
}

/* Whether a pattern of the list contains `pattern`. The check is incomplete: a wrong "no" only stores a label that is not
 * needed. */
static bool holds(const struct scope_list *scopes, const struct scope_pattern *pattern)
{
    for (size_t i = 0; i < scopes->count; i++) {
        const struct scope_pattern *each = &scopes->patterns[i];
        if (same_pattern(each, pattern) || (each->count == 1 && is_any_depth(each->segments[0]))) return true;
    }
    return false;
}

bool stored_label_is_lost(const struct stored_label_moment *moment, const struct policy_document *old,
                          const struct scope_pattern *pattern)
{
    const struct policy_documents *documents = moment->documents;

    if (!old->has_floor || old->effective_from_us > moment->now_us) return false;
    for (size_t i = 0; i < documents->count; i++) {
        const struct policy_document *each = documents->documents[i];
        if (each->has_floor && each->effective_from_us <= moment->now_us && label_covers(&each->floor, &old->floor) &&
            holds(&each->scopes, pattern))
            return false;
    }
    return true;
}

/* The same as pattern_matches() of predicate.c, for "/acme/models/digits": each segment with the "/" before it. */
static struct result write_expression(const struct scope_pattern *pattern, struct buffer *text, struct error *err)
{
    TRY(buffer_add_u8(text, '^', err));
    for (size_t i = 0; i < pattern->count; i++) {
        const struct bytes segment = pattern->segments[i];
        if (is_wildcard(segment)) {
            TRY(buffer_add_text(text, is_any_depth(segment) ? "(/[^/]+)*" : "/[^/]+", err));
            continue;
        }
        TRY(buffer_add_u8(text, '/', err));
        for (size_t j = 0; j < segment.length; j++)
            TRY(segment.data[j] == '.' ? buffer_add_text(text, "[.]", err) : buffer_add_u8(text, segment.data[j], err));
    }
    return buffer_add_u8(text, '$', err);
}

/* The common prefix of all names in `pattern`, for the index. */
static struct result write_beginning(const struct scope_pattern *pattern, struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < pattern->count && !is_wildcard(pattern->segments[i]); i++) {
        if (i > 0) TRY(buffer_add_u8(text, '/', err));
        TRY(buffer_add(text, pattern->segments[i].data, pattern->segments[i].length, err));
    }
    return SUCCESS;
}

static struct result keep(struct pg *pg, const struct policy_document *old, const struct scope_pattern *pattern,
                          struct error *err)
{
    struct buffer OWNED_BUFFER label = BUFFER(LABEL_TEXT_MAX);
    struct buffer OWNED_BUFFER from = BUFFER(POLICY_SCOPE_MAX);
    struct buffer OWNED_BUFFER until = BUFFER(POLICY_SCOPE_MAX + sizeof AFTER_ALL_NAMES);
    struct buffer OWNED_BUFFER matching = BUFFER(PATTERN_TEXT_MAX);

    TRY(label_write(&label, &old->floor, err));
    TRY(write_beginning(pattern, &from, err));
    TRY(buffer_format(&until, err, "%s" AFTER_ALL_NAMES, buffer_text(&from)));
    TRY(write_expression(pattern, &matching, err));
    const struct stored_label_row row = {.policy = old->id,
                                         .label = buffer_text(&label),
                                         .from = buffer_text(&from),
                                         .until = buffer_text(&until),
                                         .matching = buffer_text(&matching)};
    return stored_label_insert(pg, &row, err);
}

struct result stored_labels_keep(struct pg *pg, const struct policy_set_change *load, struct error *err)
{
    const struct stored_label_moment moment = {load->set->documents, load->now_us};
    const size_t count = load->before == NULL ? 0 : load->before->documents->count;

    for (size_t i = 0; i < count; i++) {
        const struct policy_document *old = load->before->documents->documents[i];
        for (size_t j = 0; j < old->scopes.count; j++)
            if (stored_label_is_lost(&moment, old, &old->scopes.patterns[j])) TRY(keep(pg, old, &old->scopes.patterns[j], err));
    }
    return SUCCESS;
}
